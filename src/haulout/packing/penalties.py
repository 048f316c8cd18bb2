"""Reuse penalties, the second objective: pairs of buffers that should not share bytes at different times.

Pools are searched one by one (`reuse_search.py`), within their capacities. A count of visits bounds the search, so
that large problems gain less instead of taking longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from haulout.packing.problem import I64, Problem
from haulout.packing.reuse_search import Rows, lower_reuse
from haulout.packing.solution import PoolUse, Solution, Status
from haulout.packing.storages import Storages, merge

Cost = tuple[int, int, int]
"""Buffer, buffer, cost."""
_VISITS_A_PAIR = 20_000
_MAX_VISITS = 300_000_000
"""Pairs of storages that the search looks at with effort 1: so often each, and at most so many, about a second."""
_MAX_RANGES = 6_000
"""Live ranges in a pool: above that, the matrix of those that overlap is too large."""


def reuse_cost(problem: Problem, solution: Solution, costs: Sequence[Cost]) -> int:
    """The sum of the costs of pairs that share bytes in one pool."""
    if not costs:
        return 0
    one, two, price = np.array(costs, object).T
    one, two = one.astype(np.int64), two.astype(np.int64)
    low, end, taken = solution.offset, solution.offset + problem.size, problem.occupies
    shares = taken[one] & taken[two] & (solution.pool[one] == solution.pool[two])
    shares &= (low[one] < end[two]) & (low[two] < end[one])
    return int(price[shares].sum())


def with_less_reuse(problem: Problem, solution: Solution, costs: Sequence[Cost], *, effort: float = 1.0) -> Solution:
    """A placement with a lower reuse cost, or the same one.

    It fits the capacities; a pool without one grows no further than `solution` has it. Buffers stay in their pools,
    in-place pairs joined.
    """
    if problem.rules.symmetric or problem.window_low is not None or not reuse_cost(problem, solution, costs):
        return solution
    storages = merge(problem, solution.in_place)
    where: I64 = np.zeros(len(storages.allowed), np.int64)
    offset: I64 = np.zeros(len(storages.allowed), np.int64)
    where[storages.of], offset[storages.of] = solution.pool, solution.offset
    for number, (pool, use) in enumerate(zip(problem.rules.pools, solution.pools, strict=True)):
        limit = use.peak if pool.capacity is None else pool.capacity
        mine = np.flatnonzero((where == number) & storages.problem.occupies)
        rows = _rows(storages, mine, costs, pool.segment or 0)
        if rows is not None and (rows.price > 0).any():
            visits = int(effort * min(_VISITS_A_PAIR * len(rows.near), _MAX_VISITS))
            offset[mine] = lower_reuse(rows, offset[mine], limit, visits)[0]
    found = replace(solution, offset=np.where(problem.occupies, offset[storages.of], solution.offset))
    if reuse_cost(problem, found, costs) >= reuse_cost(problem, solution, costs):
        return solution
    return _with_peaks(problem, found)


def _with_peaks(problem: Problem, solution: Solution) -> Solution:
    """The solution with the peaks of its offsets."""
    uses: list[PoolUse] = []
    end = solution.offset + problem.reserved
    for number, use in enumerate(solution.pools):
        mine = problem.occupies & (solution.pool == number)
        uses.append(replace(use, peak=int(end[mine].max(initial=0))))
    peak = sum(use.peak for use in uses)
    status = Status.OPTIMAL if peak <= solution.lower_bound else Status.FEASIBLE
    return replace(solution, peak=peak, status=status, pools=tuple(uses), method="reuse search")


def _rows(storages: Storages, mine: I64, costs: Sequence[Cost], segment: int) -> Rows | None:
    """The storages of a pool with their neighbours; None if they are too many."""
    problem = storages.problem
    must = _conflicts(problem, mine)
    if must is None:
        return None
    position = np.full(len(problem), -1, np.int64)
    position[mine] = np.arange(len(mine))
    price = np.zeros((len(mine), len(mine)), np.int64)
    for one, two, cost in costs:
        i, j = position[storages.of[one]], position[storages.of[two]]
        if i >= 0 and j >= 0 and i != j:
            price[i, j] = price[j, i] = price[i, j] + cost
    price[must] = -1
    np.fill_diagonal(price, 0)
    row, near = np.nonzero(price)
    stretch = problem.segment[mine]
    if segment:
        stretch = np.where(stretch > 0, np.gcd(stretch, segment), segment)
    return Rows(
        problem.size[mine],
        problem.alignment[mine],
        stretch,
        (problem.pinned[mine] >= 0).astype(np.int64),
        np.searchsorted(row, np.arange(len(mine) + 1)).astype(np.int64),
        near.astype(np.int64),
        price[row, near],
    )


def _conflicts(problem: Problem, mine: I64) -> NDArray[np.bool_] | None:
    """Which of the buffers `mine` are live together."""
    ranges = np.flatnonzero((problem.upper > problem.lower) & np.isin(problem.owner, mine))
    if len(ranges) > _MAX_RANGES:
        return None
    lower, upper = problem.lower[ranges], problem.upper[ranges]
    owner = np.searchsorted(mine, problem.owner[ranges])
    one, two = np.nonzero((lower[:, np.newaxis] < upper) & (lower < upper[:, np.newaxis]))
    found = np.zeros((len(mine), len(mine)), bool)
    found[owner[one], owner[two]] = True
    return found
