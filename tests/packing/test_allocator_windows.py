"""Buffers with windows, against sets of (moment, byte)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from haulout.packing import Pool, Problem, Progress, Rules, Status, plan, solve, violations
from haulout.support.diagnostics import HauloutError


@st.composite
def windowed(draw: st.DrawFn, most: int = 4) -> Problem:
    """A few buffers, each of one to three ranges one behind the other, each with a window."""
    n = draw(st.integers(1, most))
    size = [draw(st.integers(0, 4)) for _ in range(n)]
    rows = []
    for b in range(n):
        at = draw(st.integers(0, 3))
        for _ in range(draw(st.integers(1, 3))):
            end = at + draw(st.integers(0, 2))
            low = draw(st.integers(0, size[b]))
            rows.append((at, end, b, low, draw(st.integers(low, size[b]))))
            at = end + draw(st.integers(0, 1))
    lower, upper, owner, low_, high = np.array(rows).T
    alignment = [draw(st.sampled_from([1, 2])) for _ in range(n)]
    return Problem.of(lower, upper, size, alignment, owner=owner, window=(low_, high))


def cells(problem: Problem, offset: list[int]) -> list[set[tuple[int, int]]]:
    """What each buffer takes, as (moment, byte)."""
    taken: list[set[tuple[int, int]]] = [set() for _ in range(len(problem))]
    low, high = problem.windows
    for k, b in enumerate(problem.owner.tolist()):
        bytes_ = range(offset[b] + int(low[k]), offset[b] + int(high[k]))
        taken[b] |= set(product(range(int(problem.lower[k]), int(problem.upper[k])), bytes_))
    return taken


def is_right(problem: Problem, offset: list[int]) -> bool:
    taken = cells(problem, offset)
    apart = sum(map(len, taken)) == len(set().union(*taken))
    return apart and all(o % a == 0 for o, a in zip(offset, problem.alignment.tolist(), strict=True))


@settings(max_examples=examples(200))
@given(windowed())
def test_placements_are_right_and_bounded(problem: Problem) -> None:
    solution = solve(problem)
    assert is_right(problem, solution.offset.tolist())
    assert solution.lower_bound <= solution.peak
    if len(problem) <= 3:
        choices = product(range(solution.peak + 1), repeat=len(problem))
        occupied = problem.occupies

        def end(offset: tuple[int, ...]) -> int:
            return max((o + int(s) for o, s, t in zip(offset, problem.size, occupied, strict=True) if t), default=0)

        least = min(end(offset) for offset in choices if is_right(problem, list(offset)))
        # In the order of offsets of a best placement, first fit makes it; all orders of so few are not tried.
        assert solution.lower_bound <= least <= solution.peak
        if len(problem) <= 2:
            assert solution.peak == least


@settings(max_examples=examples(200))
@given(windowed(), st.data())
def test_validator_agrees_with_cells(problem: Problem, data: st.DataObject) -> None:
    offset = [data.draw(st.integers(0, 3)) * a for a in problem.alignment.tolist()]
    found = violations(problem, np.array(offset, np.int64))
    assert (found == []) == is_right(problem, offset)


def half_free() -> Problem:
    """x is whole, then holds its first half, then is whole again; y needs half as much, in the meantime."""
    return Problem.of([0, 4, 8, 4], [4, 8, 12, 8], [8, 4], owner=[0, 0, 0, 1], window=([0, 0, 0, 0], [8, 4, 8, 4]))


def test_the_free_half_is_used() -> None:
    solution = solve(half_free())
    assert (solution.peak, solution.offset.tolist(), solution.status) == (8, [0, 4], Status.OPTIMAL)


def test_capacity_pins_and_segments() -> None:
    assert solve(half_free(), capacity=7).status is Status.INFEASIBLE
    problem = half_free()
    pinned = Problem.of(
        problem.lower, problem.upper, problem.size, pinned=[8, -1], owner=problem.owner, segment=16,
        window=problem.windows,
    )  # fmt: skip
    assert solve(pinned).offset.tolist() == [8, 0]


def test_interrupted_and_timed() -> None:
    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    rng = np.random.default_rng(2)
    lower = rng.integers(0, 50, 60)
    size = rng.integers(4, 60, 60)
    problem = Problem.of(lower, lower + rng.integers(1, 20, 60), size, window=([0] * 60, rng.integers(1, size)))
    assert solve(problem, progress=interrupt).interrupted
    assert solve(problem, time_limit=0.05).fits
    assert solve(problem).offset.tobytes() == solve(problem).offset.tobytes()


def test_what_does_not_go_together() -> None:
    problem = half_free()
    with pytest.raises(HauloutError, match="windows go with one pool"):
        solve(
            Problem.of(
                problem.lower, problem.upper, problem.size, owner=problem.owner, window=problem.windows,
                rules=Rules(pools=(Pool("a"), Pool("b"))),
            )
        )  # fmt: skip
    with pytest.raises(HauloutError, match="ranges of buffer 0 overlap at 1"):
        Problem.of([0, 1], [2, 3], [8], owner=[0, 0], window=([0, 0], [1, 1]))
    with pytest.raises(HauloutError, match="window 0 to 9 is not within 8 bytes"):
        Problem.of([0], [2], [8], window=([0], [9]))
    assert plan([0], [1], [8]).peak == 64
