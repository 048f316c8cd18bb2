"""Solve a problem with rules: several pools, aliases, in-place pairs, symmetric groups.

    problem     -> storages       join aliases; take some in-place pairs (`storages.py`)
    storages    -> assignment     a pool for each storage (`pools.py`)
    assignment  -> clusters       pools tied by symmetric groups become one problem (`pools.py`)
    cluster     -> offsets        search one address space (`single.py`)

In-place pairs and assignment are choices. All combinations are searched when there are few. Otherwise a handful is
constructed, and only the best of these is searched in full. When a pool ends above its capacity, storages above it
move to another allowed pool; this repeats a few times.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from haulout.packing.bound import most_live
from haulout.packing.pools import assignments, balance, capacities, clusters, is_listed
from haulout.packing.problem import I64, Problem
from haulout.packing.single import Budget, slack, solve_single
from haulout.packing.solution import PoolUse, Solution, Status
from haulout.packing.storages import MAX_PAIRS_FOR_SUBSETS, Pair, Storages, matchings, merge, usable_pairs

_MAX_SEARCHED_STORAGES = 64
"""With more storages, only the best choice is searched in full."""
_MAX_REPAIRS = 8


@dataclass(slots=True)
class _Attempt:
    """A placement of the storages: offset and pool of each, and the use of every pool."""

    storages: Storages
    pool: I64
    offset: I64
    uses: list[PoolUse]
    over: int
    """Bytes above capacities, over all pools."""
    refused: bool
    """Whether some pool provably does not fit with this assignment."""
    interrupted: bool
    method: str = ""

    @property
    def peak(self) -> int:
        return sum(use.peak for use in self.uses)

    @property
    def rank(self) -> tuple[int, int]:
        return self.over, self.peak


@dataclass(slots=True)
class _Search:
    """What is common to all attempts."""

    problem: Problem
    budget: Budget
    hint: I64 | None
    bound: int
    work: dict[str, int] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    best: _Attempt | None = None

    def left(self, parts: int) -> Budget:
        """The budget of the next of `parts` searches."""
        if self.budget.time_limit is None:
            return self.budget
        rest = max(0.0, self.budget.time_limit - (time.monotonic() - self.started))
        return replace(self.budget, time_limit=rest / parts)

    def keep(self, attempt: _Attempt) -> bool:
        """Keep the better attempt; whether the search is over."""
        if self.best is None or attempt.rank < self.best.rank:
            self.best = attempt
        limited = all(pool.capacity is not None for pool in self.problem.rules.pools)
        done = self.best.over == 0 and (limited or self.best.peak <= self.bound)
        return done or attempt.interrupted


def solve_composite(problem: Problem, budget: Budget, hint: I64 | None = None) -> Solution:
    """The best placement found. Not validated: the caller does that. Capacities are those of the pools."""
    pools = problem.rules.pools
    base = merge(problem)
    pairs = usable_pairs(problem, base)
    search = _Search(problem, budget, hint, lower_bound_of(problem, base, pairs))
    few = len(base.allowed) <= _MAX_SEARCHED_STORAGES
    choices = [
        (storages, pool)
        for storages in (merge(problem, taken) if taken else base for taken in matchings(base, pairs))
        for pool in assignments(storages, pools)
    ]
    every = (
        few
        and len(pairs) <= MAX_PAIRS_FOR_SUBSETS
        and is_listed(base)
        and all(_is_exact(problem, s) for s, _ in choices)
    )
    refused = 0
    if len(choices) > 1 and not few:
        quick = [_attempt(search, storages, pool, budget.without_search()) for storages, pool in choices]
        least = min(range(len(quick)), key=lambda k: quick[k].rank)
        search.best = quick[least]
        choices = [choices[least]]
    for number, (storages, pool) in enumerate(choices):
        attempt = _attempt(search, storages, pool, search.left(len(choices) - number))
        refused += attempt.refused
        if search.keep(attempt):
            break
    assert search.best is not None
    if search.best.over and not search.best.interrupted:
        _repair(search, search.best)
    return _finish(search, search.best, proved=every and refused == len(choices))


def _is_exact(problem: Problem, storages: Storages) -> bool:
    """Whether only buffers of equal size were joined, so that the storages lose nothing."""
    size = problem.size
    same_pairs = all(size[one] == size[two] for one, two in storages.taken)
    return same_pairs and all(len({int(storages.problem.size[at]) for at in group}) == 1 for group in storages.groups)


def _attempt(search: _Search, storages: Storages, pool: I64, budget: Budget) -> _Attempt:
    pools = search.problem.rules.pools
    offset = np.zeros(len(storages.allowed), np.int64)
    attempt = _Attempt(storages, pool, offset, [PoolUse(p.name, 0, 0, p.capacity) for p in pools], 0, False, False)
    parts = clusters(storages, pool, pools)
    hint = _hint(search, storages)
    for number, cluster in enumerate(parts):
        if attempt.interrupted:
            share = budget.without_search()
        elif budget.time_limit is None:
            share = budget
        else:
            share = replace(budget, time_limit=budget.time_limit / len(parts))
        wanted = None
        if hint is not None and len(cluster.pools) == 1:
            wanted = hint[cluster.storages]
        solution = solve_single(cluster.problem, cluster.capacity, share, wanted)
        attempt.interrupted |= solution.interrupted
        attempt.method = solution.method if number == 0 or solution.method != "empty" else attempt.method
        for name, times in solution.work.items():
            search.work[name] = search.work.get(name, 0) + times
        placed = solution.offset[cluster.row]
        offset[cluster.storages] = placed
        single = len(cluster.pools) == 1
        for p in cluster.pools:
            mine = cluster.storages[pool[cluster.storages] == p]
            used = mine[storages.problem.occupies[mine]]
            reserved = storages.problem.size[used]
            if single:
                reserved = cluster.problem.reserved[np.searchsorted(cluster.storages, used)]
            peak = int((offset[used] + reserved).max(initial=0))
            end = int((offset[used] + storages.problem.size[used]).max(initial=0))
            bound = solution.lower_bound if single else most_live(storages.problem, mine, storages.problem.size)
            capacity = pools[p].capacity
            attempt.uses[p] = PoolUse(pools[p].name, peak, bound, capacity)
            if capacity is not None and end > capacity:
                attempt.over += end - capacity
                attempt.refused |= solution.status is Status.INFEASIBLE
    return attempt


def _hint(search: _Search, storages: Storages) -> I64 | None:
    """The hint of each storage: the largest hint of its buffers."""
    if search.hint is None:
        return None
    hint = np.full(len(storages.allowed), -1, np.int64)
    np.maximum.at(hint, storages.of, search.hint)
    return hint


def _repair(search: _Search, attempt: _Attempt) -> None:
    """Move storages that end above their pool's capacity to another pool, the largest first."""
    pools = search.problem.rules.pools
    limit = capacities(pools)
    aim = limit.copy()
    banned: set[tuple[int, int]] = set()
    for turn in range(_MAX_REPAIRS):
        top = attempt.offset + attempt.storages.problem.size
        high = np.flatnonzero((top > limit[attempt.pool]) & attempt.storages.problem.occupies)
        movable = [(int(at), int(attempt.pool[at])) for at in high if len(attempt.storages.allowed[at]) > 1]
        fresh = [each for each in movable if each not in banned]
        if not fresh:
            return
        fresh.sort(key=lambda each: (-int(attempt.storages.problem.size[each[0]]), each))
        banned.update(fresh[: 1 + len(fresh) // 2])
        for p in {p for _, p in movable}:
            aim[p] -= aim[p] // 20
        pool = balance(attempt.storages, aim, frozenset(banned))
        attempt = _attempt(search, attempt.storages, pool, search.left(_MAX_REPAIRS - turn))
        if search.keep(attempt):
            return


def lower_bound_of(problem: Problem, base: Storages, pairs: list[Pair]) -> int:
    """Bytes that the pools need in all for every choice: the larger of two bounds.

    All pools together need the most bytes live at one time. Each pool needs the most bytes live at one time among the
    buffers that allow no other pool. At its birth an output counts less, by the most that it may take over.
    """
    forced: dict[int, list[int]] = {}
    for at, mine in enumerate(base.allowed):
        if len(mine) == 1:
            forced.setdefault(mine[0], []).append(at)
    # A pool's own granule is a multiple of the common one; where pools are tied, peaks count bytes in use only.
    size = base.problem.size if base.groups else base.problem.reserved
    every = np.arange(len(base.allowed), dtype=np.int64)
    apart = sum(most_live(base.problem, np.array(rows), size, base.of, pairs) for rows in forced.values())
    return max(apart, most_live(base.problem, every, size, base.of, pairs))


def _finish(search: _Search, best: _Attempt, proved: bool) -> Solution:
    problem, storages = search.problem, best.storages
    caps = [pool.capacity for pool in problem.rules.pools]
    total = sum(cap for cap in caps if cap is not None) if None not in caps else None
    spare = slack(storages.problem) * len(caps)
    no_room = total is not None and search.bound - spare > total
    bound = search.bound
    if not storages.groups and all(len(mine) == 1 for mine in storages.allowed) and not problem.rules.in_place:
        bound = max(bound, sum(use.lower_bound for use in best.uses))
        slacks = slack(storages.problem)
        no_room |= any(use.capacity is not None and use.lower_bound - slacks > use.capacity for use in best.uses)
    if best.over:
        status = Status.INFEASIBLE if no_room or proved else Status.UNSOLVED
    else:
        status = Status.OPTIMAL if best.peak <= bound else Status.FEASIBLE
    return Solution(
        offset=best.offset[storages.of],
        peak=best.peak,
        lower_bound=bound,
        status=status,
        capacity=total,
        method=best.method,
        work=search.work,
        interrupted=best.interrupted,
        pool=best.pool[storages.of],
        pools=tuple(best.uses),
        in_place=storages.taken,
    )
