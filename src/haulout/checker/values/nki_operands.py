"""What the attribute `args` of an `nki.*` instruction says of its operands: the order of their elements, their roles.

    args=[[PARAMETER,VALUE...],...]     a tensor: [OPERANDS],TYPE,[SHAPE],[STRIDES](,[INDEX,VECTOR,STRIDE,EXTENT])

Patterns of these instructions are sets of bytes, in which the order of a tensor's elements is lost. The layout gives
it back, and it counts only where it names the bytes of the pattern, each of them and no other. Without a layout that
does, nothing is known of the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from haulout.checker.bytesets import ByteSet, byte_set, normal
from haulout.checker.values.byte_flow import Order
from haulout.ir.attributes import AttrValue, int_list
from haulout.ir.patterns import Pattern

_PARAMETERS = {"index": "index", "indices": "index", "stationary": "stationary", "moving": "moving"}
"""Parameter -> the role of its tensors."""


class Layout(NamedTuple):
    """Where the elements of a tensor lie, in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    indirect: bool
    """Values of an index decide, too."""


class Given(NamedTuple):
    """What `args` says."""

    layouts: Mapping[int, frozenset[Layout]]
    """By the number of an operand: those of the tensors that lie there."""
    roles: Mapping[str, frozenset[int]]
    """`index`, `stationary`, `moving` -> operands."""


NOTHING = Given({}, {})


def read_args(value: AttrValue | None) -> Given:
    """What can be read of an `args`; what is malformed says nothing."""
    layouts: dict[int, set[Layout]] = {}
    roles: dict[str, set[int]] = {}
    pending: list[tuple[AttrValue, str | None]] = []
    for each in value if isinstance(value, list) else []:
        if isinstance(each, list) and each and isinstance(each[0], str):
            pending.append((each[1:], _PARAMETERS.get(each[0])))
    while pending:
        each, role = pending.pop()
        if not isinstance(each, list):
            continue
        found = _tensor(each)
        if found is None:
            pending += [(inner, role) for inner in each]
            continue
        operands, layout = found
        for operand in operands:
            layouts.setdefault(operand, set()).add(layout)
        if role is not None:
            roles.setdefault(role, set()).update(operands)
        if layout.indirect and isinstance(each[4], list):
            pending += [(inner, "index") for inner in each[4]]
    return Given(
        {operand: frozenset(some) for operand, some in layouts.items()},
        {role: frozenset(some) for role, some in roles.items()},
    )


def _tensor(value: list[AttrValue]) -> tuple[list[int], Layout] | None:
    """The operands and the layout of a tensor; None: the value is something else."""
    if len(value) not in (4, 5) or not isinstance(value[1], str):
        return None
    operands, shape, strides = (int_list(value[at]) for at in (0, 2, 3))
    if (
        operands is None
        or shape is None
        or strides is None
        or len(shape) != len(strides)
        or min(shape, default=1) < 1
    ):
        return None
    # The bytes of one tensor are one operand, unless an index scatters them.
    return operands, Layout(tuple(shape), tuple(strides), len(value) == 5 or len(operands) > 1)


def order(layout: Layout, pattern: Pattern, row: int, element: int) -> Order:
    """How the elements of a tensor count in the bytes of an operand, whose location has `row` bytes in each partition
    (0: no partitions) and elements of `element` bytes (0: not known).
    """
    if layout.indirect:
        return Order.UNKNOWN
    touched = byte_set(pattern)
    item = _element_size(layout, touched, element)
    if item == 0 or (row and not _keeps_partitions(layout, touched, item, row)):
        return Order.UNKNOWN
    upwards = _falls(zip(layout.strides, layout.shape, strict=True), 1) and _falls(pattern.dims, pattern.run)
    return Order.PATTERN if upwards and item == element else Order.PARTITIONS


def _element_size(layout: Layout, touched: ByteSet, element: int) -> int:
    """Bytes an element with which the layout names exactly the bytes of a pattern; 0: there is no such size."""
    dims = list(zip(layout.strides, layout.shape, strict=True))
    places = math.prod(count for stride, count in dims if stride)
    size = touched.run * touched.most_runs
    for item in (element, size // places if size % places == 0 else 0):
        # Layouts have no offset: the lowest byte is that of the pattern.
        if item and normal(0, item, ((stride * item, count) for stride, count in dims))[1:] == touched[1:]:
            return item
    return 0


def _keeps_partitions(layout: Layout, touched: ByteSet, item: int, row: int) -> bool:
    """Whether the first dimension goes up the partitions and the others stay in one."""
    if not layout.shape:
        return touched.offset % row + item <= row
    dims = zip(layout.strides[1:], layout.shape[1:], strict=True)
    inner = 1 + sum(abs(stride) * (count - 1) for stride, count in dims)
    step = layout.strides[0] * item
    upwards = layout.shape[0] == 1 or (step > 0 and step % row == 0)
    return upwards and touched.offset % row + inner * item <= row


def _falls(dims: Iterable[tuple[int, int]], reach: int) -> bool:
    """Whether each dimension steps over all that the ones inside of it reach, so that places only go up."""
    for stride, count in reversed([each for each in dims if each[1] > 1]):
        if stride < reach:
            return False
        reach = stride * count
    return True
