"""`gather` and `scatter`, with all of HLO's dimension numbers; lists that are empty are left out."""

from __future__ import annotations

from collections.abc import Sequence

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.ops.scalar_body import combiner, returns_second
from haulout.frontends.hlo.values import Operation, View
from haulout.ir.attributes import AttrValue

_GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
_SCATTER = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
)


def _emit_gather(out: Emitter, operation: Operation) -> None:
    operation.expect_arity()
    operand, indices = operation.operands
    offset, collapsed, index_map, batching, indices_batching = _lists(operation, _GATHER)
    vector = operation.attribute("index_vector_dim", attributes.integer)
    sizes = operation.integers("slice_sizes")
    dims = operand.shape.dims
    inside = len(sizes) == len(dims) and all(size <= extent for size, extent in zip(sizes, dims, strict=True))
    operation.expect(inside, "`slice_sizes` must be inside the operand")
    dropped = collapsed + batching
    _expect_distinct(operation, dropped, len(dims), "collapsed and batching dimensions")
    operation.expect(all(sizes[dim] == 1 for dim in dropped), "collapsed slices must have size 1")
    batch = _batch_dims(operation, operand, indices, vector, index_map, batching, indices_batching)
    window = [size for dim, size in enumerate(sizes) if dim not in dropped]
    operation.expect_result(_interleave(operation, batch, window, offset), operand.shape.dtype)
    attrs = _attrs(operation, _GATHER)
    out.compute(operation, {**attrs, "index_vector_dim": vector, "slice_sizes": list(sizes)})


def _emit_scatter(out: Emitter, operation: Operation) -> None:
    count = len(operation.results)
    operation.expect_arity(count)
    operands, indices, updates = (
        operation.operands[:count],
        operation.operands[count],
        operation.operands[count + 1 :],
    )
    window_dims, inserted, index_map, batching, indices_batching = _lists(operation, _SCATTER)
    vector = operation.attribute("index_vector_dim", attributes.integer)
    dims, update = operands[0].shape.dims, updates[0].shape.dims
    dropped = inserted + batching
    _expect_distinct(operation, dropped, len(dims), "inserted and batching dimensions")
    _expect_distinct(operation, window_dims, len(update), "update window dimensions")
    kept = [extent for dim, extent in enumerate(dims) if dim not in dropped]
    window = [update[dim] for dim in window_dims]
    fits = len(window) == len(kept) and all(size <= extent for size, extent in zip(window, kept, strict=True))
    operation.expect(fits, "the window of an update must be inside the operand")
    batch = _batch_dims(operation, operands[0], indices, vector, index_map, batching, indices_batching)
    operation.expect(
        _interleave(operation, batch, window, window_dims) == update, "the updates do not fit the indices"
    )
    for index, (operand, new) in enumerate(zip(operands, updates, strict=True)):
        alike = operand.shape.dims == dims and new.shape.dims == update and new.shape.dtype == operand.shape.dtype
        operation.expect(alike, "operands, or updates, differ in shape or type")
        operation.expect_result(dims, operand.shape.dtype, index)
    attrs = _attrs(operation, _SCATTER)
    if count == 1 and returns_second(out.module, operation, operands[0].shape.dtype):
        attrs["op"] = "assign"
    else:
        attrs |= combiner(out.module, operation, [operand.shape.dtype for operand in operands])
    out.compute(operation, {**attrs, "index_vector_dim": vector})


def _lists(operation: Operation, keys: Sequence[str]) -> list[tuple[int, ...]]:
    return [operation.integers(key, optional=True) for key in keys]


def _attrs(operation: Operation, keys: Sequence[str]) -> dict[str, AttrValue]:
    """The lists that are not empty; the index map in any case."""
    found = dict(zip(keys, _lists(operation, keys), strict=True))
    return {key: list(value) for key, value in found.items() if value or key == keys[2]}


def _batch_dims(
    operation: Operation,
    operand: View,
    indices: View,
    vector: int,
    index_map: tuple[int, ...],
    batching: tuple[int, ...],
    indices_batching: tuple[int, ...],
) -> list[int]:
    """The extents of the indices without the dimension of the index vector; checks that all of them fit together."""
    dims, rank = indices.shape.dims, len(operand.shape.dims)
    operation.expect(indices.shape.dtype[0] in "su", "the indices must be integers")
    operation.expect(vector <= len(dims), f"`index_vector_dim` must be at most {len(dims)}")
    length = dims[vector] if vector < len(dims) else 1
    operation.expect(length == len(index_map), f"an index has {length} numbers for {len(index_map)} dimensions")
    _expect_distinct(operation, index_map + batching, rank, "indexed and batching dimensions")
    _expect_distinct(operation, indices_batching, len(dims), "batching dimensions of the indices")
    fits = (
        len(batching) == len(indices_batching)
        and vector not in indices_batching
        and all(
            operand.shape.dims[dim] == dims[other] for dim, other in zip(batching, indices_batching, strict=False)
        )
    )
    operation.expect(fits, "the batching dimensions of operand and indices do not agree")
    return [extent for dim, extent in enumerate(dims) if dim != vector]


def _interleave(
    operation: Operation, batch: Sequence[int], window: Sequence[int], window_dims: tuple[int, ...]
) -> tuple[int, ...]:
    """Window extents at `window_dims`, batch extents in the other places."""
    rank = len(batch) + len(window)
    _expect_distinct(operation, window_dims, rank, "window dimensions")
    operation.expect(len(window_dims) == len(window), f"there are {len(window)} window dimensions")
    inside, outside = dict(zip(window_dims, window, strict=True)), iter(batch)
    return tuple(inside[dim] if dim in inside else next(outside) for dim in range(rank))


def _expect_distinct(operation: Operation, dims: tuple[int, ...], rank: int, what: str) -> None:
    fits = len(set(dims)) == len(dims) and all(dim < rank for dim in dims)
    operation.expect(fits, f"{what} must be distinct and below {rank}")


RULES = {
    "gather": Rule(_emit_gather, (*_GATHER, "index_vector_dim", "slice_sizes")),
    "scatter": Rule(_emit_scatter, (*_SCATTER, "index_vector_dim", "to_apply")),
}
