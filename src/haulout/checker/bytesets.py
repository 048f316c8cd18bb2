"""Sets of bytes: what a pattern touches, in any order, and whether two of them overlap.

`ByteSet(offset, run, dims)` is the union of the runs of `run` bytes at `offset + sum(stride * i)`. In normal form all
strides are positive, the dims are sorted with the largest stride first, every stride is larger than the run (dims
without gaps are folded into it) and no dim is a continuation of the next. A transpose reads all bytes of its operand:
as a set that is one run.

`runs` lists the maximal runs of a set and `common` those of two, for sets with few of them. `strided_overlap.py`
tests for overlap without listing runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from haulout.checker.columns import join_ranges
from haulout.ir.patterns import Pattern
from haulout.ir.schema import Ints


class ByteSet(NamedTuple):
    """A set of bytes in normal form; `dims` are (stride, count), the largest stride first."""

    offset: int
    run: int
    dims: tuple[tuple[int, int], ...] = ()

    @property
    def span(self) -> int:
        """Bytes from the first one to the last one."""
        return self.run + sum(stride * (count - 1) for stride, count in self.dims)

    @property
    def max_runs(self) -> int:
        """An upper bound of the number of maximal runs."""
        total = 1
        for _, count in self.dims:
            total *= count
        return total

    def shifted(self, distance: int) -> ByteSet:
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


def runs(some: ByteSet) -> tuple[Ints, Ints]:
    """The maximal runs of a set in ascending order, as columns (first byte, byte after the last)."""
    starts = np.array([some.offset], np.int64)
    for stride, count in some.dims:
        starts = (starts[:, None] + stride * np.arange(count, dtype=np.int64)).ravel()
    starts.sort()
    return merged(starts, starts + some.run)


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
    # Join: run i of the first list overlaps runs begin[i]:end[i] of the second.
    begin = np.searchsorted(high2, low, "right")
    end = np.searchsorted(low2, high, "left")
    count = np.maximum(end - begin, 0)
    left = np.repeat(np.arange(len(low)), count)
    right = join_ranges(begin, count)
    return np.maximum(low[left], low2[right]), np.minimum(high[left], high2[right])


class Compacted(NamedTuple):
    """Sets on a map of the rows of a tensor, of `pitch` bytes each, where equal neighbouring rows are one row."""

    sets: list[ByteSet]
    size: int
    pitch: int
    cuts: list[int]
    """The first tensor row of each row of the map, and the number of all rows."""

    def byte(self, at: int) -> int:
        """The first byte of the tensor that byte `at` of the map represents."""
        return self.cuts[at // self.pitch] * self.pitch + at % self.pitch


def compacted(sets: Sequence[ByteSet], size: int) -> Compacted:
    """Sets of bytes of a tensor on a small map of its rows; on its bytes where no such map is found.

    Rows are those of the largest stride. Each set must be whole rows, be inside one row, or be equal in some rows.
    """
    same = Compacted(list(sets), size, size, [0, 1])
    pitch = max((each.dims[0][0] for each in sets if each.dims), default=0)
    if pitch == 0 or size % pitch:
        return same
    parts: list[tuple[int, int, ByteSet]] = []  # first row, row after the last one, the set in the first row
    for each in sets:
        row, inside = divmod(each.offset, pitch)
        first = ByteSet(inside, each.run, each.dims)
        if each.dims and each.dims[0][0] == pitch:
            rows, first = each.dims[0][1], first._replace(dims=each.dims[1:])
        elif not each.dims and inside == 0 and each.run % pitch == 0:
            rows, first = each.run // pitch, ByteSet(0, pitch)
        else:
            rows = 1
        if inside + first.span > pitch:
            return same
        parts.append((row, row + rows, first))
    cuts = sorted({0, size // pitch, *(row for begin, end, _ in parts for row in (begin, end))})
    place = {row: at for at, row in enumerate(cuts)}
    found = []
    for begin, end, first in parts:
        low, rows = place[begin], place[end] - place[begin]
        dims = ((pitch, rows), *first.dims) if rows > 1 else first.dims
        found.append(first._replace(offset=low * pitch + first.offset, dims=dims))
    return Compacted(found, (len(cuts) - 1) * pitch, pitch, cuts)
