"""`sort`: several arrays in the order of a comparison of their elements, stable, along one dimension.

The comparison is a scalar `body`. It is evaluated on whole arrays, so elements are not compared one pair at a time:

1. The runs to merge have 1, 2, 4, ... elements. Each element looks for its place in the run that its own is merged
   with, by bisection, all elements at once: an element of a left run goes after those that are less, one of a right
   run after those that are not greater.
2. Its place in the merged run is its place in its own run plus that.

So there are log2(n) ** 2 / 2 evaluations of n comparisons each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from haulout.sim.numerics import attributes, body
from haulout.sim.numerics.types import Array, Attrs, TensorType
from haulout.support.diagnostics import bad_input


def sort(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`sort dim= body= results=`: n arrays of one shape, of each line along `dim` in one common order.

    Parameters 2i and 2i + 1 of the body are two elements of array i; the result says whether the first comes first.
    """
    dim = attributes.integer(attrs, "dim")
    shape = inputs[0].shape
    if any(array.shape != shape for array in inputs):
        bad_input(f"the arrays of `sort` differ in shape: {', '.join(str(list(array.shape)) for array in inputs)}")
    if not 0 <= dim < len(shape):
        bad_input(f"attribute `dim`: a rank {len(shape)} array has no dimension {dim}")
    comparison = body.parse(attrs, parameters=2 * len(inputs), results=1)
    columns = [np.moveaxis(array, dim, -1) for array in inputs]

    def first(left: Array, right: Array) -> Array:
        """Whether the elements at places `left` come before those at `right`."""
        pairs = [np.take_along_axis(column, place, -1) for column in columns for place in (left, right)]
        (found,) = comparison(*pairs)
        return np.broadcast_to(found, left.shape)

    order = _stable_order(columns[0].shape, first)
    return [np.moveaxis(np.take_along_axis(column, order, -1), -1, dim) for column in columns]


def _stable_order(shape: tuple[int, ...], first: Callable[[Array, Array], Array]) -> Array:
    """Along the last dimension the places of the elements, in their order."""
    length = shape[-1]
    places = np.arange(length)
    order = np.broadcast_to(places, shape)
    width = 1
    while width < length:
        start = places - places % (2 * width)
        middle, stop = np.minimum(start + width, length), np.minimum(start + 2 * width, length)
        is_left = places < middle
        low, high = np.where(is_left, middle, start), np.where(is_left, stop, middle)
        found = _bisect(order, low, high, is_left, first)
        order = _permuted(order, places + found - middle)
        width *= 2
    return order


def _bisect(order: Array, low: Array, high: Array, is_left: Array, first: Callable[[Array, Array], Array]) -> Array:
    """For each element the place in `low` to `high` after all that go before it."""
    lows, highs = np.broadcast_to(low, order.shape), np.broadcast_to(high, order.shape)
    while np.any(lows < highs):
        middle = (lows + highs) // 2
        is_open = lows < highs
        other = np.take_along_axis(order, np.where(is_open, middle, 0), -1)
        left, right = np.where(is_left, other, order), np.where(is_left, order, other)
        goes_before = first(left, right) == is_left
        lows = np.where(is_open & goes_before, middle + 1, lows)
        highs = np.where(is_open & ~goes_before, middle, highs)
    return lows


def _permuted(order: Array, targets: Array) -> Array:
    """The elements of `order` at their new places."""
    if not np.array_equal(np.sort(targets, -1), np.broadcast_to(np.arange(order.shape[-1]), order.shape)):
        bad_input("the comparison of `sort` does not order these elements")
    moved = np.empty_like(order)
    np.put_along_axis(moved, targets, order, -1)
    return moved
