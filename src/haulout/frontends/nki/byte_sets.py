"""Which bytes a view touches, as few patterns in a normal form.

Order within an access does not matter to who may meet whom, so dims are sorted, turned to rise, and whatever is
contiguous or overlaps becomes one run: shifted copies of a run by a step no longer than the run are one longer run.
Equal sets mostly get equal patterns, and few dims are left for the checker to meet.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def view_bytes(offset: int, strides: Sequence[int], shape: Sequence[int], itemsize: int) -> Pattern:
    """The bytes of a view; offset and strides in elements."""
    dims = tuple((stride * itemsize, count) for stride, count in zip(strides, shape, strict=True))
    return touched(offset * itemsize, itemsize, dims)


def shifted_bytes(pattern: Pattern, stride: int, extent: int, size: int) -> Pattern:
    """All bytes that the pattern can touch when it is moved by `k * stride` bytes, 0 <= k < extent, inside `size`."""
    last = pattern.hull[1]
    room = (size - last) // stride + 1 if stride > 0 and last <= size else 1
    return touched(pattern.offset, pattern.run, (*pattern.dims, (stride, max(1, min(extent, room)))))
