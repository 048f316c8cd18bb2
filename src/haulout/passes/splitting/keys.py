"""Keys: which bytes of a location belong to which part of a cut.

A cut is named by bytes, not by a dimension, so it survives a reshape: key (unit, indices) gives byte b the
index `b mod (unit * indices) div unit`, and the indices are divided into m intervals, one a part, whose lengths
differ by one at most. If m divides their number, the key is written with m indices; so rows 0 to 63 of a matrix
by quarters, and the same bytes as a [4, 16, ...] array by its first dimension, have equal keys.

An operand is a strided array. Cut along one of its dimensions, it touches the bytes of one part only if the other
dimensions stay within that part: each either steps over whole periods, or stays, together with all smaller ones and
the offset, below one step of the dimension that is cut. An operand that moves with a loop moves by whole periods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from haulout.ir.patterns import Pattern, row_major_strides

Interval = tuple[int, int]


class Key(NamedTuple):
    """A way to give the bytes of a location to m parts."""

    unit: int
    """Bytes in a row that belong to one index."""
    indices: int
    """How many; then they start again."""

    @property
    def period(self) -> int:
        """Bytes after which the parts start again."""
        return self.unit * self.indices


def intervals(extent: int, parts: int) -> list[Interval]:
    """`extent` indices in `parts` intervals, begin and end of each."""
    return [(part * extent // parts, (part + 1) * extent // parts) for part in range(parts)]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand as a strided array: element [i, j, ...] lies at byte `offset + i * strides[0] + ...`."""

    access: int
    """Its row of `accesses`, on the first core."""
    location: int
    """Its location, on the first core."""
    write: bool
    itemsize: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    motion: tuple[int, ...] = ()
    """Bytes by which each of its steps (`ir/steps.py`) moves it."""

    def key(self, dim: int, parts: int) -> Key | None:
        """The key of a cut along a dimension; None where parts would touch the bytes of others."""
        step, extent = self.strides[dim], self.shape[dim]
        if step <= 0 or extent < parts:
            return None
        period, inner = step * extent, self.itemsize
        if any(each % period for each in self.motion):
            return None
        for other, (stride, count) in enumerate(zip(self.strides, self.shape, strict=True)):
            if other == dim or count == 1 or stride % period == 0:
                continue
            if stride < 0:
                return None
            inner += stride * (count - 1)
        if self.offset % period + inner > step:
            return None
        return Key(period // parts, parts) if extent % parts == 0 else Key(step, extent)

    def box(self, dim: int | None, interval: Interval) -> Operand:
        """The part of it whose indices along `dim` lie in an interval; None: all of it."""
        if dim is None:
            return self
        begin, end = interval
        shape = (*self.shape[:dim], end - begin, *self.shape[dim + 1 :])
        offset = self.offset + begin * self.strides[dim]
        return replace(self, offset=offset, shape=shape)

    def packed(self, key: Key, parts: int) -> Operand:
        """The same elements where a location holds the bytes of one part alone; it touches no others."""
        period, chunk = key.period, key.period // parts
        strides = tuple(
            stride // parts if count > 1 and stride % period == 0 else stride
            for stride, count in zip(self.strides, self.shape, strict=True)
        )
        offset = self.offset // period * chunk + self.offset % period % chunk
        return replace(self, offset=offset, strides=strides, motion=tuple(each // parts for each in self.motion))

    @property
    def pattern(self) -> Pattern:
        """Its bytes."""
        dims = tuple(zip(self.strides, self.shape, strict=True))
        return Pattern(self.offset, self.itemsize, dims).canonical()


def strides_of(pattern: Pattern | None, shape: Sequence[int], itemsize: int) -> tuple[int, tuple[int, ...]] | None:
    """Offset and strides with which a pattern names the elements of an array in order; None: there are none."""
    if pattern is None:
        return 0, tuple(row_major_strides(shape, itemsize))
    if pattern.is_unknown or pattern.run % itemsize:
        return None
    # From the fastest dimension on: what is left of the pattern's dims, as (stride, count).
    left = [dim for dim in (*pattern.dims, (itemsize, pattern.run // itemsize)) if dim[1] != 1]
    strides = [0] * len(shape)
    for dim in range(len(shape) - 1, -1, -1):
        extent = shape[dim]
        if extent == 1:
            continue
        if not left or left[-1][1] % extent:
            return None
        stride, count = left.pop()
        strides[dim] = stride
        if count != extent:
            left.append((stride * extent, count // extent))
    return None if left else (pattern.offset, tuple(strides))


def common_dims(patterns: Sequence[Pattern]) -> tuple[tuple[int, ...], list[tuple[int, ...]]] | None:
    """A shape of bytes in which each of some patterns of equal length has strides; None: there is none."""
    left = [[dim for dim in (*pattern.dims, (1, pattern.run)) if dim[1] != 1] for pattern in patterns]
    shape: list[int] = []
    strides: list[list[int]] = [[] for _ in patterns]
    while any(left):
        if not all(left):
            return None
        extent = math.gcd(*(dims[-1][1] for dims in left))
        if extent == 1:
            return None
        shape.append(extent)
        for dims, steps in zip(left, strides, strict=True):
            stride, count = dims.pop()
            steps.append(stride)
            if count != extent:
                dims.append((stride * extent, count // extent))
    return tuple(reversed(shape)), [tuple(reversed(steps)) for steps in strides]
