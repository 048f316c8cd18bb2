"""Collectives, as one instruction each on pool, with the cores of every group written out; a later pass lowers them.

`all_to_all` has two forms: one array, cut and glued along `dim`; or one array for each member of a group, without
`dim`.
"""

from __future__ import annotations

from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.ops.scalar_body import named_combiner
from haulout.frontends.hlo.replica_groups import Groups, core_groups, core_pairs
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Operation
from haulout.ir.attributes import AttrValue


def _emit_all_reduce(out: Emitter, operation: Operation) -> None:
    shapes = _shapes(operation)
    groups = core_groups(operation.instruction, out.module)
    _expect_results(operation, shapes)
    attrs: dict[str, AttrValue] = {"op": _combiner(out, operation, shapes), "groups": _lists(groups)}
    out.compute(operation, attrs)


def _emit_all_gather(out: Emitter, operation: Operation) -> None:
    shapes, dim = _shapes(operation), _dim(operation)
    groups = core_groups(operation.instruction, out.module)
    size = _group_size(operation, groups)
    _expect_results(operation, [_scaled(shape, dim, size, 1) for shape in shapes])
    out.compute(operation, {"dim": dim, "groups": _lists(groups)})


def _emit_reduce_scatter(out: Emitter, operation: Operation) -> None:
    shapes, dim = _shapes(operation), _dim(operation)
    groups = core_groups(operation.instruction, out.module)
    size = _group_size(operation, groups)
    _expect_divisible(operation, shapes, dim, size)
    _expect_results(operation, [_scaled(shape, dim, 1, size) for shape in shapes])
    attrs: dict[str, AttrValue] = {"op": _combiner(out, operation, shapes), "dim": dim, "groups": _lists(groups)}
    out.compute(operation, attrs)


def _emit_all_to_all(out: Emitter, operation: Operation) -> None:
    shapes = _shapes(operation)
    groups = core_groups(operation.instruction, out.module)
    size = _group_size(operation, groups)
    attrs: dict[str, AttrValue] = {"groups": _lists(groups)}
    if "dimensions" in operation.instruction.attributes:
        operation.expect(len(shapes) == 1, "with `dimensions` there is one operand")
        attrs["dim"] = dim = _dim(operation)
        _expect_divisible(operation, shapes, dim, size)
    else:
        fits = len(shapes) == size and all(shape == shapes[0] for shape in shapes)
        operation.expect(fits, f"expected one operand of one shape for each of {size} members")
    _expect_results(operation, shapes)
    out.compute(operation, attrs)


def _emit_collective_permute(out: Emitter, operation: Operation) -> None:
    _expect_results(operation, _shapes(operation))
    pairs: list[AttrValue] = [list(pair) for pair in core_pairs(operation.instruction, out.module)]
    out.compute(operation, {"pairs": pairs})


def _shapes(operation: Operation) -> list[Shape]:
    operation.expect(bool(operation.operands), "expected at least one operand")
    return [operand.shape for operand in operation.operands]


def _expect_results(operation: Operation, shapes: list[Shape]) -> None:
    operation.expect_arity(len(shapes))
    for index, shape in enumerate(shapes):
        operation.expect_result(shape.dims, shape.dtype, index)


def _combiner(out: Emitter, operation: Operation, shapes: list[Shape]) -> str:
    operation.expect(all(shape.dtype == shapes[0].dtype for shape in shapes), "the operands differ in type")
    return named_combiner(out.module, operation, shapes[0].dtype)


def _dim(operation: Operation) -> int:
    dims = operation.integers("dimensions")
    fits = len(dims) == 1 and all(dims[0] < len(operand.shape.dims) for operand in operation.operands)
    operation.expect(fits, "`dimensions` must be one dimension of the operands")
    return dims[0]


def _group_size(operation: Operation, groups: Groups) -> int:
    sizes = {len(group) for group in groups}
    operation.expect(len(sizes) == 1, "the groups must be of one size")
    return len(groups[0])


def _expect_divisible(operation: Operation, shapes: list[Shape], dim: int, size: int) -> None:
    divides = all(shape.dims[dim] % size == 0 for shape in shapes)
    operation.expect(divides, f"dimension {dim} cannot be cut into {size} parts")


def _scaled(shape: Shape, dim: int, times: int, over: int) -> Shape:
    return Shape(shape.dtype, (*shape.dims[:dim], shape.dims[dim] * times // over, *shape.dims[dim + 1 :]))


def _lists(groups: Groups) -> list[AttrValue]:
    return [list(group) for group in groups]


_GROUPS = ("channel_id", "replica_groups", "use_global_device_ids")

RULES = {
    "all-reduce": Rule(_emit_all_reduce, (*_GROUPS, "to_apply")),
    "all-gather": Rule(_emit_all_gather, (*_GROUPS, "dimensions")),
    "reduce-scatter": Rule(_emit_reduce_scatter, (*_GROUPS, "dimensions", "to_apply")),
    "all-to-all": Rule(_emit_all_to_all, ("channel_id", "replica_groups", "dimensions")),
    "collective-permute": Rule(_emit_collective_permute, ("channel_id", "source_target_pairs")),
}
