"""Byte patterns of data movement, against NumPy views of an array that holds its own byte offsets."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from haulout.frontends.hlo.patterns import (
    part_pattern,
    reverse_pattern,
    slice_dims,
    slice_pattern,
    transpose_pattern,
)

DIMS = st.lists(st.integers(1, 5), min_size=1, max_size=4)
ITEMSIZE = st.sampled_from([1, 2, 4, 8])


def offsets(dims: list[int], itemsize: int) -> np.ndarray:
    """Offset of every byte: the array's dims, then the bytes of an element."""
    return np.arange(int(np.prod(dims)) * itemsize).reshape(*dims, itemsize)


@given(st.data(), DIMS, ITEMSIZE)
def test_slice(data: st.DataObject, dims: list[int], itemsize: int) -> None:
    bounds = []
    for extent in dims:
        start = data.draw(st.integers(0, extent - 1))
        limit = data.draw(st.integers(start + 1, extent))
        bounds.append((start, limit, data.draw(st.integers(1, 3))))
    taken = offsets(dims, itemsize)[tuple(slice(*bound) for bound in bounds)]
    assert slice_dims(bounds) == list(taken.shape[:-1])
    assert np.array_equal(slice_pattern(dims, itemsize, bounds).bytes(), taken.ravel())


@given(st.data(), DIMS, ITEMSIZE)
def test_transpose(data: st.DataObject, dims: list[int], itemsize: int) -> None:
    order = data.draw(st.permutations(range(len(dims))))
    turned = offsets(dims, itemsize).transpose(*order, len(dims))
    assert np.array_equal(transpose_pattern(dims, itemsize, order).bytes(), turned.ravel())


@given(st.data(), DIMS, ITEMSIZE)
def test_reverse(data: st.DataObject, dims: list[int], itemsize: int) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(dims) - 1), unique=True))
    flipped = np.flip(offsets(dims, itemsize), tuple(chosen))
    assert np.array_equal(reverse_pattern(dims, itemsize, chosen).bytes(), flipped.ravel())


@given(st.data(), DIMS, ITEMSIZE)
def test_parts_of_a_concatenation_tile_the_result(data: st.DataObject, dims: list[int], itemsize: int) -> None:
    dim = data.draw(st.integers(0, len(dims) - 1))
    cuts = sorted({0, dims[dim], *data.draw(st.lists(st.integers(0, dims[dim])))})
    parts = [part_pattern(dims, itemsize, dim, a, b - a).bytes() for a, b in pairwise(cuts)]
    whole = offsets(dims, itemsize)
    for part, expected in zip(parts, np.split(whole, cuts[1:-1], dim), strict=True):
        assert np.array_equal(part, expected.ravel())
    assert np.array_equal(np.sort(np.concatenate(parts)), whole.ravel())
