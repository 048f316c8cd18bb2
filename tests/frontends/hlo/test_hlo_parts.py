"""Byte patterns of data movement, against NumPy views of an array that holds its own byte offsets."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, View
from haulout.frontends.hlo.views import seen, strides_of
from haulout.ir.dtypes import NUMPY

DIMS = st.lists(st.integers(1, 5), min_size=1, max_size=4)
TYPES = st.sampled_from(["u8", "bf16", "f32", "s64"])


def offsets(dims: list[int], itemsize: int) -> np.ndarray:
    """Offset of every byte: the array's dims, then the bytes of an element."""
    return np.arange(int(np.prod(dims)) * itemsize).reshape(*dims, itemsize)


def part(dims: list[int], dtype: str, dim: int, start: int, count: int) -> np.ndarray:
    """Offset of every byte of a piece along one dimension."""
    whole = View(Array(None, Shape(dtype, tuple(dims))), Shape(dtype, tuple(dims)))  # type: ignore[arg-type]
    steps = strides_of(whole)
    view = seen(whole, [*dims[:dim], count, *dims[dim + 1 :]], steps, steps[dim] * start)
    return np.arange(whole.nbytes) if view.pattern is None else view.pattern.bytes()


@given(st.data(), DIMS, TYPES)
def test_parts_of_a_concatenation_tile_the_result(data: st.DataObject, dims: list[int], dtype: str) -> None:
    dim = data.draw(st.integers(0, len(dims) - 1))
    cuts = sorted({0, dims[dim], *data.draw(st.lists(st.integers(0, dims[dim])))})
    parts = [part(dims, dtype, dim, a, b - a) for a, b in pairwise(cuts)]
    whole = offsets(dims, NUMPY[dtype].itemsize)
    for found, expected in zip(parts, np.split(whole, cuts[1:-1], dim), strict=True):
        assert np.array_equal(found, expected.ravel())
    assert np.array_equal(np.sort(np.concatenate(parts)), whole.ravel())
