"""What the patterns of an instruction's operands do not say, as lists of operands (reads first) in its attributes.

    unordered    elements in a partition count otherwise than the bytes: permuted, broadcast, seen as another type
    crossed      so do partitions, or an index decides
    index        operands that say which elements of others are touched
    stationary   of a matrix multiplication
    moving

Patterns are sets of bytes (`byte_sets.py`), so the order of a view's elements is lost in them. What becomes of single
bytes follows from the pattern where the order is the natural one, which is nearly always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from haulout.frontends.nki.tensor import Tensor
from haulout.ir.patterns import Pattern

MARKS = ("unordered", "crossed", "index", "stationary", "moving")

Operand = tuple[int, Pattern | None]
Marks = Mapping[str, tuple[int, ...]]

_ROLES = {"index": "index", "indices": "index", "stationary": "stationary", "moving": "moving"}
"""Parameter -> what it is."""


def operand_marks(
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    indices: Sequence[Tensor],
    given: Mapping[str, Any],
    operands: tuple[Sequence[Operand], Sequence[Operand]],
) -> Marks:
    """The marks of an instruction; `operands` are those that its reads (with the indices) and writes have become."""
    found: dict[str, set[int]] = {}
    for tensors, known, first in (
        ((*reads, *indices), operands[0], 0),
        (writes, operands[1], len(operands[0])),
    ):
        places = {operand: first + at for at, operand in enumerate(known)}
        for tensor in tensors:
            if mark := _order(tensor):
                found.setdefault(mark, set()).update(places[each] for each in _operands(tensor))
    places = {operand: at for at, operand in enumerate(operands[0])}
    roles = [("index", each) for each in indices]
    roles += [(_ROLES[name], value) for name, value in given.items() if name in _ROLES and isinstance(value, Tensor)]
    for mark, tensor in roles:
        found.setdefault(mark, set()).update(places[each] for each in _operands(tensor) if each in places)
    return {mark: tuple(sorted(found[mark])) for mark in MARKS if mark in found}


def _operands(tensor: Tensor) -> Iterator[Operand]:
    return ((tensor.storage.number, pattern) for pattern in tensor.bytes().patterns)


def _order(view: Tensor) -> str:
    """How the elements of a view count; empty where they count as the bytes do."""
    dims = [(stride, count) for stride, count in zip(view.strides, view.shape, strict=True) if count > 1]
    if view.indirect is not None:
        return "crossed"
    if view.buffer.on_chip and not _keeps_partitions(view):
        return "crossed"
    reach = 1
    for stride, count in reversed(dims):
        if stride < reach:
            return "unordered"
        reach = stride * count
    same_type = view.itemsize * view.storage.partitions * _row(view) == view.storage.size
    return "" if same_type else "unordered"


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
