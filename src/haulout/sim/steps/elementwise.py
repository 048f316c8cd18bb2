"""Element-wise work, block by block: `map`, `map_reduce` and single operations.

What is between the statements of a `map` is as large as its result. So the elements are cut into blocks, and all
statements run on a block before the next one begins: what is between them stays in the cache, and takes
little memory.
The bits are those of whole arrays: a statement that is exact gives them in any layout; a function that NumPy
approximates gets contiguous arrays, as in the simulator, and no block has one element unless the whole has.

The result may be written block by block where it shares no bytes with an operand, or is the same array as it. What is
reduced is made block by block, too, where blocks need not cut the dimensions that are reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from haulout.ir.enums import Engine
from haulout.ir.opcodes import lookup
from haulout.sim.memory.slots import Slot
from haulout.sim.numerics import elementwise
from haulout.sim.numerics.blocks import Index, blocks
from haulout.sim.numerics.body import Body, Statement
from haulout.sim.numerics.dtypes import computes_in, is_float
from haulout.sim.numerics.scratch import scratch
from haulout.sim.numerics.types import Array, DType, TensorType
from haulout.support.diagnostics import bad_input

BLOCK = 1 << 18
"""Elements of a block. A few arrays of so many are in the cache that the cores share. Smaller blocks would be in the
cache of one core, but after each operation its thread needs Python's lock, and waits for the threads of other cores.
"""
_RESULT = -1
"""The place of a statement that writes the result itself."""


class _Operation(NamedTuple):
    """A statement, prepared."""

    number: int
    """Of its value."""
    operands: tuple[int, ...]
    function: Callable[..., Any]
    place: int | None
    """The scratch array that its function writes; None: the function makes an array."""
    is_approximate: bool
    """It gets all operands as contiguous arrays of the block's shape."""
    dead: tuple[int, ...]
    """Values that nothing reads after it."""


class Plan:
    """A scalar computation over the elements of operands of some types; the result has one shape and type.

    Raises `bad-input` where the computation is not defined on these types.
    """

    def __init__(self, step: Body, types: Sequence[TensorType], shape: tuple[int, ...]) -> None:
        self.shape, self.result = shape, step.results[0]
        self.is_whole = [kind.shape == shape for kind in types]
        for position, kind in enumerate(types):
            if not self.is_whole[position] and kind.size != 1:
                bad_input(f"operand {position} has shape {list(kind.shape)}, the elements {list(shape)}")
        samples = [
            np.zeros((2,) if whole else (), kind.dtype) for kind, whole in zip(types, self.is_whole, strict=True)
        ]
        self.dtype: DType = step(*samples, shape=(2,))[0].dtype
        self._prepare(step, samples)

    def _prepare(self, step: Body, samples: Sequence[Array]) -> None:
        """Choose functions and scratch arrays; a scratch array is used again when nothing reads it any more."""
        first = len(samples)
        types = [sample.dtype for sample in samples]
        is_full = list(self.is_whole)
        last = {number: at for at, each in enumerate(step.statements) for number in each.operands}
        self.constants: list[Array | None] = [None] * len(step.statements)
        """Of each statement that is a constant: its value."""
        self.between: list[DType] = []
        self.operations: list[_Operation] = []
        free: list[int] = []
        places: dict[int, int] = {}
        for at, statement in enumerate(step.statements):
            number = first + at
            types.append(statement.dtype)
            if statement.opcode == "constant":
                self.constants[at] = np.array(statement.extra).astype(statement.dtype)
                is_full.append(False)
                continue
            is_approximate = lookup(statement.opcode).engine is Engine.ACT
            is_full.append(is_approximate or any(is_full[each] for each in statement.operands))
            dead = {each for each in statement.operands if last[each] == at and each not in step.results}
            function = as_function(statement, [types[each] for each in statement.operands])
            may_overwrite = isinstance(function, np.ufunc) and not is_approximate
            released = [places[each] for each in sorted(dead & places.keys())]
            if may_overwrite:
                free += released  # an exact ufunc may write the array that it reads
            place = None
            if function is not None and is_full[number]:
                is_last = at == len(step.statements) - 1 and number == self.result
                if is_last and may_overwrite:
                    place = _RESULT
                else:
                    place = next((each for each in free if self.between[each] == statement.dtype), None)
                    if place is None:
                        place = len(self.between)
                        self.between.append(statement.dtype)
                    else:
                        free.remove(place)
                    places[number] = place
            if not may_overwrite:
                free += released
            used = _applied(statement) if function is None or place is None else function
            self.operations.append(_Operation(number, statement.operands, used, place, is_approximate, tuple(dead)))


