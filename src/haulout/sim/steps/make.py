"""Instructions as steps: functions without arguments, with views, attributes and kernels bound before the run.

The kernels are those of `sim/numerics`. Where one is a single NumPy function, the step is that function with
the result's view as `out`, so nothing is allocated or copied. Where a kernel gives a view of its operand, the view is
copied to its place. All other opcodes are `evaluate`d, and their results stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from haulout.ir.attributes import AttrValue
from haulout.ir.opcodes import lookup
from haulout.sim.memory.slots import Slot
from haulout.sim.numerics import (
    attributes,
    body,
    convolution,
    dot,
    elementwise,
    evaluate,
    indexing,
    reductions,
    shaping,
)
from haulout.sim.numerics.blocks import Index
from haulout.sim.numerics.body import Body, Statement
from haulout.sim.numerics.dtypes import F64, PRED, computes_in, is_complex, is_float
from haulout.sim.numerics.evaluate import explained
from haulout.sim.numerics.products import multiply
from haulout.sim.numerics.types import Array, TensorType
from haulout.sim.steps.elementwise import BlockMap, Plan, as_function
from haulout.support.diagnostics import bad_input

Step: TypeAlias = Callable[[], object]
"""A thread calls it; what it returns is not used."""
_Attrs: TypeAlias = Mapping[str, AttrValue]
Plans: TypeAlias = dict[tuple[object, ...], Plan]
_Make: TypeAlias = Callable[[_Attrs, Sequence[Slot], Sequence[Slot]], "Step | None"]


def make_step(
    opcode: str, attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot], plans: Plans | None = None
) -> Step:
    """The step of an instruction. Raises `bad-input` for one that no core can execute.

    `plans` keeps what instructions of the same attributes can share.
    """
    if lookup(opcode).collective:
        bad_input(f"`{opcode}` cannot be executed by a core", help=["compile the program: it lowers collectives"])
    plans = {} if plans is None else plans
    make = _MAKERS.get(opcode)
    if opcode in elementwise.OPCODES:
        make = partial(_elementwise, opcode, plans)
    elif opcode in _MAPS:
        make = partial(_MAPS[opcode], plans)
    made = None
    if make is not None:
        with explained(opcode, [slot.type for slot in reads], [slot.type for slot in writes]):
            made = make(attrs, reads, writes)
    return made if made is not None else partial(_evaluate, opcode, attrs, reads, writes)


def copy_step(source: Slot, target: Slot) -> Step:
    """The bytes of an operand, in order, to another one of as many bytes."""
    if source.view is not None and target.view is not None and source.type == target.type:
        return partial(np.copyto, target.view, source.view)
    if len(source.pieces) == len(target.pieces) == 1:
        one, two = source.pieces[0], target.pieces[0]
        if one.ndim == 1 and one.flags.c_contiguous:
            return partial(np.copyto, two, one.view(two.dtype).reshape(two.shape))
        if two.ndim == 1 and two.flags.c_contiguous:
            return partial(np.copyto, two.view(one.dtype).reshape(one.shape), one)
        if one.dtype == two.dtype and one.shape == two.shape:
            return partial(np.copyto, two, one)

    kind = target.type

    def copy() -> None:
        target.write(source.read().reshape(-1).view(np.uint8).view(kind.dtype).reshape(kind.shape))

    return copy


def _evaluate(opcode: str, attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]) -> None:
    inputs = [slot.read() for slot in reads]
    if opcode in _ORDERING:
        inputs = [array.copy() for array in inputs]
    results = evaluate(opcode, attrs, inputs, [slot.type for slot in writes])
    for slot, result in zip(writes, results, strict=True):
        slot.write(result)


def _is_free(out: Slot, reads: Sequence[Slot]) -> bool:
    """Whether a result can be written piece by piece: it shares no bytes with an operand, or is that operand."""
    return out.view is not None and all(out.same_as(slot) or not out.meets(slot) for slot in reads)


def _elementwise(
    opcode: str, plans: Plans, attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]
) -> Step | None:
    expected = lookup(opcode).operands
    if expected is None or (len(reads), len(writes)) != expected.counts():
        return None
    out, types = writes[0], [slot.type.dtype for slot in reads]
    if any(is_complex(each) for each in (out.type.dtype, *types)):
        return None
    may_be_scalar = elementwise.MAY_BE_SCALAR.get(opcode, ())
    for position, slot in enumerate(reads):
        if slot.type.shape != out.type.shape and (slot.type.size != 1 or position not in may_be_scalar):
            return None
    if opcode == "copy" and types[0] == out.type.dtype == computes_in(types[0]):
        return copy_step(reads[0], out)
    if opcode == "convert" and _is_cast(types[0], out.type.dtype) and reads[0].view is not None:
        if out.view is not None:
            return partial(np.copyto, out.view, reads[0].view, casting="unsafe")
        return None
    extra = attributes.word(attrs, "direction", tuple(elementwise.COMPARISONS)) if opcode == "compare" else None
    statement = Statement(opcode, out.type.dtype, tuple(range(len(reads))), extra)
    step = Body(len(reads), (statement,), (len(reads),))
    views = [slot.view for slot in reads]
    mapped = _planned(plans, (opcode, out.type), lambda: step, reads, out.type.shape)
    function = as_function(statement, types)
    is_plain = all(slot.type.shape == out.type.shape for slot in reads) and out.view is not None
    if isinstance(function, np.ufunc) and is_plain and all(view is not None for view in views):
        is_contiguous = all(slot.contiguous for slot in (*reads, out))
        if not mapped.plan.operations[0].is_approximate or (is_contiguous and not any(map(out.meets, reads))):
            return partial(function, *views, out=out.view)
    return _mapped(mapped, reads, out)


def _planned(
    plans: Plans, name: tuple[object, ...], parse: Callable[[], Body], reads: Sequence[Slot], shape: tuple[int, ...]
) -> BlockMap:
    """A computation of some name on operands, planned once for all operands of the same types."""
    types = [slot.type for slot in reads]
    key = *name, shape, *types
    if key not in plans:
        plans[key] = Plan(parse(), types, shape)
    return BlockMap(plans[key], reads)


def _is_cast(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether `rounding.convert` is one cast of NumPy."""
    if target == PRED or (is_float(source) and not is_float(target)):
        return False
    wide = computes_in(source)
    return wide == target or (wide == source and not (computes_in(target) != target and wide == F64))


