"""Reuse penalties: the local search against all placements of small problems, and against a blind one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from haulout.packing import Pool, Problem, Rules, Solution, solve, violations
from haulout.packing.penalties import reuse_cost, with_less_reuse


def _drawn(seed: int, n: int) -> tuple[Problem, list[tuple[int, int, int]]]:
    rng = np.random.default_rng(seed)
    lower = rng.integers(0, 6, n)
    problem = Problem.of(lower, lower + rng.integers(1, 4, n), rng.integers(1, 4, n))
    pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.6]
    return problem, [(i, j, int(rng.integers(1, 9))) for i, j in pairs]


@pytest.mark.parametrize("seed", range(12))
def test_small_problems_reach_the_least_cost_of_all_placements(seed: int) -> None:
    capacity = 7
    problem, costs = _drawn(seed, 5)
    solution = solve(problem, capacity=capacity)
    if not solution.fits:
        pytest.skip("drawn too large")
    found = with_less_reuse(_within(problem, capacity), solution, costs)
    assert violations(problem, found.offset, capacity) == []
    least = min(
        reuse_cost(problem, placed, costs)
        for place in product(*(range(capacity - size + 1) for size in problem.size.tolist()))
        for placed in [_at(solution, place)]
        if not violations(problem, placed.offset, capacity)
    )
    assert reuse_cost(problem, found, costs) == least


def _within(problem: Problem, capacity: int) -> Problem:
    columns = (problem.lower, problem.upper, problem.size, problem.alignment)
    return Problem.of(*columns, rules=Rules(pools=(Pool("memory", capacity),)))


def _at(solution: Solution, place: tuple[int, ...]) -> Solution:
    return replace(solution, offset=np.array(place))


def test_rules_hold_while_costs_fall() -> None:
    """Pins, aliases, alignments and two pools."""
    rng = np.random.default_rng(3)
    n = 60
    lower = rng.integers(0, 40, n)
    rules = Rules(
        aliases=((0, 1), (2, 3, 4)),
        pools=(Pool("A", 40 * 64), Pool("B", 40 * 64)),
        allowed=tuple((0,) if i < 30 else (1,) for i in range(n)),
    )
    pinned = np.full(n, -1)
    pinned[7] = 64
    problem = Problem.of(
        lower, lower + rng.integers(1, 6, n), rng.integers(1, 5, n) * 64, 64, pinned=pinned, rules=rules
    )
    solution = solve(problem)
    assert solution.fits
    costs = [(i, j, 1 + (i + j) % 5) for i in range(n) for j in range(i)]
    found = with_less_reuse(problem, solution, costs)
    assert violations(problem, found.offset, pool=found.pool) == []
    assert reuse_cost(problem, found, costs) < reuse_cost(problem, solution, costs)
    ends = found.offset + problem.size
    assert [use.peak for use in found.pools] == [int(ends[found.pool == p].max()) for p in (0, 1)]
    again = with_less_reuse(problem, solution, costs)
    assert again.offset.tolist() == found.offset.tolist()
    assert with_less_reuse(problem, solution, []) is solution
