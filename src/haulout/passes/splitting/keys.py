"""Keys: which bytes of a location belong to which part of a cut.

A cut is named by bytes, not by a dimension, so it survives a reshape: key (unit, indices) gives byte b the
index `b mod (unit * indices) div unit`, and the indices are divided into m intervals, one a part, whose lengths
differ by one at most. If m divides their number, the key is written with m indices; so rows 0 to 63 of a matrix
by quarters, and the same bytes as a [4, 16, ...] array by its first dimension, have equal keys. Where a dimension has
fewer indices than there are parts, groups of parts have an index each and divide another dimension: two keys, one
`outer`.

An operand is a strided array. Cut along one of its dimensions, it touches the bytes of one part only if the other
dimensions stay within that part: each either steps over whole periods, or stays, together with all smaller ones and
the offset, below one step of the dimension that is cut. An operand that moves with a loop moves by whole periods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from haulout.ir.axes import Window
from haulout.ir.patterns import Pattern, row_major_strides

Interval = tuple[int, int]


class Key(NamedTuple):
    """A way to give the bytes of a location to m parts."""

    unit: int
    """Bytes in a row that belong to one index."""
    indices: int
    """How many; then they start again."""
    outer: Key | None = None
    """Of a cut of two dimensions: its indices are those of groups of parts, which divide the other indices evenly."""

    @property
    def period(self) -> int:
        """Bytes after which the parts start again."""
        return max(self.unit * self.indices, self.outer.period if self.outer else 0)

    @property
    def inner(self) -> Key:
        """What the parts of a group divide."""
        return Key(self.unit, self.indices)

    def chunk(self, parts: int) -> int:
        """Bytes of a period that the largest part has."""
        return self.period // parts if self.outer else self.unit * -(-self.indices // parts)

    def within(self, outer: Key) -> Key | None:
        """The cut by both of two keys whose parts have one index of each; None: their periods cross."""
        if outer.unit == self.period:
            return Key(self.unit, outer.indices * self.indices)
        nested = outer.unit % self.period == 0 or self.unit % outer.period == 0
        return Key(self.unit, self.indices, outer) if nested else None


def intervals(extent: int, parts: int) -> list[Interval]:
    """`extent` indices in `parts` intervals, begin and end of each."""
    return [(part * extent // parts, (part + 1) * extent // parts) for part in range(parts)]


class Share(NamedTuple):
    """What a part needs of an operand: of each period of a dimension one run of indices.

    The period has as many units as are divided. Where the dimension is shorter, it is a piece of one period, and
    parts may have nothing of it.
    """

    dim: int
    block: int = 1
    """Indices a unit."""
    shift: int = 0
    """Indices of the period before the first one."""
    window: Window | None = None
    """What else a part needs: units are positions of this window."""

    def run(self, interval: Interval, extent: int, length: int) -> Interval:
        """The indices in the first period that a part with an interval of `extent` units needs, of `length`."""
        begin, end = interval
        if self.window is not None:
            return self.window.seen(begin, end, length)[:2]
        last = min(length, self.block * extent)
        begin, end = (min(max(self.block * each - self.shift, 0), last) for each in (begin, end))
        return begin, end


@dataclass(frozen=True, slots=True)
class Box:
    """A part of an operand: the bytes that it names, in order, as an array."""

    access: int
    location: int
    itemsize: int
    offset: int
    dims: tuple[tuple[int, int], ...]
    """(stride in bytes, count), outermost first."""
    shape: tuple[int, ...]
    motion: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        """Whether it has no elements."""
        return 0 in self.shape

    def packed(self, key: Key, parts: int, part: int) -> Box:
        """The same elements where a location holds the bytes of one part alone; it touches no others."""
        if key.outer is not None:
            group, place = divmod(part, key.indices)
            steps = [(key.inner, place), (key.outer, group)]
            # The shorter period first: what it leaves out shortens the longer one.
            (near, at), (far, index) = sorted(steps, key=lambda each: each[0].period)
            shorter = Key(far.unit // near.period * near.unit, far.indices)
            return self.packed(near, near.indices, at).packed(shorter, far.indices, index)
        period, chunk = key.period, key.chunk(parts)
        dims = tuple(
            (stride // period * chunk if count > 1 and stride % period == 0 else stride, count)
            for stride, count in self.dims
        )
        begin = intervals(key.indices, parts)[part][0] * key.unit
        offset = self.offset // period * chunk + self.offset % period - begin
        return replace(self, offset=offset, dims=dims, motion=tuple(each // period * chunk for each in self.motion))

    @property
    def pattern(self) -> Pattern:
        """Its bytes."""
        return Pattern(self.offset, self.itemsize, self.dims).canonical()


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

    def key(self, share: Share, extent: int, parts: int) -> Key | None:
        """The key of a cut of `extent` units; None where parts would touch the bytes of others."""
        step = self.strides[share.dim]
        if step <= 0 or extent < parts:
            return None
        if share.window is not None and not share.window.tiles(self.shape[share.dim], extent):
            return None
        unit = step * share.block
        period, inner = unit * extent, self.itemsize
        if any(each % period for each in self.motion):
            return None
        for other, (stride, count) in enumerate(zip(self.strides, self.shape, strict=True)):
            if other == share.dim or count == 1 or stride % period == 0:
                continue
            if stride < 0:
                return None
            inner += stride * (count - 1)
        first = self.offset % period - share.shift * step
        if first < 0 or first + inner > step:
            return None
        return Key(period // parts, parts) if extent % parts == 0 else Key(unit, extent)

    def at(self, dim: int, index: int) -> Operand:
        """Its elements with one index of a dimension."""
        shape = (*self.shape[:dim], 1, *self.shape[dim + 1 :])
        return replace(self, offset=self.offset + index * self.strides[dim], shape=shape)

    def box(self, share: Share | None, interval: Interval, extent: int) -> Box:
        """What a part needs that has an interval of `extent` units; without a share, all of it."""
        dims = list(zip(self.strides, self.shape, strict=True))
        offset, shape = self.offset, self.shape
        if share is not None:
            dim, step, length = share.dim, self.strides[share.dim], self.shape[share.dim]
            begin, end = share.run(interval, extent, length)
            period = share.block * extent
            repeats = length // period if share.window is None and length > period else 1
            dims[dim : dim + 1] = [(step * period, repeats), (step, end - begin)]
            offset += begin * step
            shape = (*shape[:dim], repeats * (end - begin), *shape[dim + 1 :])
        return Box(self.access, self.location, self.itemsize, offset, tuple(dims), shape, self.motion)


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