def _mapped(mapped: BlockMap, reads: Sequence[Slot], out: Slot) -> Step | None:
    if mapped.plan.dtype != out.type.dtype:
        return None
    if _is_free(out, reads) and out.view is not None:
        return partial(mapped.run, out.view)

    def run() -> None:
        result = np.empty(out.type.shape, out.type.dtype)
        mapped.run(result)
        out.write(result)

    return run


def _map(plans: Plans, attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]) -> Step | None:
    if not reads or len(writes) != 1:
        return None
    shape = writes[0].type.shape
    return _mapped(
        _planned(plans, ("map",), lambda: body.parse(attrs, len(reads), 1), reads, shape), reads, writes[0]
    )


def _map_reduce(plans: Plans, attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]) -> Step | None:
    if len(reads) < 2 or len(writes) != 1:
        return None
    *arrays, initial = reads
    whole = max((slot.type.shape for slot in arrays), key=lambda shape: (np.prod(shape), len(shape)))
    mapped = _planned(plans, ("map_reduce",), lambda: body.parse(attrs, len(arrays), 1), arrays, whole)
    reduced = {"dims": attrs.get("dims", []), "op": attrs.get("op", "")}
    out, kept = writes[0], min(attributes.integers(reduced, "dims"), default=0)
    expected = tuple(extent for dim, extent in enumerate(whole) if dim not in attributes.integers(reduced, "dims"))
    if mapped.plan.dtype != out.type.dtype or expected != out.type.shape or not 0 <= kept <= len(whole):
        return None
    in_place = out.view is not None and not any(map(out.meets, reads))

    def run() -> None:
        first = initial.read()
        target = out.view if in_place and out.view is not None else np.empty(out.type.shape, out.type.dtype)

        def use(index: Index, values: Array) -> None:
            (target[index],) = reductions.reduce(reduced, [values, first], [out.type])

        mapped.each(kept, use)
        if not in_place:
            out.write(target)

    return run


def _dma_copy(attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]) -> Step | None:
    if len(reads) != 1 or len(writes) != 1:
        return None
    if reads[0].type.nbytes != writes[0].type.nbytes:
        bad_input(f"`dma_copy` reads {reads[0].type.nbytes} bytes and writes {writes[0].type.nbytes}")
    return copy_step(reads[0], writes[0])


