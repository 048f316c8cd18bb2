"""The validator: one sweep over time; it shares no code with any search.

A valid placement has every pinned buffer at its pin, every offset at a non-negative multiple of the buffer's
alignment, every buffer in a pool that it allows, below that pool's capacity and across no multiple of its segment or
the pool's, aliases at one offset of one pool, symmetric buffers at one offset in different pools, and no two buffers
that are live at one moment and share a byte of one pool.

The sweep checks the last condition. Aliases at one place are one storage, live when any of them is. An in-place pair
at one place shares the moment at which its input dies and its output is born; the sweep shortens the life of the
smaller of the two by that moment, as the larger one covers its bytes. Then births and deaths are visited by time,
deaths first. Live storages that do not overlap have distinct offsets, so the live set is a set of ranks of offsets: a
complete binary tree over the ranks with a bit for each node, set if anything below it is live. At a birth, the first
overlap can only be with the next live storage below or above; both are found by climbing and descending the tree. O(n
log n).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from haulout.packing.problem import I64, Problem
from haulout.support.diagnostics import Diagnostic, Severity
from haulout.support.jit import njit, plain_if_small

_MAX_PLAIN = 2_000
"""Up to so many ranges, the sweep runs in plain Python while the kernel is not loaded."""


def violations(
    problem: Problem,
    offset: I64,
    capacity: int | None = None,
    *,
    pool: I64 | None = None,
    capacities: bool = True,
) -> list[Diagnostic]:
    """The violations of a placement, at most one finding of each kind; empty if it is valid.

    `capacity` is one more limit for every pool; `capacities` False ignores those of the pools. Without `pool` every
    buffer is in pool 0.
    """
    found: list[Diagnostic] = []

    def report(code: str, message: str) -> None:
        found.append(Diagnostic(code, Severity.ERROR, message))

    where = np.zeros(len(problem), np.int64) if pool is None else pool
    if offset.shape != problem.size.shape or where.shape != problem.size.shape:
        report("bad-input", f"{len(offset)} offsets in {len(where)} pools for {len(problem)} buffers")
        return found
    _check_pools(problem, where, report)
    if found:
        return found
    for b in np.flatnonzero((problem.pinned >= 0) & (offset != problem.pinned))[:1].tolist():
        report("moved-pin", f"buffer {b} is pinned at {problem.pinned[b]} but placed at {offset[b]}")
    for b in np.flatnonzero((offset < 0) | (offset % problem.alignment != 0))[:1].tolist():
        report("misaligned-storage", f"buffer {b} at {offset[b]} is not aligned to {problem.alignment[b]}")
    taken = problem.occupies
    pools = problem.rules.pools
    limits = np.full(len(pools), 2**63 - 1, np.int64)
    for p, each in enumerate(pools):
        known = [limit for limit in (each.capacity if capacities else None, capacity) if limit is not None]
        limits[p] = min(known, default=2**63 - 1)
    for b in np.flatnonzero(taken & (offset > limits[where] - problem.size))[:1].tolist():
        end = int(offset[b]) + int(problem.size[b])
        name = f" of pool {pools[where[b]].name}" if len(pools) > 1 else ""
        report("over-capacity", f"buffer {b} ends at {end}, above the capacity {limits[where[b]]}{name}")
    _check_segments(problem, offset, where, report)
    _check_groups(problem, offset, where, report)
    pair = overlapping_pair(problem, offset, taken, where)
    if pair is not None:
        one, other = (f"buffer {b} at [{offset[b]}, {int(offset[b]) + int(problem.size[b])})" for b in pair)
        report("overlapping-storage", f"{one} and {other} share bytes while both are live")
    return found


def _check_pools(problem: Problem, where: I64, report: Callable[[str, str], None]) -> None:
    """Every buffer is in an existing pool that it allows."""
    pools, allowed = problem.rules.pools, problem.rules.allowed
    for b in np.flatnonzero((where < 0) | (where >= len(pools)))[:1].tolist():
        report("wrong-pool", f"buffer {b} is in pool {where[b]}, there are {len(pools)}")
        return
    for b, mine in enumerate(allowed):
        if mine and int(where[b]) not in mine:
            names = ", ".join(pools[p].name for p in mine)
            report("wrong-pool", f"buffer {b} is in pool {pools[where[b]].name}, allowed: {names}")
            return


def _check_segments(problem: Problem, offset: I64, where: I64, report: Callable[[str, str], None]) -> None:
    """No buffer has a multiple of its segment, or of its pool's, inside."""
    of_pool = np.array([each.segment or 0 for each in problem.rules.pools], np.int64)
    for segment in (problem.segment, of_pool[where]):
        whole = np.where(segment > 0, segment, 1)
        for b in np.flatnonzero(problem.occupies & (segment > 0) & (problem.size > whole - offset % whole))[
            :1
        ].tolist():
            end = int(offset[b]) + int(problem.size[b])
            report("crossed-segment", f"buffer {b} at [{offset[b]}, {end}) crosses a multiple of {segment[b]}")
            return


