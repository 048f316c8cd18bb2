"""Byte patterns of data movement, against NumPy views of an array that holds its own byte offsets."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from haulout.frontends.hlo.patterns import part_pattern

DIMS = st.lists(st.integers(1, 5), min_size=1, max_size=4)
ITEMSIZE = st.sampled_from([1, 2, 4, 8])


def offsets(dims: list[int], itemsize: int) -> np.ndarray:
    """Offset of every byte: the array's dims, then the bytes of an element."""
    return np.arange(int(np.prod(dims)) * itemsize).reshape(*dims, itemsize)


@given(st.data(), DIMS, ITEMSIZE)
def test_parts_of_a_concatenation_tile_the_result(data: st.DataObject, dims: list[int], itemsize: int) -> None:
    dim = data.draw(st.integers(0, len(dims) - 1))
    cuts = sorted({0, dims[dim], *data.draw(st.lists(st.integers(0, dims[dim])))})
    parts = [part_pattern(dims, itemsize, dim, a, b - a).bytes() for a, b in pairwise(cuts)]
    whole = offsets(dims, itemsize)
    for part, expected in zip(parts, np.split(whole, cuts[1:-1], dim), strict=True):
        assert np.array_equal(part, expected.ravel())
    assert np.array_equal(np.sort(np.concatenate(parts)), whole.ravel())