def _view(
    kernel: Callable[[_Attrs, Sequence[Array], Sequence[TensorType]], list[Array]],
    attrs: _Attrs,
    reads: Sequence[Slot],
    writes: Sequence[Slot],
) -> Step | None:
    """A kernel whose result is a view of its first operand, or does not depend on memory: found once, then copied."""
    views = [slot.view for slot in reads]
    if len(writes) != 1 or len(reads) > 1 or writes[0].view is None or any(view is None for view in views):
        return None
    (result,) = kernel(attrs, [view for view in views if view is not None], [writes[0].type])
    if (result.shape, result.dtype) != (writes[0].type.shape, writes[0].type.dtype):
        return None
    if reads and result.size and not np.may_share_memory(result, reads[0].arena):
        return None
    return partial(np.copyto, writes[0].view, result)


def _dynamic_slice(attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]) -> Step | None:
    if len(writes) != 1 or not reads or reads[0].view is None or writes[0].view is None:
        return None
    operand, out, starts = reads[0].view, writes[0].view, reads[1:]
    sizes = attributes.integers(attrs, "sizes")
    if (tuple(sizes), operand.dtype) != (out.shape, out.dtype):
        return None

    def run() -> None:
        np.copyto(out, operand[indexing.clamped_slices(operand, [start.read() for start in starts], sizes)])

    return run


def _dynamic_update_slice(attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]) -> Step | None:
    if len(writes) != 1 or len(reads) < 2:
        return None
    place, update, *starts = reads
    out = writes[0]
    old, new, target = place.view, update.view, out.view
    if old is None or new is None or target is None or out.type != place.type:
        return None
    if new.ndim != old.ndim or new.dtype != old.dtype or any(out.meets(slot) for slot in (update, *starts)):
        return None
    in_place = out.same_as(place)
    if not in_place and out.meets(place):
        return None

    def run() -> None:
        if not in_place:
            np.copyto(target, old)
        target[indexing.clamped_slices(target, [start.read() for start in starts], new.shape)] = new

    return run


def _combine(attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]) -> Step | None:
    if len(writes) != 1 or len(reads) < 2:
        return None
    out, kind = writes[0], writes[0].type
    if any(slot.view is None or slot.type != kind for slot in (*reads, out)) or computes_in(kind.dtype) != kind.dtype:
        return None
    if any(out.meets(slot) for slot in reads[2:]) or not _is_free(out, reads[:2]):
        return None
    function = reductions.combiner(attrs, kind.dtype)
    first, second, *others = [slot.view for slot in reads]
    target = out.view

    def run() -> None:
        function(first, second, out=target)
        for other in others:
            function(target, other, out=target)

    return run


def _dot(attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]) -> Step | None:
    if len(reads) != 2 or len(writes) != 1 or not writes[0].contiguous:
        return None
    out, kinds = writes[0], [slot.type for slot in reads]
    product = dot.parse(attrs, kinds[0], kinds[1], out.type.dtype)
    if out.view is None or product.carried != out.type.dtype or product.shape != out.type.shape:
        return None
    if any(map(out.meets, reads)):
        return None
    target = out.view.reshape(product.stack)

    is_view = all(slot.contiguous and slot.type.dtype == product.carried for slot in reads)
    known: list[tuple[Array, Array]] = []

    def run() -> None:
        if known:
            multiply(*known[0], target)
            return
        # A strided operand is gathered first: what BLAS computes may depend on how its operands lie.
        sides = product.side(0, reads[0].read()), product.side(1, reads[1].read())
        if is_view and all(np.may_share_memory(side, out.arena) for side in sides):
            known.append(sides)
        multiply(*sides, target)

    return run


def _convolution(attrs: _Attrs, reads: Sequence[Slot], writes: Sequence[Slot]) -> Step | None:
    if len(reads) != 2 or len(writes) != 1 or writes[0].view is None or any(map(writes[0].meets, reads)):
        return None
    target, kinds = writes[0].view, [[slot.type for slot in slots] for slots in (reads, writes)]

    def run() -> None:
        with explained("convolution", *kinds):
            convolution.convolve(attrs, [slot.read() for slot in reads], target)

    return run


_ORDERING = ("sort", "topk")
"""They take copies. In a program with a race another core may write while NumPy sorts, and its loops rely on the
order of what they have seen.
"""

_MAPS = {"map": _map, "map_reduce": _map_reduce}
_MAKERS: dict[str, _Make] = {
    "dma_copy": _dma_copy,
    "broadcast": partial(_view, shaping.broadcast),
    "iota": partial(_view, shaping.iota),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "combine": _combine,
    "dot": _dot,
    "convolution": _convolution,
}
"""Of other opcodes; a function gives None where the operands need `evaluate`."""