def _check_groups(problem: Problem, offset: I64, where: I64, report: Callable[[str, str], None]) -> None:
    """Aliases are at one place; symmetric buffers at one offset, no two in one pool."""
    for group in problem.rules.aliases:
        apart = [b for b in group if (offset[b], where[b]) != (offset[group[0]], where[group[0]])]
        if apart:
            report("split-alias", f"buffers {group[0]} and {apart[0]} are aliases but not at one place")
            break
    leader: dict[int, int] = {b: group[0] for group in problem.rules.aliases for b in group}
    for group in problem.rules.symmetric:
        apart = [b for b in group if offset[b] != offset[group[0]]]
        if apart:
            one, other = offset[group[0]], offset[apart[0]]
            report("unequal-offsets", f"buffers {group[0]} and {apart[0]} are symmetric but at {one} and {other}")
            break
        distinct = {leader.get(b, b): b for b in group}
        if len({int(where[b]) for b in distinct.values()}) < len(distinct):
            report("wrong-pool", f"two of the symmetric buffers {group} are in one pool")
            break


def overlapping_pair(
    problem: Problem, offset: I64, taken: NDArray[np.bool_], where: I64 | None = None
) -> tuple[int, int] | None:
    """Two buffers of different storages that are live at one moment and share a byte, or None."""
    ranges = np.flatnonzero((problem.upper > problem.lower) & taken[problem.owner])
    if len(ranges) < 2:
        return None
    owner = problem.owner[ranges]
    moments = _distinct(np.concatenate([problem.lower[ranges], problem.upper[ranges]]))
    begin, end = np.searchsorted(moments, problem.lower[ranges]), np.searchsorted(moments, problem.upper[ranges])
    where = np.zeros(len(problem), np.int64) if where is None else where
    if problem.window_low is not None and problem.window_high is not None:
        # Every range is a rectangle of its own.
        low, high = problem.window_low[ranges], problem.window_high[ranges]
        solid = np.flatnonzero(high > low)
        pair = _sweep(begin[solid], end[solid], solid, offset[owner] + low, high - low)
        return None if pair is None else (int(owner[pair[0]]), int(owner[pair[1]]))
    size = problem.size
    rules = problem.rules
    if rules.aliases or rules.in_place:
        begin, end, owner, size = _storages(problem, offset, where, begin, end, owner)
        _share_moments(problem, offset, where, moments, begin, end, owner, size)
        kept = begin < end
        begin, end, owner = begin[kept], end[kept], owner[kept]
    for p in range(len(rules.pools)):
        here = where[owner] == p
        pair = _sweep(begin[here], end[here], owner[here], offset, size)
        if pair is not None:
            return pair
    return None


def _storages(
    problem: Problem, offset: I64, where: I64, begin: I64, end: I64, owner: I64
) -> tuple[I64, I64, I64, I64]:
    """Ranges and sizes with the aliases at one place joined, under the number of the least buffer."""
    name: dict[tuple[int, int, int], int] = {}
    leader = np.arange(len(problem), dtype=np.int64)
    taken = problem.occupies
    size = np.where(taken, problem.size, 0)
    for number, group in enumerate(problem.rules.aliases):
        for b in sorted(group):
            leader[b] = name.setdefault((number, int(offset[b]), int(where[b])), b)
            if taken[b]:
                size[leader[b]] = max(size[leader[b]], size[b])
    owner = leader[owner]
    order = np.lexsort((end, begin, owner))
    begin, end, owner = begin[order], end[order], owner[order]
    apart = int(end.max()) + 1  # reach: the latest end so far of the same storage
    reach = np.maximum.accumulate(end + owner * apart) - owner * apart
    new = np.ones(len(owner), bool)
    new[1:] = (owner[1:] != owner[:-1]) | (begin[1:] > reach[:-1])
    starts = np.flatnonzero(new)
    last = np.append(starts[1:], len(owner)) - 1
    return begin[starts], reach[last], owner[starts], size


