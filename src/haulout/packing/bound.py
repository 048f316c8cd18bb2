"""The lower bound: the most bytes that are live at one moment.

Buffers that are live at one moment conflict with one another, so every placement puts them side by side. Sizes count
as reserved (`Problem.reserved`), and a pinned buffer's end is a bound too. The bound is one sort of births and deaths
and one running sum; a death at a moment comes before a birth at the same moment, because ranges are half-open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from haulout.packing.problem import I64, LIMIT, Problem
from haulout.support.diagnostics import fail


@dataclass(frozen=True, slots=True)
class Bound:
    """`size` bytes are live at `moment`; None: the end of a pinned buffer is the bound."""

    size: int
    moment: int | None


def lower_bound(problem: Problem) -> Bound:
    """The bytes that every placement needs; a range with a window counts the window only. O(n log n).

    Raises `over-capacity` when that is more than 2**62.
    """
    windowed = problem.window_low is not None
    reserved = problem.size if windowed else problem.reserved
    taken = problem.occupies
    ranges = np.flatnonzero((problem.upper > problem.lower) & taken[problem.owner])
    if not len(ranges):
        return Bound(0, None)
    low, high = problem.windows
    weight = (high - low)[ranges] if windowed else reserved[problem.owner[ranges]]
    time = np.concatenate([problem.upper[ranges], problem.lower[ranges]])  # deaths first: the sort is stable
    order = np.argsort(time, kind="stable")
    live = running_sum(np.concatenate([-weight, weight])[order], weight)
    at = int(np.argmax(live))
    size, moment = int(live[at]), int(time[order[at]])
    if size > LIMIT:
        fail("over-capacity", f"{size} bytes are live at time {moment}; addresses end at 2**62")
    pinned_end = np.where(taken & (problem.pinned >= 0), problem.pinned + reserved, 0)
    if int(pinned_end.max()) > size:
        return Bound(int(pinned_end.max()), None)
    return Bound(size, moment)


def most_live(
    problem: Problem, rows: I64, size: I64, of: I64 | None = None, pairs: Sequence[tuple[int, int]] = ()
) -> int:
    """The most bytes of the buffers `rows` that are live at one time, with `size` bytes for each of the problem.

    With `pairs` (input, output; `of` gives their rows), an output counts less in the first moment of its life, by the
    most that it may share with an input.
    """
    chosen = np.zeros(len(problem), bool)
    chosen[rows] = True
    chosen &= problem.occupies
    ranges = np.flatnonzero((problem.upper > problem.lower) & chosen[problem.owner])
    if not len(ranges):
        return 0
    start, end, weight = problem.lower[ranges], problem.upper[ranges], size[problem.owner[ranges]]
    if of is not None and len(pairs):
        sides = of[np.array(pairs, np.int64)]
        saving = np.zeros(len(problem), np.int64)
        np.maximum.at(saving, sides[:, 1], np.minimum(size[sides[:, 0]], size[sides[:, 1]]))
        birth = np.full(len(problem), LIMIT)
        np.minimum.at(birth, problem.owner[ranges], start)
        shared = np.flatnonzero((saving > 0) & chosen)
        start = np.concatenate([start, birth[shared] + 1])
        end = np.concatenate([end, birth[shared]])
        weight = np.concatenate([weight, saving[shared]])
    time = np.concatenate([end, start])  # deaths first: the sort is stable
    order = np.argsort(time, kind="stable")
    live = running_sum(np.concatenate([-weight, weight])[order], weight)
    last = np.append(np.diff(time[order]) > 0, True)  # within a moment only the final level counts
    return max(int(live[last].max()), 0)


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
