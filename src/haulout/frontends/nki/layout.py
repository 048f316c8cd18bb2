"""Shapes and strides of views: indexing, reshape, permute. Pure arithmetic on a tensor's layout.

On chip the partition is dimension 0: an integer there keeps it with size 1, and no view may move or split it. In HBM
an integer removes its dimension. The least rank is 2 on chip and 1 in HBM.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from haulout.frontends.nki import session
from haulout.frontends.nki.findings import reject
from haulout.frontends.nki.registers import VirtualRegister

if TYPE_CHECKING:
    from haulout.frontends.nki.tensor import Tensor

Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape and strides."""


@dataclass(frozen=True, slots=True)
class DynamicSlice:
    """`nl.ds(start, size)`."""

    start: Any
    size: int

    def leaves(self, shape: tuple[int, ...], axis: int) -> bool:
        """Whether it ends behind a dimension, as far as that is known."""
        return isinstance(self.start, int) and axis < len(shape) and 0 <= shape[axis] - self.size < self.start


class Dynamic(NamedTuple):
    """An index that only the device knows, in one dimension."""

    index: Any
    stride: int
    extent: int


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for count in reversed(shape):
        strides.append(step)
        step *= count
    return tuple(reversed(strides))


def index_view(tensor: Tensor, key: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[int, ...], int, Dynamic | None]:
    """Shape, strides, offset and what is dynamic of `tensor[key]`."""
    if Ellipsis in key:
        at = next(place for place, part in enumerate(key) if part is Ellipsis)
        rest = key[at + 1 :]
        key = (*key[:at], *(slice(None),) * (tensor.ndim - len(key) + 1), *rest)
    if len(key) > tensor.ndim:
        reject(f"too many indices for {tensor!r}: {len(key)}")
    shape: list[int] = []
    strides: list[int] = []
    offset = tensor.offset
    dynamic: Dynamic | None = None
    on_chip = tensor.storage.buffer.on_chip
    for axis, stride in enumerate(tensor.strides):
        part = key[axis] if axis < len(key) else slice(None)
        if isinstance(part, slice):
            start, count, step = _slice(tensor, axis, part)
            offset += start * stride
            shape.append(count)
            strides.append(stride * step)
        elif isinstance(part, DynamicSlice):
            start, found = _position(tensor, axis, part.start, part.size)
            dynamic = found or dynamic
            offset += start * stride
            shape.append(part.size)
            strides.append(stride)
        else:
            start, found = _position(tensor, axis, part, 1)
            dynamic = found or dynamic
            offset += start * stride
            if on_chip and axis == tensor.blocks:
                shape.append(1)
                strides.append(stride)
    least = 2 if on_chip and tensor.ndim > 1 else 1
    while len(shape) < least:
        shape.append(1)
        strides.append(1)
    return tuple(shape), tuple(strides), offset, dynamic


