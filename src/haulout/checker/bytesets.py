"""Sets of bytes: what a pattern touches, no matter in which order, and whether two of them meet.

`ByteSet(offset, run, dims)` is the union of the runs of `run` bytes at `offset + sum(stride * i)`. In normal form all
strides are positive, the dims are sorted with the largest stride first, every stride is larger than the run (dims
without gaps are folded into it) and no dim is a continuation of the next. A transpose reads all bytes of its operand:
as a set that is one run.

`runs` lists the maximal runs of a set and `common` those of two: right where there are few. Whether two sets meet at
all is decided without listing them (`strides.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from haulout.checker.columns import stretched
from haulout.ir.patterns import Pattern
from haulout.ir.schema import Ints


class ByteSet(NamedTuple):
    """A set of bytes in normal form; `dims` are (stride, count), the largest stride first."""

    offset: int
    run: int
    dims: tuple[tuple[int, int], ...] = ()

    @property
    def extent(self) -> int:
        """Bytes from the first byte to the one behind the last."""
        return self.run + sum(stride * (count - 1) for stride, count in self.dims)

    @property
    def most_runs(self) -> int:
        """At least as many as there are maximal runs."""
        total = 1
        for _, count in self.dims:
            total *= count
        return total

    def moved(self, distance: int) -> ByteSet:
        """The same set, `distance` bytes further."""
        return self._replace(offset=self.offset + distance)


def byte_set(pattern: Pattern) -> ByteSet:
    """The normal form of a pattern (not of `?`)."""
    return normal(pattern.offset, pattern.run, pattern.dims)


def normal(offset: int, run: int, dims: Iterable[tuple[int, int]]) -> ByteSet:
    """The normal form of runs of `run` bytes at `offset + sum(stride * i)`."""
    sizes: list[tuple[int, int]] = []
    for stride, count in dims:
        if stride < 0:
            offset += stride * (count - 1)
        if count > 1 and stride != 0:
            sizes.append((abs(stride), count))
    kept: list[tuple[int, int]] = []
    for stride, count in sorted(sizes):
        if not kept and stride <= run:
            run += stride * (count - 1)
        elif kept and stride == kept[-1][0] * kept[-1][1]:
            kept[-1] = (kept[-1][0], kept[-1][1] * count)
        else:
            kept.append((stride, count))
    return ByteSet(offset, run, tuple(reversed(kept)))


def runs(region: ByteSet) -> tuple[Ints, Ints]:
    """The maximal runs of a set in ascending order, as (first byte, byte behind the last) columns."""
    starts = np.array([region.offset], np.int64)
    for stride, count in region.dims:
        starts = (starts[:, None] + stride * np.arange(count, dtype=np.int64)).ravel()
    starts.sort()
    return merged(starts, starts + region.run)


def merged(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Runs sorted by their first byte, joined where they touch or overlap."""
    if len(low) < 2:
        return low, high
    reach = np.maximum.accumulate(high)
    first = np.append(True, low[1:] > reach[:-1])
    last = np.append(first[1:], True)
    return low[first], reach[last]


def common(first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The runs in both of two ascending lists of maximal runs."""
    (low, high), (low2, high2) = first, second
    # Join: run i of the first list meets runs begin[i]:end[i] of the second.
    begin = np.searchsorted(high2, low, "right")
    end = np.searchsorted(low2, high, "left")
    count = np.maximum(end - begin, 0)
    left = np.repeat(np.arange(len(low)), count)
    right = stretched(begin, count)
    return np.maximum(low[left], low2[right]), np.minimum(high[left], high2[right])


class Squeezed(NamedTuple):
    """Sets on a map of a tensor's rows, of `pitch` bytes each, on which rows that all sets treat alike are one."""

    sets: list[ByteSet]
    size: int
    pitch: int
    cuts: list[int]
    """The first row that each row of the map stands for, and the number of all rows."""

    def byte(self, at: int) -> int:
        """The first byte that byte `at` of the map stands for."""
        return self.cuts[at // self.pitch] * self.pitch + at % self.pitch


def squeezed(sets: Sequence[ByteSet], size: int) -> Squeezed:
    """Sets of bytes of a tensor on as small a map of rows as is easily found; on the bytes as they are where none is.

    Rows are those of the largest stride. Each set must be whole rows, lie in one row, or be alike in some rows.
    """
    same = Squeezed(list(sets), size, size, [0, 1])
    pitch = max((each.dims[0][0] for each in sets if each.dims), default=0)
    if pitch == 0 or size % pitch:
        return same
    parts: list[tuple[int, int, ByteSet]] = []  # first row, row behind the last one, the set in the first row
    for each in sets:
        row, inside = divmod(each.offset, pitch)
        first = ByteSet(inside, each.run, each.dims)
        if each.dims and each.dims[0][0] == pitch:
            rows, first = each.dims[0][1], first._replace(dims=each.dims[1:])
        elif not each.dims and inside == 0 and each.run % pitch == 0:
            rows, first = each.run // pitch, ByteSet(0, pitch)
        else:
            rows = 1
        if inside + first.extent > pitch:
            return same
        parts.append((row, row + rows, first))
    cuts = sorted({0, size // pitch, *(row for begin, end, _ in parts for row in (begin, end))})
    place = {row: at for at, row in enumerate(cuts)}
    found = []
    for begin, end, first in parts:
        low, rows = place[begin], place[end] - place[begin]
        dims = ((pitch, rows), *first.dims) if rows > 1 else first.dims
        found.append(first._replace(offset=low * pitch + first.offset, dims=dims))
    return Squeezed(found, (len(cuts) - 1) * pitch, pitch, cuts)
