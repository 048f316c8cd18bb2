"""Assign storages to pools, and turn the pools into problems of one address space.

**Assignment.** When there are few assignments, all are tried. Otherwise storages are assigned greedily, those with
the fewest allowed pools first, then the largest. A storage takes the pool in which it exceeds the capacity least,
then the one whose peak of live bytes grows least (bytes below a capacity are free), then the preferred one. A segment
tree for each pool keeps its live bytes over the moments. The members of a symmetric group are assigned together, one
a pool.

**Clusters.** A pool is a problem by itself, unless a symmetric group ties it to others. Tied pools become one
problem: their time axes are concatenated, and a group is one buffer with a range in each.

    pool 0        | pool 1        |        equal offsets: one buffer, live in both
    [--- g ---)   |    [-- g --)  |

If capacities in a cluster differ, a buffer pinned at a smaller capacity blocks the bytes above it in that pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from haulout.packing.kernels import add_to_range, fullest_leaf
from haulout.packing.problem import I64, LIMIT, Problem
from haulout.packing.rules import Pool
from haulout.packing.storages import Storages, nested
from haulout.support.diagnostics import bad_input
from haulout.support.jit import njit, plain_if_small

_MAX_ASSIGNMENTS = 32
"""Up to so many assignments, all are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Pools that are solved together. `row`: the buffer of `problem` for each of `storages`."""

    pools: tuple[int, ...]
    storages: I64
    row: I64
    problem: Problem
    capacity: int | None


def assignments(storages: Storages, pools: tuple[Pool, ...]) -> Iterator[I64]:
    """Pool of each storage: all assignments when there are few, else a balanced one."""
    balanced = balance(storages, capacities(pools))
    yield balanced
    if not is_listed(storages):
        return
    free = [at for at, pools_of in enumerate(storages.allowed) if len(pools_of) > 1]
    for choice in product(*(storages.allowed[at] for at in free)):
        pool = np.array([pools_of[0] for pools_of in storages.allowed], np.int64)
        pool[free] = choice
        apart = all(len({int(pool[at]) for at in group}) == len(group) for group in storages.groups)
        if apart and not np.array_equal(pool, balanced):
            yield pool


def capacities(pools: tuple[Pool, ...]) -> I64:
    """Capacity of each pool; 2**62 where there is none."""
    return np.array([LIMIT if pool.capacity is None else pool.capacity for pool in pools], np.int64)


def is_listed(storages: Storages) -> bool:
    """Whether `assignments` gives all possible ones."""
    free = [len(mine) for mine in storages.allowed if len(mine) > 1]
    return len(free) < _MAX_ASSIGNMENTS and prod(free) <= _MAX_ASSIGNMENTS


def balance(storages: Storages, capacity: I64, banned: frozenset[tuple[int, int]] = frozenset()) -> I64:
    """One assignment. `capacity`: of each pool; `banned`: (storage, pool) to avoid if the storage allows another."""
    count, problem = len(storages.allowed), storages.problem
    chosen = np.full(count, -1, np.int64)
    allowed = []
    for at, mine in enumerate(storages.allowed):
        kept = tuple(p for p in mine if (at, p) not in banned)
        allowed.append(kept or mine)
    for group in storages.groups:
        allowed = _narrowed(group, allowed, storages.allowed)
    if all(len(mine) == 1 for mine in allowed):
        return np.array([mine[0] for mine in allowed], np.int64).reshape(count)
    size = problem.reserved
    order = np.lexsort((np.arange(count), -size, np.array([len(mine) for mine in allowed])))
    times, place = np.unique(np.concatenate([problem.lower, problem.upper]), return_inverse=True)
    head = np.searchsorted(problem.owner, np.arange(count + 1))
    start = np.concatenate([[0], np.cumsum([len(mine) for mine in allowed])])
    with plain_if_small(_scan_balance, 8 * len(problem.lower)):
        _scan_balance(
            order,
            size,
            problem.occupies,
            head,
            place[: len(problem.lower)],
            place[len(problem.lower) :],
            start,
            np.array([p for mine in allowed for p in mine], np.int64),
            capacity,
            max(len(times), 1),
            chosen,
        )
    return chosen


def _narrowed(
    group: tuple[int, ...], allowed: list[tuple[int, ...]], given: tuple[tuple[int, ...], ...]
) -> list[tuple[int, ...]]:
    """Leave each member of a symmetric group one pool, all different: bipartite matching by augmenting paths."""
    allowed = list(allowed)
    for choice in (allowed, given):
        holder: dict[int, int] = {}
        if all(_seat(member, choice, holder, set()) for member in group):
            for pool, member in holder.items():
                allowed[member] = (pool,)
            return allowed
    bad_input(f"the symmetric buffers {group} must be in different pools; the allowed pools do not permit that")


def _seat(
    member: int, choice: list[tuple[int, ...]] | tuple[tuple[int, ...], ...], holder: dict[int, int], tried: set[int]
) -> bool:
    for pool in choice[member]:
        if pool not in tried:
            tried.add(pool)
            if pool not in holder or _seat(holder[pool], choice, holder, tried):
                holder[pool] = member
                return True
    return False


@njit
def _scan_balance(
    order: I64,
    size: I64,
    occupies: NDArray[np.bool_],
    head: I64,
    begin: I64,
    end: I64,
    start: I64,
    choice: I64,
    capacity: I64,
    moments: int,
    chosen: I64,
) -> None:
    """Fill `chosen`. `most` and `added` are a segment tree over the moments for each pool (`kernels.py`)."""
    leaves = 1
    while leaves < moments:
        leaves *= 2
    pools = len(capacity)
    most = np.zeros((pools, 2 * leaves), np.int64)
    added = np.zeros((pools, 2 * leaves), np.int64)
    nodes = np.empty(160, np.int64)
    for at in order:
        best = -1
        best_over = best_growth = 1 << 62
        for k in range(start[at], start[at + 1]):
            pool = choice[k]
            peak = most[pool, 1]
            high = 0
            for r in range(head[at], head[at + 1]):
                high = max(high, fullest_leaf(begin[r], end[r], most[pool], added[pool], nodes)[1])
            reach = high + size[at] if occupies[at] else 0
            over = max(0, reach - capacity[pool])
            growth = max(0, reach - peak) if capacity[pool] == 1 << 62 else 0
            if over < best_over or (over == best_over and growth < best_growth):
                best, best_over, best_growth = pool, over, growth
        chosen[at] = best
        if not occupies[at]:
            continue
        for r in range(head[at], head[at + 1]):
            add_to_range(begin[r], end[r], size[at], most[best], added[best], nodes)


def clusters(storages: Storages, pool: I64, pools: tuple[Pool, ...]) -> list[Cluster]:
    """The problems of an assignment, in the order of their first pools."""
    tied = list(range(len(pools)))
    for group in storages.groups:
        together = {tied[int(pool[at])] for at in group}
        tied = [min(together) if each in together else each for each in tied]
    made = []
    for first in sorted(set(tied)):
        numbers = tuple(p for p in range(len(pools)) if tied[p] == first)
        members = np.flatnonzero(np.isin(pool, numbers))
        made.append(
            _one_pool(storages, members, numbers[0], pools)
            if len(numbers) == 1
            else _several(storages, members, numbers, pool, pools)
        )
    return made


def _segment(storages: Storages, at: int, pool: Pool) -> int:
    return nested(int(storages.problem.segment[at]), pool.segment or 0, f"a buffer in pool {pool.name}")


def _one_pool(storages: Storages, members: I64, number: int, pools: tuple[Pool, ...]) -> Cluster:
    problem, pool = storages.problem, pools[number]
    ranges = np.flatnonzero(np.isin(problem.owner, members))
    segment = problem.segment[members]
    if pool.segment is not None:
        segment = np.array([_segment(storages, at, pool) for at in members.tolist()], np.int64)
    sub = Problem.of(
        problem.lower[ranges],
        problem.upper[ranges],
        problem.size[members],
        problem.alignment[members],
        pinned=problem.pinned[members],
        owner=np.searchsorted(members, problem.owner[ranges]),
        segment=segment,
    )
    return Cluster((number,), members, np.arange(len(members)), sub, pool.capacity)


def _several(
    storages: Storages, members: I64, numbers: tuple[int, ...], pool: I64, pools: tuple[Pool, ...]
) -> Cluster:
    """Tied pools: times as ranks, the pools one after the other; one row for each symmetric group."""
    problem = storages.problem
    leader = np.arange(len(storages.allowed))
    for group in storages.groups:
        leader[list(group)] = group[0]
    rows, row = np.unique(leader[members], return_inverse=True)
    size = np.zeros(len(rows), np.int64)
    alignment = np.ones(len(rows), np.int64)
    pinned = np.full(len(rows), -1, np.int64)
    segment = np.zeros(len(rows), np.int64)
    np.maximum.at(size, row, problem.size[members])
    np.lcm.at(alignment, row, problem.alignment[members])
    np.maximum.at(pinned, row, problem.pinned[members])
    for at, r in zip(members.tolist(), row.tolist(), strict=True):
        if problem.pinned[at] not in (-1, pinned[r]):
            bad_input(f"symmetric buffers are pinned at {problem.pinned[at]} and {pinned[r]}")
        segment[r] = nested(int(segment[r]), _segment(storages, at, pools[int(pool[at])]), "a symmetric group")
    times, place = np.unique(np.concatenate([problem.lower, problem.upper]), return_inverse=True)
    ranges = np.flatnonzero(np.isin(problem.owner, members))
    shift = np.searchsorted(numbers, pool[problem.owner[ranges]]) * len(times)
    lower = place[: len(problem.lower)][ranges] + shift
    upper = place[len(problem.lower) :][ranges] + shift
    owner = row[np.searchsorted(members, problem.owner[ranges])]

    limits = [pools[p].capacity for p in numbers]
    known = [limit for limit in limits if limit is not None]
    capacity = max(known) if len(known) == len(limits) else None
    if known and (capacity is None or min(known) < capacity):
        # The blocking buffers must not count as a peak: they end at the largest capacity.
        end = capacity if capacity is not None else min(LIMIT, 2 * int(problem.reserved[members].sum()) + max(known))
        for k, limit in enumerate(limits):
            if limit is not None and limit < end:
                lower, upper = np.append(lower, k * len(times)), np.append(upper, (k + 1) * len(times) - 1)
                owner = np.append(owner, len(size))
                size, pinned = np.append(size, end - limit), np.append(pinned, limit)
                alignment, segment = np.append(alignment, 1), np.append(segment, 0)
        capacity = end
    sub = Problem.of(lower, upper, size, alignment, pinned=pinned, owner=owner, segment=segment)
    return Cluster(numbers, members, row.astype(np.int64), sub, capacity)
