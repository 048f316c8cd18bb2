"""First and best fit for buffers on two time axes: that of their group, and one that all groups share.

Two buffers of one group conflict if their ranges on its axis overlap, two of different groups if their ranges on the
common axis do. Such conflicts are not overlaps on any one axis.

Buffers are placed in several orders, each by first fit and by best fit. Buffers that end above the bound gain blame
and are placed earlier in the next rounds. A placement takes O(n**2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from haulout.packing.instance import F64
from haulout.packing.keys import rank
from haulout.packing.problem import I64
from haulout.support.jit import njit, plain_if_small

_ROUNDS = 6
_BLAME = 0.3
_DECAY = 0.9
_NO_LIMIT = (1 << 63) - 1
_FEW = 20
"""So few buffers are placed before a kernel is loaded."""


class Buffers(NamedTuple):
    """Buffers to place; ranges are half-open."""

    size: I64
    alignment: I64
    group: I64
    begin: I64
    end: I64
    """On the axis of the group."""
    first: I64
    last: I64
    """On the common axis."""


def fit_conflicts(buffers: Buffers, keys: Sequence[F64], bound: int) -> tuple[I64, int]:
    """Offsets and peak. `keys`: priorities, greater goes first. `bound`: a peak that ends the search."""
    best: tuple[I64, int] | None = None
    size = buffers.size
    blame = np.zeros(len(size))
    work = len(size) * (len(keys) + _ROUNDS)
    with plain_if_small(_scan_fit, work, _FEW * (len(keys) + _ROUNDS)):
        for turn in range(len(keys) + _ROUNDS):
            order = np.argsort(-(rank(keys[turn % len(keys)]) + blame), kind="stable")
            for tight in (False, True):
                offset = np.zeros(len(size), np.int64)
                # The tight one is finished in any case: its offsets decide who gets blame.
                most = _NO_LIMIT if best is None or tight else best[1] - 1
                if not _scan_fit(buffers, order, tight, offset, most):
                    continue
                peak = int((offset + size).max(initial=0))
                if best is None or peak < best[1]:
                    best = offset, peak
                if peak <= bound:
                    return offset, peak
            blame *= _DECAY
            blame[offset + size > bound] += _BLAME
    assert best is not None
    return best


@njit
def conflict(x: Buffers, j: int, k: int) -> bool:
    """Whether two buffers may share no byte."""
    if x.group[j] == x.group[k]:
        return bool(x.begin[j] < x.end[k] and x.begin[k] < x.end[j])
    return bool(x.first[j] < x.last[k] and x.first[k] < x.last[j])


@njit
def _scan_fit(x: Buffers, order: I64, tight: bool, offset: I64, most: int) -> bool:
    """Each buffer in the lowest, or the tightest, gap between the conflicting buffers placed before it.

    Returns False, with the offsets incomplete, when one ends above `most`.
    """
    # The buffers placed so far by rising offset, as columns: they are read one after the other for each new one.
    low, high = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    group, begin, end = np.empty_like(low), np.empty_like(low), np.empty_like(low)
    first, last = np.empty_like(low), np.empty_like(low)
    for count in range(len(order)):
        k = order[count]
        size, alignment, mine = x.size[k], x.alignment[k], x.group[k]
        begin_k, end_k, first_k, last_k = x.begin[k], x.end[k], x.first[k], x.last[k]
        reach, best, best_room = 0, -1, 0
        for at in range(count):
            if high[at] <= reach:
                continue  # it ends below what was passed
            if group[at] == mine:
                if begin[at] >= end_k or begin_k >= end[at]:
                    continue
            elif first[at] >= last_k or first_k >= last[at]:
                continue
            place = -(-reach // alignment) * alignment
            room = low[at] - place
            if room >= size and (best == -1 or room < best_room):
                best, best_room = place, room
                if not tight:
                    break
            reach = high[at]
        if best == -1:
            best = -(-reach // alignment) * alignment
        if best + size > most:
            return False
        offset[k] = best
        at = count
        while at > 0 and low[at - 1] > best:
            at -= 1
        for to in range(count, at, -1):
            low[to], high[to], group[to] = low[to - 1], high[to - 1], group[to - 1]
            begin[to], end[to], first[to], last[to] = begin[to - 1], end[to - 1], first[to - 1], last[to - 1]
        low[at], high[at], group[at] = best, best + size, mine
        begin[at], end[at], first[at], last[at] = begin_k, end_k, first_k, last_k
    return True
