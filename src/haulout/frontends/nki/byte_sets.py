"""The bytes of a view, as few patterns in a normal form.

The order of bytes within an access does not matter for conflicts. So dims are sorted and made ascending, and
contiguous or overlapping runs are merged: copies of a run, shifted by at most its length, are one longer run. Equal
sets usually get equal patterns, with few dims for the checker.
"""

from __future__ import annotations

from functools import lru_cache

from haulout.ir.patterns import Pattern

Dims = tuple[tuple[int, int], ...]


@lru_cache(maxsize=1 << 16)
def touched(offset: int, run: int, dims: Dims) -> Pattern:
    """The bytes `offset + sum(stride * i) + (0..run-1)` as a pattern; strides in bytes, of any sign, 0 included."""
    rising: dict[int, int] = {}
    for stride, count in dims:
        if stride < 0:
            offset += stride * (count - 1)
            stride = -stride
        if count > 1 and stride:
            rising[stride] = rising.get(stride, 1) + count - 1
    kept: list[tuple[int, int]] = []
    for stride in sorted(rising):
        if stride <= run and not kept:
            run += stride * (rising[stride] - 1)
        elif kept and stride == kept[-1][0] * kept[-1][1]:
            kept[-1] = (kept[-1][0], kept[-1][1] * rising[stride])
        else:
            kept.append((stride, rising[stride]))
    return Pattern(offset, run, tuple(reversed(kept)))


@lru_cache(maxsize=1 << 16)
def view_bytes(offset: int, strides: tuple[int, ...], shape: tuple[int, ...], itemsize: int) -> Pattern:
    """The bytes of a view; offset and strides in elements."""
    dims = tuple((stride * itemsize, count) for stride, count in zip(strides, shape, strict=True))
    return touched(offset * itemsize, itemsize, dims)


@lru_cache(maxsize=1 << 16)
def operand_bytes(
    offset: int, strides: tuple[int, ...], shape: tuple[int, ...], itemsize: int, size: int
) -> Pattern | None:
    """The bytes of a view of a storage of `size` bytes; None: all of it."""
    return inside(view_bytes(offset, strides, shape, itemsize), size)


def inside(pattern: Pattern, size: int) -> Pattern | None:
    """The pattern, None when it is all of the storage; one that leaves the storage (reported already) becomes all."""
    low, high = pattern.hull
    if low < 0 or high > size or (not pattern.dims and pattern.run == size):
        return None
    return pattern


MAX_STEPS = 1 << 12
"""Choices that `overlap` tries before it returns True."""


@lru_cache(maxsize=1 << 16)
def overlap(one: Pattern, other: Pattern) -> bool:
    """Whether two patterns touch a common byte; exact, except that it returns True after too many steps.

    Runs of the two overlap when `-one.run < start - other_start < other.run` for some starts, so a sum of bounded
    multiples of all strides must fall into an interval. Strides are tried from the largest down, each time with the
    multiples for which the smaller ones can still reach the interval.
    """
    reach: dict[int, int] = {}
    shift = one.offset - other.offset
    for sign, dims in ((1, one.dims), (-1, other.dims)):
        for stride, count in dims:
            step = sign * stride
            if step < 0:
                shift += step * (count - 1)
            reach[abs(step)] = reach.get(abs(step), 0) + count - 1
    strides = sorted(reach, reverse=True)
    below = [0] * (len(strides) + 1)
    for at in range(len(strides) - 1, -1, -1):
        below[at] = below[at + 1] + strides[at] * reach[strides[at]]
    pending = [(0, -one.run + 1 - shift, other.run - 1 - shift)]
    for _ in range(MAX_STEPS):
        if not pending:
            return False
        at, low, high = pending.pop()
        if at == len(strides):
            if low <= 0 <= high:
                return True
            continue
        stride = strides[at]
        first = max(0, -(-(low - below[at + 1]) // stride))
        last = min(reach[stride], high // stride)
        pending += [
            (at + 1, low - stride * k, high - stride * k) for k in range(first, min(last, first + MAX_STEPS) + 1)
        ]
    return True


def shifted_bytes(pattern: Pattern, stride: int, extent: int, size: int) -> Pattern:
    """All bytes that the pattern can touch when it is moved by `k * stride` bytes, 0 <= k < extent, inside `size`."""
    last = pattern.hull[1]
    room = (size - last) // stride + 1 if stride > 0 and last <= size else 1
    return touched(pattern.offset, pattern.run, (*pattern.dims, (stride, max(1, min(extent, room)))))
