"""Patterns against lists of bytes."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from haulout.ir.patterns import Pattern, row_major_strides, strided
from haulout_generators.programs import random_pattern


def listed(pattern: Pattern) -> list[int]:
    """Bytes in order, by nested loops."""
    starts = [pattern.offset]
    for stride, count in pattern.dims:
        starts = [start + stride * i for start in starts for i in range(count)]
    return [start + byte for start in starts for byte in range(pattern.run)]


@given(st.integers(0, 50), st.integers(1, 6), st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), max_size=4))
def test_canonical_keeps_bytes_and_their_order(offset: int, run: int, dims: list[tuple[int, int]]) -> None:
    pattern = Pattern(offset, run, tuple(dims))
    assert listed(pattern.canonical()) == listed(pattern) == pattern.bytes().tolist()
    assert pattern.nbytes == len(listed(pattern))
    assert pattern.hull == (min(listed(pattern)), max(listed(pattern)) + 1)
    assert pattern.canonical().canonical() == pattern.canonical()


@given(st.randoms(use_true_random=False), st.integers(8, 100))
def test_random_patterns_stay_inside(rng: Random, size: int) -> None:
    pattern = random_pattern(rng, size)
    if pattern is not None:
        assert 0 <= pattern.hull[0] < pattern.hull[1] <= size


def test_array_views_become_patterns() -> None:
    array = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    strides = row_major_strides(array.shape, 1)
    assert strides == list(array.strides)
    transposed = strided(0, [strides[2], strides[0], strides[1]], [4, 2, 3], 1)
    assert transposed.bytes().tolist() == array.transpose(2, 0, 1).ravel().tolist()
    box = strided(1 * strides[1] + 1, strides, [2, 2, 2], 1)
    assert box.bytes().tolist() == array[:, 1:3, 1:3].ravel().tolist()
    assert strided(0, strides, array.shape, 1) == Pattern(0, 24)
