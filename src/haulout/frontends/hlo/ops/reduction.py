"""`reduce`, `topk` and `sort`: along a dimension, elements are combined, chosen or ordered."""

from __future__ import annotations

from collections.abc import Sequence

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.ops.scalar_body import combiner, sort_order
from haulout.frontends.hlo.values import Operation, View
from haulout.ir.attributes import AttrValue


def _emit_reduce(out: Emitter, operation: Operation) -> None:
    count = len(operation.results)
    operation.expect_arity(count)
    arrays, initial = operation.operands[:count], operation.operands[count:]
    reduced = _reduced(operation, arrays, initial)
    attrs = combiner(out.module, operation, [array.shape.dtype for array in arrays])
    out.compute(operation, {"dims": reduced, **attrs})


def _reduced(operation: Operation, arrays: Sequence[View], initial: Sequence[View]) -> list[AttrValue]:
    """The dimensions that a reduction of these arrays takes away; fails unless all fits."""
    dims, reduced = arrays[0].shape.dims, operation.integers("dimensions")
    fits = len(set(reduced)) == len(reduced) and all(dim < len(dims) for dim in reduced)
    operation.expect(fits, f"`dimensions` must be distinct and below {len(dims)}")
    operation.expect(all(array.shape.dims == dims for array in arrays), "the arrays differ in shape")
    kept = tuple(extent for dim, extent in enumerate(dims) if dim not in reduced)
    for index, (array, value) in enumerate(zip(arrays, initial, strict=True)):
        operation.expect(value.shape.dims == () and value.shape.dtype == array.shape.dtype, "bad initial value")
        operation.expect_result(kept, array.shape.dtype, index)
    return [*sorted(reduced)]


def is_named(module: HloModule, operation: Operation) -> bool:
    """Whether a `reduce` takes one array and has a name for what it does."""
    if len(operation.operands) != 2 or len(operation.results) != 1:
        return False
    return "op" in combiner(module, operation, [operation.operands[0].shape.dtype])


def named_attributes(module: HloModule, operation: Operation, reduced: View) -> dict[str, AttrValue]:
    """The attributes of such a `reduce`, as if it read the array `reduced`."""
    dims = _reduced(operation, [reduced], operation.operands[-1:])
    return {"dims": dims, **combiner(module, operation, [reduced.shape.dtype])}


def _emit_topk(out: Emitter, operation: Operation) -> None:
    operation.expect_arity()
    (operand,) = operation.operands
    k = operation.attribute("k", attributes.integer)
    largest = operation.attribute("largest", attributes.boolean, True)
    operation.attribute("is_stable", attributes.boolean, False)  # it is in any case
    dims = operand.shape.dims
    operation.expect(bool(dims) and k <= dims[-1], f"there are no {k} elements along the last dimension")
    operation.expect_result((*dims[:-1], k), operand.shape.dtype, 0)
    operation.expect_result((*dims[:-1], k), "s32", 1)
    out.compute(operation, {"k": k, "largest": largest})


def _emit_sort(out: Emitter, operation: Operation) -> None:
    count = len(operation.operands)
    operation.expect(count > 0, "expected an operand")
    operation.expect_arity(count)
    dims = operation.operands[0].shape.dims
    lines = operation.integers("dimensions")
    operation.expect(len(lines) == 1 and lines[0] < len(dims), f"`dimensions` must be one, below {len(dims)}")
    for index, operand in enumerate(operation.operands):
        operation.expect(operand.shape.dims == dims, "the arrays differ in shape")
        operation.expect_result(dims, operand.shape.dtype, index)
    operation.attribute("is_stable", attributes.boolean, False)  # it is in any case
    order = sort_order(out.module, operation, [operand.shape.dtype for operand in operation.operands])
    out.compute(operation, {"dim": lines[0], **order})


RULES = {
    "reduce": Rule(_emit_reduce, ("dimensions", "to_apply")),
    "topk": Rule(_emit_topk, ("k", "largest", "is_stable")),
    "sort": Rule(_emit_sort, ("dimensions", "is_stable", "to_apply")),
}
