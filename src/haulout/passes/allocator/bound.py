"""The lower bound: the most bytes that are live at one moment.

All buffers live at one moment conflict with one another, so they stand side by side, whatever the placement. Sizes
count as reserved (`Problem.reserved`), and a pinned buffer's end is a bound too. One sort of births and deaths, one
running sum; a death at a moment comes before a birth at the same moment, because ranges are half-open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.passes.allocator.problem import I64, LIMIT, Problem
from haulout.support.diagnostics import fail


@dataclass(frozen=True, slots=True)
class Bound:
    """`size` bytes are needed, because of what is live at `moment` (None: because of a pinned buffer alone)."""

    size: int
    moment: int | None


def lower_bound(problem: Problem) -> Bound:
    """The bytes that every placement needs. Raises `over-capacity` when that is more than 2**62. O(n log n)."""
    reserved = problem.reserved
    taken = problem.occupies
    ranges = np.flatnonzero((problem.upper > problem.lower) & taken[problem.owner])
    if not len(ranges):
        return Bound(0, None)
    weight = reserved[problem.owner[ranges]]
    time = np.concatenate([problem.upper[ranges], problem.lower[ranges]])  # deaths first: the sort is stable
    order = np.argsort(time, kind="stable")
    live = running_sum(np.concatenate([-weight, weight])[order], weight)
    at = int(np.argmax(live))
    size, moment = int(live[at]), int(time[order[at]])
    if size > LIMIT:
        fail("over-capacity", f"{size} bytes are live at time {moment}, more than addresses of 2**62 bytes hold")
    pinned_end = np.where(taken & (problem.pinned >= 0), problem.pinned + reserved, 0)
    if int(pinned_end.max()) > size:
        return Bound(int(pinned_end.max()), None)
    return Bound(size, moment)


def running_sum(change: I64, weight: I64) -> I64 | np.ndarray[tuple[int], np.dtype[np.object_]]:
    """Cumulative sum of `change`, in Python's integers when sums of `weight` (what is added) may pass int64."""
    if float(weight.astype(np.float64).sum()) < LIMIT:
        return np.cumsum(change)
    total: np.ndarray[tuple[int], np.dtype[np.object_]] = np.cumsum(change.astype(object))
    return total


def live_at(problem: Problem, moment: int) -> I64:
    """The buffers that take storage at `moment`, ascending."""
    covers = (problem.lower <= moment) & (moment < problem.upper)
    buffers: I64 = problem.owner[covers]
    return buffers[problem.size[buffers] > 0]
