"""Sets of bytes: what a pattern touches, no matter in which order, and whether two of them meet.

`ByteSet(offset, run, dims)` is the union of the runs of `run` bytes at `offset + sum(stride * i)`. In normal form all
strides are positive, the dims are sorted with the largest stride first, every stride is larger than the run (dims
without gaps are folded into it) and no dim is a continuation of the next. A transpose reads all bytes of its operand:
as a set that is one run.

Two ways to meet them exactly. `runs` lists the maximal runs: right when there are few. `meet` descends dim by dim:
at each step the set with the larger stride is cut into its slices, and only slices whose hulls overlap are
followed; when both have the same stride only the few shifts by which their slices can meet are followed, not every
slice. So the even and the odd rows of a huge tensor are told apart in two steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from haulout.check.columns import stretched
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


def meet(first: ByteSet, second: ByteSet) -> bool:
    """Whether two sets have a byte in common; exact."""
    return _meet(second.offset - first.offset, first.run, first.dims, second.run, second.dims)


def _meet(
    distance: int, run: int, dims: tuple[tuple[int, int], ...], run2: int, dims2: tuple[tuple[int, int], ...]
) -> bool:
    """Whether a set at 0 and a set at `distance` meet."""
    extent, extent2 = ByteSet(0, run, dims).extent, ByteSet(0, run2, dims2).extent
    if distance >= extent or distance + extent2 <= 0:
        return False
    if not dims and not dims2:
        return True
    if not dims or (dims2 and dims2[0][0] > dims[0][0]):
        return _meet(-distance, run2, dims2, run, dims)
    (stride, count), inner = dims[0], dims[1:]
    inner_extent = extent - stride * (count - 1)
    if dims2 and dims2[0][0] == stride:
        # Slice i of the first and slice i + shift of the second lie `distance + stride * shift` apart, for every i.
        count2, inner2 = dims2[0][1], dims2[1:]
        inner_extent2 = extent2 - stride * (count2 - 1)
        low = max(-((distance + inner_extent2 - 1) // stride), 1 - count)
        high = min((inner_extent - 1 - distance) // stride, count2 - 1)
        return any(_meet(distance + stride * shift, run, inner, run2, inner2) for shift in range(low, high + 1))
    # Slices of the first whose hull overlaps the hull of the second.
    low = max((distance - inner_extent) // stride + 1, 0)
    high = min((distance + extent2 - 1) // stride, count - 1)
    if not inner and not dims2:
        return low <= high
    return any(_meet(distance - stride * i, run, inner, run2, dims2) for i in range(low, high + 1))