def _slice(tensor: Tensor, axis: int, part: slice) -> tuple[int, int, int]:
    """First element, count and step of a slice; one that leaves its dimension is noted and cut."""
    extent = tensor.shape[axis]
    if part.start is None and part.stop is None and part.step is None:
        return 0, extent, 1
    step = 1 if part.step is None else int(part.step)
    start = 0 if part.start is None else int(part.start)
    stop = extent if part.stop is None else int(part.stop)
    if step == 1 and 0 <= start < stop <= extent:
        return start, stop - start, 1
    bounds = (start, stop)
    start, stop = (bound + extent if bound < 0 else bound for bound in bounds)
    if step < 1:
        reject(f"the step of a slice must be positive, found {step}")
    if start > extent or stop > extent or start < 0:
        _outside(tensor, axis, start, stop)
    start, stop = max(0, min(start, extent)), max(0, min(stop, extent))
    count = max(0, (stop - start + step - 1) // step)
    if count == 0:
        reject(f"slice {bounds[0]}:{bounds[1]} of dimension {axis} of {tensor!r} is empty")
    return start, count, step


def _position(tensor: Tensor, axis: int, start: Any, count: int) -> tuple[int, Dynamic | None]:
    """An integer index or the start of a `nl.ds`: its value, or 0 and what is dynamic."""
    extent = tensor.shape[axis]
    if isinstance(start, VirtualRegister) and start.value is not None:
        start = start.value
    if isinstance(start, VirtualRegister) or hasattr(start, "storage"):
        return 0, Dynamic(start, tensor.strides[axis], max(extent - count + 1, 1))
    try:
        at = int(start)
    except (TypeError, ValueError):
        reject(f"invalid index {start!r}", "integers, slices, nl.ds(start, size), Ellipsis")
    if at < 0:
        at += extent
    if at < 0 or at + count > extent:
        _outside(tensor, axis, at, at + count)
        at = max(0, min(at, extent - count))
    return at, None


def _outside(tensor: Tensor, axis: int, start: int, stop: int) -> None:
    session.recorder().findings.add(
        "out-of-bounds",
        f"elements {start}:{stop} are outside of dimension {axis} of {tensor!r}, which has {tensor.shape[axis]}",
        subject=f"{tensor.storage.name}.{axis}",
    )


def reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Layout:
    """The layout of another shape; strides as NumPy finds them where no copy is needed."""
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        shape = tuple(tensor.size // max(known, 1) if count == -1 else count for count in shape)
    if math.prod(shape) != tensor.size:
        reject(f"cannot reshape {tensor!r} with {tensor.size} elements to {list(shape)} with {math.prod(shape)}")
    if tensor.storage.buffer.on_chip and tensor.shape and shape and shape[0] != tensor.shape[0]:
        session.recorder().findings.add(
            "kernel-error",
            f"reshape of {tensor!r} to {list(shape)} changes the partition dimension",
            help=["copy between partitions, or reshape in HBM"],
        )
    old = [(count, step) for count, step in zip(tensor.shape, tensor.strides, strict=True) if count != 1]
    strides: list[int] = []
    at = 0
    taken = 0
    """Dims of `old` that are used up."""
    while at < len(shape):
        if shape[at] == 1:
            strides.append(1)
            at += 1
            continue
        # The fewest old and new dims with equal products belong together; the old ones must be contiguous.
        begin, have, want, end = taken, old[taken][0], shape[at], at + 1
        taken += 1
        while have != want:
            if have < want:
                have *= old[taken][0]
                taken += 1
            else:
                want *= shape[end]
                end += 1
        group = old[begin:taken]
        for (_, outer), (count, inner) in pairwise(group):
            if outer != count * inner:
                reject(f"reshape of {tensor!r} with strides {list(tensor.strides)} to {list(shape)} needs a copy")
        steps = row_major(shape[at:end])
        strides += [step * group[-1][1] for step in steps]
        at = end
    return shape, tuple(strides)


def permuted(tensor: Tensor, dims: tuple[int, ...]) -> Layout:
    """The layout with dimensions in another order."""
    if sorted(dims) != list(range(tensor.ndim)):
        reject(f"expected an order of the {tensor.ndim} dimensions of {tensor!r}, found {list(dims)}")
    return tuple(tensor.shape[dim] for dim in dims), tuple(tensor.strides[dim] for dim in dims)


def flatten(tensor: Tensor, first: int, last: int) -> Layout:
    """The layout with dimensions first..last merged."""
    for axis in range(first, last):
        if tensor.strides[axis] != tensor.shape[axis + 1] * tensor.strides[axis + 1]:
            reject(f"dimensions {axis} and {axis + 1} of {tensor!r} are not contiguous")
    shape = (*tensor.shape[:first], math.prod(tensor.shape[first : last + 1]), *tensor.shape[last + 1 :])
    return shape, (*tensor.strides[:first], tensor.strides[last], *tensor.strides[last + 1 :])
