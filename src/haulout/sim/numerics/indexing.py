"""Reads and writes at places that are themselves data: dynamic slices, gather, scatter.

A dynamic slice and a gather clamp the start so that the whole slice is inside. A scatter drops an update
whose window is not wholly inside. Gather and scatter are turned into flat element indices, one array for all
of them:

    flat index = (start coordinates of the slice) . strides  +  (coordinates inside the slice) . strides

Updates of the same element are applied in their row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from haulout.sim.numerics import attributes, body
from haulout.sim.numerics.reductions import combiner
from haulout.sim.numerics.rounding import convert, widen
from haulout.sim.numerics.types import Array, Attrs, TensorType
from haulout.support.diagnostics import bad_input


def dynamic_slice(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`dynamic_slice sizes=`: operand, one scalar start a dimension; starts are clamped."""
    operand, *starts = inputs
    sizes = attributes.integers(attrs, "sizes")
    return [operand[clamped_slices(operand, starts, sizes)]]


def dynamic_update_slice(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`dynamic_update_slice`: operand, update, one scalar start a dimension; starts are clamped."""
    operand, update, *starts = inputs
    result = operand.copy()
    if update.ndim != operand.ndim or update.dtype != operand.dtype:
        bad_input("the update of `dynamic_update_slice` has another rank or element type than the operand")
    result[clamped_slices(operand, starts, update.shape)] = update
    return [result]


def gather(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`gather` with the attributes of HLO's GatherDimensionNumbers, and `slice_sizes`."""
    operand, indices = inputs
    sizes = attributes.integers(attrs, "slice_sizes")
    collapsed = attributes.integers(attrs, "collapsed_slice_dims", ())
    batching = attributes.integers(attrs, "operand_batching_dims", ())
    offset_dims = attributes.integers(attrs, "offset_dims", ())
    dropped = collapsed + batching
    if not _fits(sizes, operand.shape):
        bad_input(f"attribute `slice_sizes`: {list(sizes)} does not fit an operand of shape {operand.shape}")
    if any(not 0 <= dim < operand.ndim or sizes[dim] != 1 for dim in dropped):
        bad_input(f"collapsed and batching dimensions {list(dropped)} must have slices of size 1")
    starts = _start_coordinates(attrs, operand, indices, "start_index_map", "start_indices_batching_dims")
    starts = np.clip(starts, 0, np.array(operand.shape) - sizes)
    window_shape = [sizes[dim] for dim in range(operand.ndim) if dim not in dropped]
    places = Places(operand.shape, starts, tuple(window_shape), _kept(operand.ndim, dropped))
    result = operand.reshape(-1)[places.flat()]
    return [result.transpose(_interleaving(result.ndim, len(window_shape), offset_dims))]


def scatter(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`scatter` with the attributes of HLO's ScatterDimensionNumbers and `op=` or `body=`.

    Operands: n arrays, the indices, n updates.
    """
    count = len(inputs) // 2
    operands, indices, updates = inputs[:count], inputs[count], inputs[count + 1 :]
    shape = operands[0].shape
    inserted = attributes.integers(attrs, "inserted_window_dims", ())
    batching = attributes.integers(attrs, "input_batching_dims", ())
    window_dims = attributes.integers(attrs, "update_window_dims", ())
    kept = _kept(len(shape), inserted + batching)
    if any(array.shape != shape for array in operands) or any(u.shape != updates[0].shape for u in updates):
        bad_input("the operands of `scatter`, or its updates, differ in shape")
    if len(kept) != len(window_dims) or not all(0 <= dim < updates[0].ndim for dim in window_dims):
        bad_input(f"attribute `update_window_dims`: {list(window_dims)} for {len(kept)} window dimensions")
    starts = _start_coordinates(
        attrs, operands[0], indices, "scatter_dims_to_operand_dims", "scatter_indices_batching_dims"
    )
    window_shape = tuple(updates[0].shape[dim] for dim in window_dims)
    places = Places(shape, starts, window_shape, kept)
    at = places.flat()[places.inside()].reshape(-1)
    order = np.argsort(_interleaving(updates[0].ndim, len(window_dims), window_dims))
    values = [update.transpose(order)[places.inside()].reshape(-1) for update in updates]
    flats = [operand.reshape(-1).copy() for operand in operands]
    return [result.reshape(shape) for result in _write(attrs, flats, at, values)]


@dataclass(frozen=True, slots=True)
class Places:
    """Windows of one shape inside an array of `shape`, one at each of `starts` ([batch..., rank], elements).

    `kept` names the array's dimension of each window dimension; along the others a window is one element
    thick.
    """

    shape: tuple[int, ...]
    starts: Array
    window: tuple[int, ...]
    kept: tuple[int, ...]

    def flat(self) -> Array:
        """Flat element indices, [batch..., window...]."""
        strides = np.array([prod(self.shape[dim + 1 :]) for dim in range(len(self.shape))], np.int64)
        inside = np.zeros(self.window, np.int64)
        for axis, (extent, dim) in enumerate(zip(self.window, self.kept, strict=True)):
            along = [1] * len(self.window)
            along[axis] = extent
            inside += (np.arange(extent) * strides[dim]).reshape(along)
        return (self.starts @ strides)[(..., *(None for _ in self.window))] + inside

    def inside(self) -> Array:
        """Which windows are wholly inside, [batch...]."""
        thickness = np.ones(len(self.shape), np.int64)
        thickness[list(self.kept)] = self.window
        last = np.array(self.shape, np.int64) - thickness
        return np.asarray(((self.starts >= 0) & (self.starts <= last)).all(axis=-1))


def _write(attrs: Attrs, flats: list[Array], at: Array, values: list[Array]) -> list[Array]:
    if "op" not in attrs:
        return _write_by_body(body.parse(attrs, 2 * len(flats), len(flats)), flats, at, values)
    if attrs["op"] == "assign":
        for flat, value in zip(flats, values, strict=True):
            flat[at] = value
        return flats
    if len(flats) != 1:
        bad_input("`scatter` of several arrays at once needs `body` or op=assign")
    combine = combiner(attrs, flats[0].dtype)
    total = widen(flats[0])
    combine.at(total, at, widen(values[0]))
    return [convert(total, flats[0].dtype)]


def _write_by_body(step: body.Body, flats: list[Array], at: Array, values: list[Array]) -> list[Array]:
    """Round r applies the r-th update of every element: within a round no element is updated twice."""
    order = np.argsort(at, kind="stable")
    first = np.searchsorted(at[order], at[order])
    turn = np.arange(at.size) - first
    for now in range(int(turn.max(initial=-1)) + 1):
        chosen = order[turn == now]
        place = at[chosen]
        results = step(*(flat[place] for flat in flats), *(value[chosen] for value in values))
        for flat, result in zip(flats, results, strict=True):
            flat[place] = result
    return flats


def _start_coordinates(attrs: Attrs, operand: Array, indices: Array, index_map: str, batching: str) -> Array:
    """Where each slice starts in the operand, before clamping: [batch..., rank]."""
    vector_dim = attributes.integer(attrs, "index_vector_dim", indices.ndim)
    mapped = attributes.integers(attrs, index_map)
    indices_batching = attributes.integers(attrs, batching, ())
    operand_batching = attributes.integers(
        attrs, "operand_batching_dims" if index_map == "start_index_map" else "input_batching_dims", ()
    )
    if not 0 <= vector_dim <= indices.ndim:
        bad_input(f"attribute `index_vector_dim`: {vector_dim} for indices of shape {indices.shape}")
    # Indices beyond s64 are out of bounds all the same; saturate them instead of letting them wrap.
    is_huge = indices > np.iinfo(np.int64).max if indices.dtype == np.uint64 else False
    vectors = np.where(is_huge, np.iinfo(np.int64).max, indices.astype(np.int64))
    vectors = vectors[..., None] if vector_dim == indices.ndim else np.moveaxis(vectors, vector_dim, -1)
    if vectors.shape[-1] != len(mapped) or not all(0 <= dim < operand.ndim for dim in mapped + operand_batching):
        bad_input(f"attribute `{index_map}`: {list(mapped)} for index vectors of {vectors.shape[-1]} numbers")
    if len(operand_batching) != len(indices_batching):
        bad_input(f"attribute `{batching}`: {list(indices_batching)} for {len(operand_batching)} batching dimensions")
    starts = np.zeros((*vectors.shape[:-1], operand.ndim), np.int64)
    starts[..., list(mapped)] = vectors
    for operand_dim, indices_dim in zip(operand_batching, indices_batching, strict=True):
        axis = indices_dim - (indices_dim > vector_dim)
        along = [1] * (vectors.ndim - 1)
        along[axis] = vectors.shape[axis]
        starts[..., operand_dim] = np.arange(vectors.shape[axis]).reshape(along)
    return starts


def clamped_slices(operand: Array, starts: Sequence[Array], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The index of a box of `sizes` elements at `starts`, moved so that it is inside the operand."""
    if len(starts) != operand.ndim:
        bad_input(f"{len(starts)} starts for an operand of rank {operand.ndim}")
    if not _fits(sizes, operand.shape):
        bad_input(f"a slice of {list(sizes)} does not fit into shape {list(operand.shape)}")
    firsts = [
        min(max(int(start.reshape(())[()]), 0), extent - size)
        for start, extent, size in zip(starts, operand.shape, sizes, strict=True)
    ]
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes, strict=True))


def _fits(sizes: Sequence[int], shape: tuple[int, ...]) -> bool:
    return len(sizes) == len(shape) and all(0 <= size <= extent for size, extent in zip(sizes, shape, strict=True))


def _kept(rank: int, dropped: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dim for dim in range(rank) if dim not in dropped)


def _interleaving(rank: int, window_rank: int, window_dims: tuple[int, ...]) -> list[int]:
    """The transposition from [batch..., window...] to an array with the window at `window_dims`, batch elsewhere."""
    if len(window_dims) != window_rank or not all(0 <= dim < rank for dim in window_dims):
        bad_input(f"{list(window_dims)} do not place {window_rank} window dimensions in a rank {rank} array")
    source = {dim: rank - window_rank + i for i, dim in enumerate(window_dims)}
    batch = iter(range(rank))
    return [source[dim] if dim in source else next(batch) for dim in range(rank)]
