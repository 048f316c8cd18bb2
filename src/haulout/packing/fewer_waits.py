"""Move buffers of a placement, below its peak, so that they wait less for the buffers whose bytes they take over.

A buffer that takes over bytes may be used when the one before is done. Given the time at which each would be first
used, and done, if nobody waited for bytes, this costs the part of these times that overlaps:

    offset  ^
            |   [-- a --)                 b takes over bytes of a, which is done before: nothing waits
            |              [-- b --)
            |        [--- c ---)          d comes after c in the list, and could start before c is done: it waits
            |             [- d -)
            +----------------------> time

The largest buffers first, each that waits or is waited for moves to the lowest of the places with the least waiting,
if that is less than before. So the sum falls with every move, and no buffer rises above the peak. Only places
directly above a buffer need to be tried: sliding down to one meets no buffer that was not met before.
"""

from __future__ import annotations

import numpy as np

from haulout.packing.conflict_fit import Buffers, conflict
from haulout.packing.problem import I64
from haulout.support.jit import njit, plain_if_small

_VISITS = 20_000_000
"""Buffers visited by all moves: about as many take a quarter of a second."""
_CONFLICT_VISITS = 8
"""A question whether two buffers conflict counts as so many visits."""


def with_fewer_waits(buffers: Buffers, start: I64, done: I64, offset: I64, limit: int) -> I64:
    """Offsets of a placement with as much waiting or less, all of whose ends are at most `limit`.

    `start`, `done`: when each buffer is first used, and not any more, on the clock of its group. Only buffers of one
    group wait for one another.
    """
    order = np.argsort(-buffers.size, kind="stable")
    moved = offset.copy()
    with plain_if_small(_scan_waits, len(order) ** 2):
        _scan_waits(buffers, start, done, order, limit, _VISITS, moved)
    return moved


@njit
def _wait(x: Buffers, start: I64, done: I64, j: int, k: int) -> int:
    """How long one of two buffers that share bytes waits for the other; they do not conflict."""
    if x.group[j] != x.group[k]:
        return 0
    first, second = (j, k) if x.begin[j] < x.begin[k] else (k, j)
    return max(0, int(done[first] - start[second]))


@njit
def _scan_waits(x: Buffers, start: I64, done: I64, order: I64, limit: int, visits: int, offset: I64) -> None:
    """Move buffers until none can wait less, or `visits` are used up."""
    count = len(order)
    near, rivals, waits = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    moves = 1
    while moves > 0:
        moves = 0
        for k in order:
            size, align = x.size[k], x.alignment[k]
            now = 0
            visits -= count
            for j in range(count):
                meets = offset[j] < offset[k] + size and offset[k] < offset[j] + x.size[j]
                if meets and j != k and not conflict(x, j, k):
                    now += _wait(x, start, done, j, k)
            if visits < 0:
                return
            if now == 0:
                continue
            conflicts = found = 0
            visits -= _CONFLICT_VISITS * count
            for j in range(count):
                if j == k:
                    continue
                if conflict(x, j, k):
                    near[conflicts] = j
                    conflicts += 1
                    continue
                wait = _wait(x, start, done, j, k)
                if wait > 0:
                    rivals[found], waits[found] = j, wait
                    found += 1
            above = near[:conflicts][np.argsort(offset[near[:conflicts]])]
            best, least, reach = -1, now, 0
            for gap in range(conflicts + 1):
                ceiling = offset[above[gap]] if gap < conflicts else limit
                visits -= 1
                if ceiling - reach >= size:
                    visits -= found * found
                for r in range(-1, found if ceiling - reach >= size else -1):
                    place = reach
                    if r >= 0:
                        place = max(place, offset[rivals[r]] + x.size[rivals[r]])
                    place = -(-place // align) * align
                    if place + size > ceiling:
                        continue
                    total = 0
                    for s in range(found):
                        if offset[rivals[s]] < place + size and place < offset[rivals[s]] + x.size[rivals[s]]:
                            total += waits[s]
                    if total < least or (total == least and place < best):
                        best, least = place, total
                if gap < conflicts:
                    reach = max(reach, ceiling + x.size[above[gap]])
            if best >= 0:
                offset[k] = best
                moves += 1