class BlockMap:
    """A plan and its operands."""

    def __init__(self, plan: Plan, reads: Sequence[Slot]) -> None:
        self.plan, self.reads = plan, reads

    def run(self, out: Array) -> None:
        """Write the result to an array of its shape."""
        if out.size == 0:
            return
        whole, values = self.plan.is_whole, self._values()
        if out.flags.c_contiguous and all(value.flags.c_contiguous for value in values):
            values = [value.reshape(-1) if full else value for value, full in zip(values, whole, strict=True)]
            out = out.reshape(-1)
        for index in blocks(out.shape, BLOCK):
            inside = [value[index] if full else value for value, full in zip(values, whole, strict=True)]
            self._block(inside, out[index])

    def each(self, kept: int, use: Callable[[Index, Array], None]) -> None:
        """Make the result in blocks that cut only the first `kept` dimensions; `use` gets each, with its index."""
        whole, values = self.plan.is_whole, self._values()
        like = np.broadcast_to(np.zeros((), self.plan.dtype), self.plan.shape)
        for index in blocks(self.plan.shape, BLOCK, len(self.plan.shape) - kept):
            with scratch() as take:
                part = take(like[index].shape, self.plan.dtype)
                inside = [value[index] if full else value for value, full in zip(values, whole, strict=True)]
                self._block(inside, part)
                use(index, part)

    def _values(self) -> list[Array]:
        """The operands of all elements as arrays, those of one element as copies without dimensions."""
        return [
            (slot.read() if slot.view is None else slot.view) if full else slot.read().reshape(()).copy()
            for slot, full in zip(self.reads, self.plan.is_whole, strict=True)
        ]

    def _block(self, values: list[Any], out: Array) -> None:
        with scratch() as take:
            self._execute(values, out, [take(out.shape, dtype) for dtype in self.plan.between])

    def _execute(self, values: list[Any], out: Array, between: list[Array]) -> None:
        values += self.plan.constants
        for number, operands, function, place, is_approximate, dead in self.plan.operations:
            taken = [values[each] for each in operands]
            if is_approximate:
                taken = [_filled(each, out.shape) for each in taken]
            if place is None:
                values[number] = np.asarray(function(*taken))
            else:
                values[number] = function(*taken, out=out if place == _RESULT else between[place])
            for each in dead:
                values[each] = None
        if values[self.plan.result] is not out:
            np.copyto(out, values[self.plan.result])


def as_function(statement: Statement, types: Sequence[DType]) -> Callable[..., Any] | None:
    """The function with `out` that computes a statement, nothing to convert before or after; None: there is none."""
    if statement.opcode == "select":
        return elementwise.INTO_OUT["select"]
    if any(computes_in(dtype) != dtype for dtype in (*types, statement.dtype)):
        return None
    function: Any = elementwise.FUNCTIONS.get(statement.opcode)
    if statement.opcode == "compare":
        function = elementwise.COMPARISONS.get(str(statement.extra))
    elif is_float(types[0]) and statement.opcode in elementwise.OF_FLOATS:
        function = elementwise.OF_FLOATS[statement.opcode]
    return function if isinstance(function, np.ufunc) else elementwise.INTO_OUT.get(statement.opcode)


def _applied(statement: Statement) -> Callable[..., Array]:
    direction = statement.extra if isinstance(statement.extra, str) else None
    return lambda *operands: elementwise.apply(statement.opcode, operands, statement.dtype, direction)


def _filled(value: Array, shape: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(np.broadcast_to(value, shape))