def _share_moments(
    problem: Problem, offset: I64, where: I64, moments: I64, begin: I64, end: I64, owner: I64, size: I64
) -> None:
    """Shorten the smaller buffer of each in-place pair at one place by the common moment; changes begin and end."""
    leader = {b: least for group in problem.rules.aliases for least in (min(group),) for b in group}
    first = {int(b): int(k) for k, b in reversed(list(enumerate(owner.tolist())))}
    last = {int(b): int(k) for k, b in enumerate(owner.tolist())}
    birth = {b: int(moments[begin[k]]) for b, k in first.items()}
    death = {b: int(moments[end[k]]) for b, k in last.items()}
    inputs: set[int] = set()
    outputs: set[int] = set()
    for source, target in problem.rules.in_place:
        one, two = leader.get(source, source), leader.get(target, target)
        if one == two or one not in last or two not in first or one in inputs or two in outputs:
            continue
        together = offset[source] == offset[target] and where[source] == where[target]
        if together and birth[one] < birth[two] == death[one] - 1:
            inputs.add(one)
            outputs.add(two)
            if size[two] <= size[one]:
                begin[first[two]] += 1  # the next moment is the input's death
            else:
                end[last[one]] -= 1


def _distinct(values: I64) -> I64:
    """The distinct values, ascending; `np.unique` imports masked arrays, which takes as long as a small problem."""
    values = np.sort(values)
    distinct: I64 = values[np.append(True, values[1:] != values[:-1])[: len(values)]]
    return distinct


def _sweep(begin: I64, end: I64, owner: I64, offset: I64, size: I64) -> tuple[int, int] | None:
    if len(owner) < 2:
        return None
    event = np.argsort(np.concatenate([end, begin]), kind="stable")
    rank = np.zeros(len(offset), np.int64)
    rank[owner] = np.searchsorted(_distinct(offset[owner]), offset[owner])
    with plain_if_small(_scan_sweep, len(owner), _MAX_PLAIN):
        one, other = _scan_sweep(event, owner, rank, offset, size)
    return None if one < 0 else (min(int(one), int(other)), max(int(one), int(other)))


@njit
def _scan_sweep(event: I64, owner: I64, rank: I64, offset: I64, size: I64) -> tuple[int, int]:
    """Visit events (below len(owner): the death of that range, else a birth); the first overlap, or (-1, -1)."""
    ranges = len(owner)
    ranks, leaves = 0, 1
    for each in rank:
        ranks = max(ranks, each + 1)
    while leaves < ranks:
        leaves *= 2
    occupied = np.zeros(2 * leaves, np.bool_)
    holder = np.full(leaves, -1, np.int64)
    for e in event:
        birth = e >= ranges
        b = owner[e - ranges if birth else e]
        node = leaves + rank[b]
        if not birth:
            occupied[node] = False
            while node > 1:
                node //= 2
                occupied[node] = occupied[2 * node] or occupied[2 * node + 1]
            continue
        if occupied[node]:
            return holder[rank[b]], b
        for side in range(2):  # 0: the next live buffer above; 1: the next below
            x = node
            while x > 1 and (x % 2 != side or not occupied[x ^ 1]):
                x //= 2
            if x == 1:
                continue
            x ^= 1
            while x < leaves:
                x = 2 * x + side
                if not occupied[x]:
                    x ^= 1
            other = holder[x - leaves]
            low, high = (b, other) if side == 0 else (other, b)
            if size[low] > offset[high] - offset[low]:
                return other, b
        holder[rank[b]] = b
        while node >= 1 and not occupied[node]:
            occupied[node] = True
            node //= 2
    return -1, -1
