"""How many bytes live at each time, while arrays are fused away and their operands live longer.

Times are those of `coalescing.py`: step i reads at 2i and writes at 2i + 1; what may not be overwritten by the step
that reads it is read at 2i + 1. An array that takes over the storage of an operand thus counts once.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping

import numpy as np

from haulout.frontends.hlo.coalescing import Ranges
from haulout.frontends.hlo.values import Array, View
from haulout.ir.schema import Ints


class LiveBytes:
    """The arrays that steps produce, and parameters that they overwrite; others are there all the time."""

    def __init__(self, ranges: dict[Array, Ranges], steps: int, overwritten: Mapping[Array, Array]) -> None:
        self._ranges = ranges
        self._overwritten = overwritten
        change = np.zeros(2 * steps + 5, np.int64)
        for array, found in ranges.items():
            for first, last in found:
                change[first + _BEFORE] += _nbytes(array)
                change[last + 1 + _BEFORE] -= _nbytes(array)
        self._bytes: Ints = np.cumsum(change)

    @property
    def peak(self) -> int:
        """The most bytes at one time."""
        return int(self._bytes.max())

    def extension(self, array: Array, since: int, until: int) -> tuple[int, int] | None:
        """The times at which it lives no more, if it is read at `until` besides; it is read at `since` already."""
        if array not in self._ranges:
            return None
        ranges = self._ranges[array]
        last = ranges[bisect.bisect_right(ranges, since, key=lambda each: each[0]) - 1][1]
        return (last + 1, until) if last < until else None

    def blocks(self, array: Array, extension: tuple[int, int]) -> bool:
        """Whether its storage is to hold another value then."""
        other = self._overwritten.get(array)
        if other is None or other not in self._ranges:
            return False
        return any(extension[0] <= first <= extension[1] for first, _ in self._ranges[other])

    def change(
        self, removed: Array, extended: Mapping[Array, tuple[int, int]], first: int, last: int
    ) -> tuple[int, int]:
        """The most bytes at times from `first` to `last`, before and after."""
        now = self._bytes[first + _BEFORE : last + 1 + _BEFORE]
        after = now.copy()
        for begin, end in self._ranges[removed]:
            after[begin - first : end + 1 - first] -= _nbytes(removed)
        for array, (begin, end) in extended.items():
            after[begin - first : end + 1 - first] += _nbytes(array)
        return int(now.max()), int(after.max())

    def apply(self, removed: Array, extended: Mapping[Array, tuple[int, int]]) -> None:
        """Fuse an array away."""
        for begin, end in self._ranges.pop(removed):
            self._bytes[begin + _BEFORE : end + 1 + _BEFORE] -= _nbytes(removed)
        for array, (begin, end) in extended.items():
            self._bytes[begin + _BEFORE : end + 1 + _BEFORE] += _nbytes(array)
            ranges = self._ranges[array]
            at = bisect.bisect_right(ranges, begin, key=lambda each: each[0]) - 1
            ranges[at] = ranges[at][0], end


_BEFORE = 2
"""Parameters are born at time -1."""


def _nbytes(array: Array) -> int:
    return View(array, array.shape).nbytes
