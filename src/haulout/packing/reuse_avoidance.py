"""Use the bytes below the capacity that a packed placement leaves free to avoid reuse.

Two storages that are never live together and share bytes are a *reuse pair*: the program must order the last access
of one before the first access of the other. Spare memory can avoid some of these pairs. Finding the minimum is as
hard as packing, so this is a heuristic of two steps, which move one storage at a time:

    insert      start from nothing, the largest storage first, each where it makes the fewest pairs; stop when one
                does not fit
    improve     start from the better of that and the packed placement: storages with the most pairs first, each moves
                to the lowest place with the fewest pairs, if these are fewer than now

Places tried for a storage: directly above or below any other, the bottom, and the top. The result never has more
pairs than the packed placement. Pinned storages and symmetric groups stay. A move costs O(n log n); the number of
moves is bounded, so large problems gain less instead of taking longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from haulout.packing.problem import I64, Problem
from haulout.packing.rules import Pool
from haulout.packing.solution import Solution, Status
from haulout.packing.storages import Storages, merge, nested
from haulout.support.diagnostics import bad_input

_ROUNDS = 4
_VISITS_LIMIT = 40_000_000
"""Storages visited by all moves in a pool."""


def spread_out(problem: Problem, solution: Solution) -> Solution:
    """The solution with fewer reuse pairs in the pools that have a capacity; `bad-input` if no pool has one."""
    pools = problem.rules.pools
    if all(pool.capacity is None for pool in pools):
        bad_input("`spread` needs a capacity")
    storages = merge(problem, solution.in_place)
    count = len(storages.allowed)
    pool, offset = np.zeros(count, np.int64), np.zeros(count, np.int64)
    pool[storages.of], offset[storages.of] = solution.pool, solution.offset
    uses, pairs = list(solution.pools), 0
    for number, each in enumerate(pools):
        mine = np.flatnonzero((pool == number) & storages.problem.occupies)
        if each.capacity is not None and len(mine):
            offset[mine] = _Space(storages, mine, each, offset[mine]).spread()
            granule = 1 if storages.groups else int(np.gcd.reduce(storages.problem.alignment[mine]))
            reserved = -(-storages.problem.size[mine] // granule) * granule  # as the search counts
            uses[number] = replace(uses[number], peak=int((offset[mine] + reserved).max()))
        pairs += count_reuse(offset[mine], storages.problem.size[mine])
    peak = sum(use.peak for use in uses)
    return replace(
        solution,
        offset=offset[storages.of],
        peak=peak,
        status=Status.OPTIMAL if peak <= solution.lower_bound else Status.FEASIBLE,
        pools=tuple(uses),
        reuse_pairs=pairs,
    )


def count_reuse(offset: I64, size: I64) -> int:
    """Number of pairs of storages that share bytes: reuse pairs, as storages live together share none. O(n log n)."""
    end = offset + size
    below = np.searchsorted(np.sort(offset), end).sum() - np.searchsorted(np.sort(end), offset, side="right").sum()
    return int(below - len(offset)) // 2


@dataclass(slots=True)
class _Space:
    """One pool: its storages and their offsets."""

    storages: Storages
    mine: I64
    pool: Pool
    packed: I64

    def spread(self) -> I64:
        """Insert, then improve."""
        size = self.storages.problem.size[self.mine]
        best = self.packed
        inserted = self._insert(size)
        if inserted is not None and count_reuse(inserted, size) < count_reuse(best, size):
            best = inserted
        return self._improve(best.copy(), size)

    def _insert(self, size: I64) -> I64 | None:
        if len(size) ** 2 > _VISITS_LIMIT:
            return None
        offset = self.packed.copy()
        placed = self._fixed()
        for k in np.lexsort((np.arange(len(size)), -size)).tolist():
            if placed[k]:
                continue
            place = self._best_place(k, offset, size, placed)
            if place is None:
                return None
            offset[k] = place[0]
            placed[k] = True
        return offset

    def _improve(self, offset: I64, size: I64) -> I64:
        fixed = self._fixed()
        everything = np.ones(len(size), bool)
        moves = _VISITS_LIMIT // len(size)
        for _ in range(_ROUNDS):
            end = offset + size
            pairs = np.searchsorted(np.sort(offset), end) - np.searchsorted(np.sort(end), offset, side="right") - 1
            order = np.lexsort((np.arange(len(size)), -pairs))
            changed = False
            for k in order[(pairs[order] > 0) & ~fixed[order]].tolist():
                if moves == 0:
                    return offset
                moves -= 1
                now = int(((offset < offset[k] + size[k]) & (offset + size > offset[k])).sum()) - 1
                place = self._best_place(k, offset, size, everything)
                if place is not None and place[1] < now:
                    offset[k] = place[0]
                    changed = True
            if not changed:
                break
        return offset

    def _fixed(self) -> NDArray[np.bool_]:
        mirrored = [at for group in self.storages.groups for at in group]
        fixed: NDArray[np.bool_] = (self.storages.problem.pinned[self.mine] >= 0) | np.isin(self.mine, mirrored)
        return fixed

    def _best_place(self, k: int, offset: I64, size: I64, placed: NDArray[np.bool_]) -> tuple[int, int] | None:
        """The offset of storage k with the fewest reuse pairs among `placed`, and their number; None: no room."""
        assert self.pool.capacity is not None
        problem, at = self.storages.problem, int(self.mine[k])
        need, align = int(size[k]), int(problem.alignment[at])
        segment = nested(int(problem.segment[at]), self.pool.segment or 0, "a buffer")
        others = placed.copy()
        others[k] = False
        start, end = offset[others], (offset + size)[others]
        clash = self._conflicts(at)[others]
        up = np.concatenate([[0], -(-end // align) * align])
        down = np.concatenate([start, [self.pool.capacity]]) - need
        tries = np.concatenate([up, down[down >= 0] // align * align])
        if segment:
            crossing = tries % segment + need > segment
            tries[crossing] = (tries[crossing] // segment + 1) * segment
        tries = np.unique(tries[tries <= self.pool.capacity - need])
        blocked = _overlaps(tries, need, start[clash], end[clash])
        tries = tries[blocked == 0]
        if not len(tries):
            return None
        pairs = _overlaps(tries, need, start[~clash], end[~clash])
        least = int(np.argmin(pairs))
        return int(tries[least]), int(pairs[least])

    def _conflicts(self, at: int) -> NDArray[np.bool_]:
        """Which of `mine` are live together with storage `at`."""
        problem = self.storages.problem
        rows = slice(*np.searchsorted(problem.owner, [at, at + 1]))
        met = np.zeros(len(problem), bool)
        for lower, upper in zip(problem.lower[rows].tolist(), problem.upper[rows].tolist(), strict=True):
            met[problem.owner[(problem.lower < upper) & (lower < problem.upper)]] = True
        found: NDArray[np.bool_] = met[self.mine]
        return found


def _overlaps(tries: I64, need: int, start: I64, end: I64) -> I64:
    """How many of the intervals each tried offset overlaps."""
    below = np.searchsorted(np.sort(start), tries + need)
    passed = np.searchsorted(np.sort(end), tries, side="right")
    return (below - passed).astype(np.int64)
