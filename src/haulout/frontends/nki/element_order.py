"""Whether the elements of a view count upwards with the bytes that it touches.

Patterns are sets of bytes (`byte_sets.py`), so the order of a view's elements is lost in them. What becomes of single
bytes follows from the pattern where the order is the natural one, which is nearly always; other views are listed in
the instruction's attributes: `unordered` where elements in a partition count otherwise (permuted, broadcast, seen as
another type), `crossed` where partitions do.
"""

from __future__ import annotations

from enum import IntEnum

from haulout.frontends.nki.tensor import Tensor


class Order(IntEnum):
    """How a view's elements count."""

    NATURAL = 0
    UNORDERED = 1
    CROSSED = 2


def element_order(view: Tensor) -> Order:
    """How the elements of a view count."""
    dims = [(stride, count) for stride, count in zip(view.strides, view.shape, strict=True) if count > 1]
    if view.indirect is not None:
        return Order.CROSSED
    if view.buffer.on_chip and not _keeps_partitions(view):
        return Order.CROSSED
    reach = 1
    for stride, count in reversed(dims):
        if stride < reach:
            return Order.UNORDERED
        reach = stride * count
    same_type = view.itemsize * view.storage.partitions * _row(view) == view.storage.size
    return Order.NATURAL if same_type else Order.UNORDERED


def _row(view: Tensor) -> int:
    """Elements of the storage in a partition."""
    count = 1
    for extent in view.storage.shape[1:]:
        count *= extent
    return count


def _keeps_partitions(view: Tensor) -> bool:
    """Whether the first dimension goes up the partitions and the others stay in one."""
    row = view.storage.row_bytes
    inner = [stride * (count - 1) for stride, count in zip(view.strides[1:], view.shape[1:], strict=True)]
    low = view.offset * view.itemsize % row + sum(min(reach, 0) for reach in inner) * view.itemsize
    high = view.offset * view.itemsize % row + (sum(max(reach, 0) for reach in inner) + 1) * view.itemsize
    step = view.strides[0] * view.itemsize
    return low >= 0 and high <= row and (view.shape[0] == 1 or (step > 0 and step % row == 0))
