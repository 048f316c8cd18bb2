"""`reduce` and `topk`: fewer elements out of many."""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.scalar_body import combiner
from haulout.frontends.hlo.values import Operation
from haulout.ir.enums import Engine


def _emit_reduce(out: Emitter, operation: Operation) -> None:
    count = len(operation.results)
    operation.expect_counts(2 * count, count)
    arrays, initial = operation.operands[:count], operation.operands[count:]
    dims, reduced = arrays[0].shape.dims, operation.integers("dimensions")
    fits = len(set(reduced)) == len(reduced) and all(dim < len(dims) for dim in reduced)
    operation.expect(fits, f"`dimensions` must be distinct and below {len(dims)}")
    operation.expect(all(array.shape.dims == dims for array in arrays), "the arrays differ in shape")
    kept = tuple(extent for dim, extent in enumerate(dims) if dim not in reduced)
    for index, (array, value) in enumerate(zip(arrays, initial, strict=True)):
        operation.expect(value.shape.dims == () and value.shape.dtype == array.shape.dtype, "bad initial value")
        operation.expect_result(kept, array.shape.dtype, index)
    attrs = combiner(out.module, operation, [array.shape.dtype for array in arrays])
    out.compute(operation, "reduce", Engine.VECTOR, {"dims": sorted(reduced), **attrs})


def _emit_topk(out: Emitter, operation: Operation) -> None:
    operation.expect_counts(1, 2)
    (operand,) = operation.operands
    k = operation.attribute("k", attributes.integer)
    largest = operation.attribute("largest", attributes.boolean, True)
    dims = operand.shape.dims
    operation.expect(bool(dims) and k <= dims[-1], f"there are no {k} elements along the last dimension")
    operation.expect_result((*dims[:-1], k), operand.shape.dtype, 0)
    operation.expect_result((*dims[:-1], k), "s32", 1)
    out.compute(operation, "topk", Engine.POOL, {"k": k, "largest": largest})


RULES = {
    "reduce": Rule(_emit_reduce, ("dimensions", "to_apply")),
    "topk": Rule(_emit_topk, ("k", "largest")),
}
