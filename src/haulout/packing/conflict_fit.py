"""First and best fit for buffers whose conflicts are arbitrary, not overlaps on one time axis.

Buffers are placed in several orders, each by first fit and by best fit. Buffers that end above the bound gain blame
and are placed earlier in the next rounds. A placement takes O(n**2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from haulout.packing.instance import F64
from haulout.packing.keys import rank
from haulout.packing.problem import I64

_ROUNDS = 6
_BLAME = 0.3
_DECAY = 0.9


def fit_conflicts(
    size: I64, alignment: I64, conflicts: Callable[[int], NDArray[np.bool_]], keys: Sequence[F64], bound: int
) -> tuple[I64, int]:
    """Offsets and peak. `conflicts(k)`: which buffers conflict with buffer k; `keys`: priorities, greater goes first.

    `bound`: a peak that ends the search.
    """
    best: tuple[I64, int] | None = None
    blame = np.zeros(len(size))
    for turn in range(len(keys) + _ROUNDS):
        order = np.argsort(-(rank(keys[turn % len(keys)]) + blame), kind="stable")
        for tight in (False, True):
            offset = _fit(size, alignment, conflicts, order, tight)
            peak = int((offset + size).max(initial=0))
            if best is None or peak < best[1]:
                best = offset, peak
            if peak <= bound:
                return offset, peak
        blame *= _DECAY
        blame[offset + size > bound] += _BLAME
    assert best is not None
    return best


def _fit(size: I64, alignment: I64, conflicts: Callable[[int], NDArray[np.bool_]], order: I64, tight: bool) -> I64:
    """Each buffer in the lowest, or the tightest, gap between the conflicting buffers placed before it."""
    offset = np.full(len(order), -1, np.int64)
    for k in order.tolist():
        near = np.flatnonzero(conflicts(k) & (offset >= 0))
        near = near[np.argsort(offset[near], kind="stable")]
        ends = np.maximum.accumulate(np.concatenate([[0], (offset + size)[near]]))
        step = int(alignment[k])
        places = -(-ends // step) * step
        room = np.append(offset[near], 1 << 62) - places
        fits = np.flatnonzero(room >= size[k])
        offset[k] = places[fits[np.argmin(room[fits])] if tight else fits[0]]
    return offset
