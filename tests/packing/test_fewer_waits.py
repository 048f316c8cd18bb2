"""Moves below the peak: the placement stays valid, the peak stays, and waiting falls as far as one move takes it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from haulout.packing.conflict_fit import Buffers, fit_conflicts
from haulout.packing.fewer_waits import with_fewer_waits
from haulout.packing.problem import I64

Case = tuple[Buffers, I64, I64]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to 9 buffers of up to two groups, and the times of their use."""
    count = draw(st.integers(1, 9))

    def column(low: int, high: int) -> I64:
        return np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), np.int64)

    group, begin, first, start = column(0, 1), column(0, 12), column(0, 3), column(0, 30)
    buffers = Buffers(
        column(1, 8), 2 ** column(0, 2), group, begin, begin + column(1, 6), first, first + column(1, 2)
    )
    return buffers, start, start + column(0, 20)


def conflict(x: Buffers, j: int, k: int) -> bool:
    low, high = (x.begin, x.end) if x.group[j] == x.group[k] else (x.first, x.last)
    return bool(low[j] < high[k] and low[k] < high[j])


def meet(x: Buffers, offset: I64, j: int, k: int) -> bool:
    return bool(offset[j] < offset[k] + x.size[k] and offset[k] < offset[j] + x.size[j])


def waiting(case: Case, offset: I64) -> int:
    """The sum over all pairs that share bytes."""
    x, start, done = case
    total = 0
    for j, k in combinations(range(len(x.size)), 2):
        if x.group[j] == x.group[k] and meet(x, offset, j, k):
            first, second = (j, k) if x.begin[j] < x.begin[k] else (k, j)
            total += max(0, int(done[first] - start[second]))
    return total


def valid(x: Buffers, offset: I64, limit: int) -> bool:
    clash = any(conflict(x, j, k) and meet(x, offset, j, k) for j, k in combinations(range(len(x.size)), 2))
    inside = (offset >= 0).all() and (offset % x.alignment == 0).all() and (offset + x.size <= limit).all()
    return not clash and bool(inside)


@given(cases())
def test_no_single_move_waits_less(case: Case) -> None:
    x, start, done = case
    packed, limit = fit_conflicts(x, [x.size.astype(float)], 0)
    assert valid(x, packed, limit)
    moved = with_fewer_waits(x, start, done, packed, limit)
    assert valid(x, moved, limit)
    least = waiting(case, moved)
    assert least <= waiting(case, packed)
    for k in range(len(x.size)):
        for place in range(limit):
            tried = moved.copy()
            tried[k] = place
            assert not valid(x, tried, limit) or waiting(case, tried) >= least


def test_the_lowest_of_the_places_without_waiting() -> None:
    every = np.array([0, 0, 0, 0])
    # a is in use until 9; b, and what is above it, until 1; c comes at 2, after all of them in the list.
    begin, end = np.array([0, 0, 0, 5]), np.array([5, 5, 5, 9])
    x = Buffers(np.full(4, 4), every + 1, every, begin, end, every, every + 1)
    moved = with_fewer_waits(x, np.array([0, 0, 0, 2]), np.array([9, 1, 1, 9]), np.array([0, 4, 8, 0]), 12)
    assert moved.tolist() == [0, 4, 8, 4]
