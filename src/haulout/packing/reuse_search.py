"""A local search for the second objective: few and cheap pairs of buffers that share bytes at different times.

Ruin and recreate: take away a buffer that pays, some buffers that it pays for, and some neighbours; put them back one
by one, each at the offset below the limit where it adds the least cost. Such an offset is 0, the end of another
buffer, or as high as possible below one. A step is kept if the cost is not above the current one, or that of some
steps ago (late acceptance). Pinned buffers stay. Every state is a whole placement, so the best one is always valid.

Sources: Schrimpf et al., "Record breaking optimization results using the ruin and recreate principle", 2000; Burke,
Bykov, "The late acceptance hill-climbing heuristic", 2017.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.packing.problem import I64
from haulout.support.jit import njit, plain_if_small

_MASK = 2**31 - 1
_LATE = 60
"""So many steps ago the cost was that a new one is compared with."""
_MOST_REMOVED = 12
_MAX_PLAIN_VISITS = 100_000


class Rows(NamedTuple):
    """Storages of one pool; `near[near_of[i]:near_of[i + 1]]` are the rows that row i must not or should not share
    bytes with, `price` what each costs, -1: it must not."""

    size: I64
    alignment: I64
    segment: I64
    fixed: I64
    near_of: I64
    near: I64
    price: I64


def lower_reuse(rows: Rows, offset: I64, limit: int, visits: int) -> tuple[I64, int]:
    """A placement below `limit` that costs no more than the valid one in `offset`, and its cost.

    `visits`: pairs of rows that are looked at.
    """
    best = offset.copy()
    with plain_if_small(_scan_reuse, visits, _MAX_PLAIN_VISITS):
        cost = _scan_reuse(rows, limit, visits, offset.copy(), best)
    return best, int(cost)


@njit
def _paid(rows: Rows, b: int, at: int, most: int, placed: I64, offset: I64) -> int:
    """What row b pays at an offset, more than `most` if it is above that; -1: it must not be there."""
    total: int = 0
    end = at + rows.size[b]
    for k in range(rows.near_of[b], rows.near_of[b + 1]):
        c = rows.near[k]
        if placed[c] and offset[c] < end and at < offset[c] + rows.size[c]:
            if rows.price[k] < 0:
                return -1
            total += rows.price[k]
            if total > most:
                return total
    return total


@njit
def _cheapest(rows: Rows, b: int, limit: int, low: bool, placed: I64, offset: I64) -> tuple[int, int, int]:
    """The lowest or highest of the offsets where row b pays least, -1 if there is none; the cost; visits."""
    align, segment, size = rows.alignment[b], rows.segment[b], rows.size[b]
    best, where = 1 << 62, -1
    begin, end = rows.near_of[b], rows.near_of[b + 1]
    tries = 0
    for k in range(begin - 1, end):
        if k >= begin and not placed[rows.near[k]]:
            continue
        for side in range(2):
            if k < begin:
                at = 0 if side == 0 else (limit - size) // align * align
            elif side == 0:
                at = (offset[rows.near[k]] + rows.size[rows.near[k]] + align - 1) // align * align
            else:
                at = (offset[rows.near[k]] - size) // align * align
            if at < 0 or at > limit - size or at == where:
                continue
            if segment > 0 and at % segment + size > segment:
                continue
            tries += 1
            paid = _paid(rows, b, at, best, placed, offset)
            if paid < 0 or paid > best:
                continue
            if paid < best or (at < where) == low:
                best, where = paid, at
    return where, best, (tries + 1) * (end - begin + 1)


@njit
def _scan_reuse(rows: Rows, limit: int, visits: int, offset: I64, best: I64) -> int:
    """Improve `offset`; `best` gets the best placement. Its cost."""
    n = len(rows.size)
    placed = np.ones(n, np.int64)
    cost = 0
    for b in range(n):
        cost += _paid(rows, b, offset[b], 1 << 62, placed, offset)
    cost //= 2
    least = cost
    late = np.empty(_LATE, np.int64)
    for k in range(_LATE):
        late[k] = cost
    out = np.empty(_MOST_REMOVED, np.int64)
    old = np.empty(_MOST_REMOVED, np.int64)
    random = 12345
    step = 0
    while visits > 0 and least > 0:
        step += 1
        b = 0
        for _turn in range(20):  # a row that pays
            random = (random * 1103515245 + 12345) & _MASK
            b = (random >> 8) % n
            visits -= rows.near_of[b + 1] - rows.near_of[b] + 1
            if not rows.fixed[b] and _paid(rows, b, offset[b], 0, placed, offset) > 0:
                break
        if rows.fixed[b]:
            continue
        random = (random * 1103515245 + 12345) & _MASK
        most = 1 + (random >> 8) % _MOST_REMOVED
        out[0] = b
        placed[b] = 0
        count = 1
        near, some = rows.near_of[b], rows.near_of[b + 1] - rows.near_of[b]
        end = offset[b] + rows.size[b]
        random = (random * 1103515245 + 12345) & _MASK
        start = (random >> 8) % max(some, 1)
        for j in range(some):
            if count >= most:
                break
            k = near + (start + j) % some
            c = rows.near[k]
            random = (random * 1103515245 + 12345) & _MASK
            shares = rows.price[k] > 0 and offset[c] < end and offset[b] < offset[c] + rows.size[c]
            # One that it pays for, or any neighbour with a chance that gives about three.
            if placed[c] and not rows.fixed[c] and (shares or (random >> 8) % (some + 1) < 3):
                out[count] = c
                placed[c] = 0
                count += 1
        visits -= some
        gone = 0
        for j in range(count):  # what the rows paid: put each back in thought, in turn
            c = out[j]
            old[j] = offset[c]
            gone += _paid(rows, c, offset[c], 1 << 62, placed, offset)
            placed[c] = 1
            visits -= rows.near_of[c + 1] - rows.near_of[c]
        for j in range(count):
            placed[out[j]] = 0
        random = (random * 1103515245 + 12345) & _MASK
        by_size, low = (random >> 8) % 2 == 0, (random >> 9) % 4 != 0
        for j in range(count - 1, 0, -1):  # a random order
            random = (random * 1103515245 + 12345) & _MASK
            i = (random >> 8) % (j + 1)
            out[i], out[j], old[i], old[j] = out[j], out[i], old[j], old[i]
        if by_size:
            for j in range(1, count):
                i = j
                while i > 0 and rows.size[out[i - 1]] < rows.size[out[i]]:
                    out[i], out[i - 1], old[i], old[i - 1] = out[i - 1], out[i], old[i - 1], old[i]
                    i -= 1
        added = 0
        whole = True
        for j in range(count):
            c = out[j]
            where, paid, spent = _cheapest(rows, c, limit, low, placed, offset)
            visits -= spent
            if where < 0:
                whole = False
                break
            offset[c] = where
            placed[c] = 1
            added += paid
        now = cost - gone + added
        slot = step % _LATE
        if whole and (now <= cost or now <= late[slot]):
            cost = now
        else:
            for j in range(count):
                offset[out[j]] = old[j]
                placed[out[j]] = 1
        late[slot] = cost
        if cost < least:
            least = cost
            for c in range(n):
                best[c] = offset[c]
    return least
