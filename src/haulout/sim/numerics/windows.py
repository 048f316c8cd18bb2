"""Reductions over sliding windows, and their transpose, which scatters.

With an operation that has an identity, padding and holes are filled with the identity and each dimension is
reduced in turn by doubling: windows of 1, 2, 4, ... elements, combined into the size asked for. A window of w
elements costs log2(w) array operations instead of w, and sums are paired, hence exact to a few units in the
last place. Where few positions see each element, the same sums are made for each position alone. Dimensions before
the first that a window spans are cut into blocks that stay in the cache. A general `body` visits the taps in order,
each for all windows at once, and skips those that fall on padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from haulout.sim.numerics import attributes, body, window
from haulout.sim.numerics.blocks import blocks
from haulout.sim.numerics.elementwise import compare
from haulout.sim.numerics.reductions import combiner, identity
from haulout.sim.numerics.rounding import convert, widen
from haulout.sim.numerics.scratch import Take, scratch
from haulout.sim.numerics.shaping import padded
from haulout.sim.numerics.types import Array, Attrs, TensorType
from haulout.sim.numerics.window import WindowDim
from haulout.support.diagnostics import bad_input

_BLOCK = 1 << 17
"""Elements."""


def reduce_window(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`reduce_window op=|body= size= stride= pad_low= pad_high= base_dilate= window_dilate=`: x1.., init1..."""
    count = len(inputs) // 2
    if any(array.shape != inputs[0].shape for array in inputs[:count]):
        bad_input("`reduce_window` takes arrays of one shape")
    arrays, initial = inputs[:count], [operand.reshape(()) for operand in inputs[count:]]
    dims = window.parse(attrs, arrays[0].shape, "base_dilate", "window_dilate")
    window.check_positions(dims, outputs[0].shape)
    if "op" not in attrs:
        return _by_body(body.parse(attrs, 2 * count, count), arrays, initial, dims)
    if count != 1:
        bad_input("`reduce_window` of several arrays at once needs `body`, not `op`")
    combine = combiner(attrs, arrays[0].dtype)
    spans = [axis for axis, dim in enumerate(dims) if not dim.is_identity]
    result = np.empty(outputs[0].shape, arrays[0].dtype)
    whole = arrays[0].ndim - min(spans, default=0)
    for index in blocks(arrays[0].shape, _BLOCK, whole):
        part = widen(arrays[0][index])
        with scratch() as take:
            for axis in spans:
                part = _along(combine, part, axis, dims[axis], take)
            result[index] = convert(np.asarray(combine(widen(initial[0]), part)), arrays[0].dtype)
    return [result]


def select_and_scatter(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`select_and_scatter select= op= size= stride= pad_low= pad_high=`: operand, source, initial value.

    In each window the first element that `select` keeps against all later ones receives the window's source
    element.
    """
    operand, source, initial = inputs
    select = attributes.word(attrs, "select", ("GE", "GT", "LE", "LT"))
    combine = combiner(attrs, operand.dtype)
    dims = window.parse(attrs, operand.shape, "base_dilate", "window_dilate")
    window.check_positions(dims, source.shape)
    total = np.full(operand.size, widen(initial).reshape(()))
    if source.size:
        combine.at(total, _selected(select, operand, dims).reshape(-1), widen(source).reshape(-1))
    return [convert(total.reshape(operand.shape), operand.dtype)]


def _selected(select: str, operand: Array, dims: tuple[WindowDim, ...]) -> Array:
    """For each window, the flat index of the element that it selects."""
    flat = operand.reshape(-1)
    first, *others = product(*(dim.taps for dim in dims))
    chosen, is_chosen = _elements_under(first, dims)
    best = flat[chosen]
    for tap in others:
        at, inside = _elements_under(tap, dims)
        values = flat[at]
        replaces = inside & ~(is_chosen & compare(select, best, values))
        np.copyto(chosen, at, where=replaces)
        np.copyto(best, values, where=replaces)
        is_chosen |= inside
    if not is_chosen.all():
        bad_input("a window of `select_and_scatter` covers only padding")
    return chosen


def _by_body(
    step: body.Body, arrays: Sequence[Array], initial: Sequence[Array], dims: tuple[WindowDim, ...]
) -> list[Array]:
    shape = tuple(dim.positions for dim in dims)
    totals = [np.full(shape, value) for value in initial]
    for tap in product(*(dim.taps for dim in dims)):
        at, inside = _elements_under(tap, dims)
        results = step(*totals, *(array.reshape(-1)[at] for array in arrays))
        totals = [np.where(inside, result, total) for result, total in zip(results, totals, strict=True)]
    return totals


def _elements_under(tap: tuple[int, ...], dims: tuple[WindowDim, ...]) -> tuple[Array, Array]:
    """For every window: the flat index of the element under a tap, 0 where there is none; whether there is one."""
    shape = tuple(dim.positions for dim in dims)
    at = np.zeros(shape, np.int64)
    inside = np.ones(shape, np.bool_)
    weight = 1
    for axis in reversed(range(len(dims))):
        dim = dims[axis]
        along = [1] * len(dims)
        along[axis] = dim.positions
        spread = np.arange(dim.positions) * dim.stride + tap[axis] * dim.dilation - dim.pad_low
        index, hole = np.divmod(spread, dim.base_dilation)
        inside &= ((hole == 0) & (index >= 0) & (index < dim.extent)).reshape(along)
        at += (index * weight).reshape(along)
        weight *= dim.extent
    at *= inside
    return at, inside


def _along(combine: np.ufunc, array: Array, axis: int, dim: WindowDim, take: Take) -> Array:
    """Reduce the windows along one dimension, by doubling."""
    shape = [dim.padded if other == axis else extent for other, extent in enumerate(array.shape)]
    low = [dim.pad_low * (other == axis) for other in range(array.ndim)]
    step = [dim.base_dilation if other == axis else 1 for other in range(array.ndim)]
    if [*array.shape] != shape or dim.pad_low:
        array = padded(array, identity(combine, array.dtype), shape, low, step, take)
    elements = np.moveaxis(array, axis, 0)
    if not dim.positions:
        return np.moveaxis(elements[:0], 0, axis)

    def combined(left: Array, right: Array) -> Array:
        room = take((*shape[:axis], len(left), *shape[axis + 1 :]), array.dtype)
        return np.asarray(combine(left, right, out=np.moveaxis(room, axis, 0)))

    doublings = dim.size.bit_length() - 1
    is_sparse = (dim.size - 1) * dim.positions <= doublings * len(elements)
    runs = {1: elements}
    """2**k -> at i, the combination of 2**k elements `dilation` apart that starts at i."""

    def run(tap: int, length: int) -> Array:
        """Of each position, `length` elements from a tap on."""
        if length == 1 or not is_sparse:
            return runs[length][dim.positions_of_tap(tap)]
        half = length // 2
        return combined(run(tap, half), run(tap + half, half))

    total: Array | None = None
    taken, length = 0, 1
    while True:
        if dim.size & length:
            piece = run(taken, length)
            total = piece if total is None else combined(total, piece)
            taken += length
            if taken == dim.size:
                return np.moveaxis(total, 0, axis)
        if not is_sparse:
            shift, last = length * dim.dilation, runs.pop(length)
            runs[2 * length] = combined(last[: len(last) - shift], last[shift:])
        length *= 2
