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
                _scan_fit(buffers, order, tight, offset)
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
def _scan_fit(x: Buffers, order: I64, tight: bool, offset: I64) -> None:
    """Each buffer in the lowest, or the tightest, gap between the conflicting buffers placed before it."""
    placed = np.empty(len(order), np.int64)  # by rising offset
    for count in range(len(order)):
        k = order[count]
        reach, best, best_room = 0, -1, 0
        for at in range(count):
            j = placed[at]
            if not conflict(x, j, k):
                continue
            place = -(-reach // x.alignment[k]) * x.alignment[k]
            room = offset[j] - place
            if room >= x.size[k] and (best == -1 or room < best_room):
                best, best_room = place, room
                if not tight:
                    break
            reach = max(reach, offset[j] + x.size[j])
        if best == -1:
            best = -(-reach // x.alignment[k]) * x.alignment[k]
        offset[k] = best
        at = count
        while at > 0 and offset[placed[at - 1]] > best:
            placed[at] = placed[at - 1]
            at -= 1
        placed[at] = k
