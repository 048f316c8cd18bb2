"""Element-wise operations that become part of those that read their results, so that no result between is stored.

An array is *fused* into its readers when all of them compute it again from its operands: then it needs no bytes. The
readers are element-wise operations, movements that are stored (`movements.py`), or reductions of one array by a named
operation. They follow it in the same straight piece of the steps, so nothing is computed more often than before
because of a loop or an arm. An array that a boundary or another operation reads, and a result of the program, is
stored in any case and stays a whole one.

An array is fused where

    time     the readers do not read more bytes than storing the array moves: writing it, reading its operands once,
             and every read of it. So an array with several readers is computed again where that is cheaper;
    space    the most bytes that live at one time between it and its last reader do not grow, although its operands
             may have to live longer (`live_bytes.py`); in a second round, they stay below the peak of all times.
             No operand lives longer than the storage that a loop's new state or a donated parameter takes over;
    size     the readers have at most `MAX_OPERANDS` operands and `MAX_STATEMENTS` statements.

Arrays are looked at in the order of the steps, so each is looked at with what was fused into it. The expressions of
the readers are kept as `expressions.py` has them; in the end each changed reader is one `map` or `map_reduce`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Literal

from haulout.frontends.hlo.coalescing import live_ranges
from haulout.frontends.hlo.expressions import Expression, Fused, of_operation, of_view, substituted
from haulout.frontends.hlo.flatten import Flat
from haulout.frontends.hlo.literals import PARTS
from haulout.frontends.hlo.live_bytes import LiveBytes
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.movements import strided_cost
from haulout.frontends.hlo.opcodes import ELEMENTWISE
from haulout.frontends.hlo.ops import elementwise
from haulout.frontends.hlo.ops.reduction import is_named
from haulout.frontends.hlo.values import Array, Loop, Operation, Stage, Step, View, check_attributes, leaves
from haulout.frontends.hlo.views import MOVEMENTS

Fuse = Literal["none", "all"]
"""What is fused."""
MAX_OPERANDS = 12
"""Each is a stream of its own that an engine reads; the work of finding conflicts grows with the operands."""
MAX_STATEMENTS = 64
"""The body is a text that every pass over attributes reads; and while an engine computes it, values live that no one
counts."""
MAX_DISTANCE = 4096
"""Steps between an array and its last reader: a look at the bytes between takes as long."""
_NOT_IN_BODIES = ("bitcast-convert", "reduce-precision")


def fuse_elementwise(module: HloModule, flat: Flat, steps: Sequence[Step]) -> list[Step]:
    """The steps, without those whose results are fused into their readers.

    Raises `HauloutError` (`bad-input`) on an element-wise operation that is not well formed.
    """
    return _Fusion(module, flat, steps).run()


class _Fusion:
    """The expressions of all readers, and who reads what."""

    def __init__(self, module: HloModule, flat: Flat, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.expressions: dict[Operation, Expression] = {}
        """Of those that are neither fused nor without one."""
        self.readers: defaultdict[Array, dict[Operation, None]] = defaultdict(dict)
        """With expressions, in the order of the steps."""
        self.at: dict[Operation, int] = {}
        self.piece: dict[Operation, int] = {}
        """Steps of one number have no boundary between them."""
        results = [view.array for _, view in leaves(flat.result)]
        self.stored: set[Array] = set(results)
        """Arrays that are not fused."""
        self.changed: set[Operation] = set()
        self.fused: set[Step] = set()
        piece = 0
        for at, step in enumerate(steps):
            if not isinstance(step, Operation):
                piece += 1
                self.stored.update(step.reads())
                continue
            self.at[step], self.piece[step] = at, piece
            expression = _expression(module, step)
            if expression is None:
                self.stored.update(view.array for view in step.operands)
                continue
            self._put(step, expression)
            if step.opcode == "reduce":
                self.stored.add(step.operands[1].array)
        aliases = _aliases(module, flat)
        ranges = live_ranges(steps, aliases, results)
        self.live = LiveBytes(ranges, len(steps), aliases | _new_states(steps))

    def run(self) -> list[Step]:
        """Two rounds, then the steps that are left."""
        for below in (lambda: 0, lambda: self.live.peak):
            for step in self.steps:
                if isinstance(step, Operation) and step in self.expressions and step.opcode in _FUSIBLE:
                    self._try(step, below)
        return [self._final(step) for step in self.steps if step not in self.fused]

    def _try(self, step: Operation, below: Callable[[], int]) -> None:
        """Fuse the result of a step, if that is possible and worth it."""
        array, mine = step.results[0], self.expressions[step]
        readers = self.readers[array]
        if array in self.stored or not readers or prod(mine.dims) == 1:
            return
        if any(self.piece[reader] != self.piece[step] for reader in readers):
            return
        if step.split is not None and not all(self._takes_split(step, reader) for reader in readers):
            return
        if max(self.at[reader] for reader in readers) - self.at[step] > MAX_DISTANCE:
            return
        found = {reader: substituted(self.expressions[reader], array, mine) for reader in readers}
        fused = {reader: each for reader, each in found.items() if each is not None and _fits(each)}
        if len(fused) == len(found) and self._saves_time(array, mine, fused):
            self._fuse(step, fused, below)

    def _takes_split(self, step: Operation, reader: Operation) -> bool:
        """Whether a cut that is asked for of a step means the same for what reads its result."""
        array = step.results[0]
        views = [view for view in self.expressions[reader].operands if view.array is array]
        alike = reader.results[0].shape.dims == array.shape.dims and all(view.layout is None for view in views)
        return alike and reader.split in (None, step.split)

    def _saves_time(self, array: Array, mine: Expression, fused: Mapping[Operation, Expression]) -> bool:
        """Whether the readers move no more bytes than they and the step did."""
        before = View(array, array.shape).nbytes + _bytes_read(mine)
        before += sum(_bytes_read(self.expressions[reader]) for reader in fused)
        return sum(map(_bytes_read, fused.values())) <= before

    def _fuse(self, step: Operation, fused: Mapping[Operation, Expression], below: Callable[[], int]) -> None:
        """Fuse the result of a step where the bytes that live allow it."""
        array, since = step.results[0], 2 * self.at[step]
        until: dict[Array, int] = {}
        for reader, expression in fused.items():
            for view in expression.operands:
                time = 2 * self.at[reader] + (not _may_overwrite(reader, view))
                until[view.array] = max(until.get(view.array, time), time)
        extended: dict[Array, tuple[int, int]] = {}
        for view in self.expressions[step].operands:
            extension = self.live.extension(view.array, since, until.get(view.array, since))
            if extension is not None:
                extended[view.array] = extension
        if any(self.live.blocks(*each) for each in extended.items()):
            return
        last = 2 * max(self.at[reader] for reader in fused) + 1
        before, after = self.live.change(array, extended, since, last)
        if after > max(before, below()):
            return
        self.live.apply(array, extended)
        self._drop(step)
        self.fused.add(step)
        for reader, expression in fused.items():
            self._drop(reader)
            self._put(reader, expression)
            self.changed.add(reader)
            reader.split = step.split if reader.split is None else reader.split

    def _put(self, step: Operation, expression: Expression) -> None:
        self.expressions[step] = expression
        for view in expression.operands:
            self.readers[view.array][step] = None

    def _drop(self, step: Operation) -> None:
        for view in self.expressions.pop(step).operands:
            self.readers[view.array].pop(step, None)

    def _final(self, step: Step) -> Step:
        """A step as it is executed."""
        if not isinstance(step, Operation) or step not in self.changed:
            return step
        expression = self.expressions[step]
        initial = step.operands[1:] if step.opcode == "reduce" else ()
        fused = Fused(step.instruction, (*expression.operands, *initial), step.results, step.seq, expression)
        fused.split = step.split
        step.results[0].producer = fused
        return fused


def _views(step: Operation) -> list[View]:
    return [*step.operands, step.result]


_FUSIBLE = frozenset(ELEMENTWISE) - set(_NOT_IN_BODIES)


def _expression(module: HloModule, step: Operation) -> Expression | None:
    """What a reader computes of each element; None: it reads arrays only as they are stored."""
    if step.opcode == "reduce":
        return of_view(step.operands[0]) if is_named(module, step) else None
    if step.opcode in MOVEMENTS:
        return of_view(MOVEMENTS[step.opcode].view(step))
    if step.opcode not in _FUSIBLE or any(each.shape.dtype in PARTS for each in _views(step)):
        return None
    check_attributes(step.instruction, elementwise.RULES[step.opcode].attributes)
    direction = elementwise.check(step).get("direction", "")
    return of_operation(step, str(direction))


def _fits(expression: Expression) -> bool:
    """Whether it is small, and an operand has the extents of the result."""
    whole = any(view.shape.dims == expression.dims for view in expression.operands)
    return whole and len(expression.operands) <= MAX_OPERANDS and len(expression.statements) <= MAX_STATEMENTS


def _bytes_read(expression: Expression) -> int:
    """Bytes that its operands cost."""
    return sum(view.nbytes if view.layout is None else strided_cost(view) for view in expression.operands)


def _may_overwrite(reader: Operation, view: View) -> bool:
    """Whether a `map` may write its result over this operand."""
    result = reader.result
    same = view.nbytes == result.nbytes and view.itemsize == result.itemsize
    return reader.opcode != "reduce" and same and view.layout is None


def _aliases(module: HloModule, flat: Flat) -> dict[Array, Array]:
    """Parameter -> the result that is stored over it; what is not well formed is found later (`storage.py`)."""
    outputs = dict(leaves(flat.result))
    found: dict[Array, Array] = {}
    for alias in module.aliases:
        parameters = dict(leaves(flat.parameters[alias.parameter])) if alias.parameter < len(flat.parameters) else {}
        output, parameter = outputs.get(alias.output), parameters.get(alias.parameter_index)
        if output is not None and parameter is not None:
            found[parameter.array] = output.array
    return found


def _new_states(steps: Sequence[Step]) -> dict[Array, Array]:
    """State of a loop -> its new value."""
    return {
        each.state: each.new.array
        for step in steps
        if not isinstance(step, Operation) and step.stage is Stage.LEAVE and isinstance(step.region, Loop)
        for each in step.loop.carried
    }
