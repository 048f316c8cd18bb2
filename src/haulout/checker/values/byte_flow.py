"""Byte flow: the bytes of a result that an instruction derives from given bytes of an operand, as `Flow` says.

Bytes and elements count in the order of the pattern of the operand. Partitions count upwards among those that the
pattern touches, so an operand in partitions 32:64 corresponds to a result in 0:32. Operands that do not correspond in
that way, such as one that is broadcast along the partitions, are treated as unknown; so are operands whose order
differs from that of their pattern, or is not known (`nki_operands.py`).
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from haulout.checker import bytesets
from haulout.checker.columns import distinct, join_ranges
from haulout.ir.opcodes import Flow
from haulout.ir.schema import Ints

Runs = tuple[Ints, Ints]
"""Maximal runs of bytes, ascending: the first byte of each, and the byte after its last."""

NO_BYTES: Runs = (np.zeros(0, np.int64), np.zeros(0, np.int64))
_IN_PARTITIONS = (Flow.PARTITIONED, Flow.PARTITIONS)


class Extent(NamedTuple):
    """The bytes of an operand."""

    starts: Ints
    """First byte of each run of the pattern, in its order."""
    run: int
    runs: Runs
    """The same bytes as maximal runs."""
    row: int
    """Bytes of the location in each partition; 0: it has no partitions, or one."""
    item: int
    """Bytes an element; 0: not known."""

    @property
    def nbytes(self) -> int:
        """Bytes in the order of the pattern; one that is touched twice counts twice."""
        return len(self.starts) * self.run


class Order(IntEnum):
    """What is known of the order of the elements of two operands."""

    PATTERN = 0
    """It is that of their patterns."""
    PARTITIONS = 1
    """In each partition it is another."""
    UNKNOWN = 2


def spread(flow: Flow, source: Extent, some: Runs, target: Extent, order: Order) -> Runs:
    """The bytes of a result that may be made of some bytes of an operand."""
    if order is Order.UNKNOWN:
        return target.runs
    if order is Order.PATTERN:
        found = _by_order(flow, source, some, target)
        if found is not None:
            return found
    return _by_partition(source, some, target) if flow in _IN_PARTITIONS else target.runs


def _by_order(flow: Flow, source: Extent, some: Runs, target: Extent) -> Runs | None:
    """What follows from the order of bytes or elements; None: nothing."""
    steps: tuple[int, int] | None = None
    if flow is Flow.BYTES and source.nbytes == target.nbytes:
        steps = 1, 1
    elif flow is Flow.ELEMENTS:
        steps = _element_sizes(source, target)
    elif _elements(source) == _elements(target) > 0:
        if flow is Flow.TRANSPOSED:
            return _transposed(source, some, target)
        if flow in (Flow.PARTITIONED, Flow.COPIED):
            steps = source.item, target.item
    return None if steps is None else _by_place(source, some, target, *steps)


def _elements(extent: Extent) -> int:
    """How many elements; 0: not known."""
    return extent.nbytes // extent.item if extent.item and extent.nbytes % extent.item == 0 else 0


class Role(NamedTuple):
    """What an operand of a matrix multiplication is."""

    stationary: bool
    moving: bool


def spread_product(role: Role, source: Extent, some: Runs, target: Extent, order: Order) -> Runs:
    """Of a product: element j of each partition of the stationary operand makes partition j of the result,
    element j of the moving one element j of each partition. Any other operand is what the result is added to.
    """
    if not role.stationary and not role.moving:
        return spread(Flow.PARTITIONED, source, some, target, order)
    if order is not Order.PATTERN or not source.row or not target.row or not len(some[0]):
        return target.runs
    theirs = _partitions(target.runs, target.row)
    rows, columns = len(_partitions(source.runs, source.row)), len(theirs)
    elements, wanted = _elements(source), _elements(target)
    if not elements or not wanted or elements % rows or wanted % columns:
        return target.runs
    width, length = elements // rows, wanted // columns  # of each partition, on both sides
    found = NO_BYTES
    _, inside = _split(source, some, width)
    which = join_ranges(inside[0], inside[1] - inside[0])
    if role.stationary:
        if width != columns:
            return target.runs
        begin = theirs[which] * target.row
        found = bytesets.common(target.runs, bytesets.merged(begin, begin + target.row))
    if role.moving:
        if width != length:
            return target.runs
        place = (np.arange(columns)[:, None] * length + which).ravel()
        found = union(found, _at_places(target, bytesets.merged(place * target.item, (place + 1) * target.item)))
    return found


def _split(extent: Extent, some: Runs, width: int) -> tuple[Ints, Runs]:
    """Some bytes as elements of rows of `width` elements: which rows have one, and which elements are some row's."""
    low, high = _places(extent, some)
    low, high = low // extent.item, -(-high // extent.item)
    first = low // width
    count = (high - 1) // width - first + 1
    at = join_ranges(first, count)
    begin = np.maximum(np.repeat(low, count), at * width) - at * width
    end = np.minimum(np.repeat(high, count), (at + 1) * width) - at * width
    return distinct(at), ordered(begin, end)


def _element_sizes(source: Extent, target: Extent) -> tuple[int, int] | None:
    """Bytes of one element, or of eight bytes' worth of them, on both sides; None when they do not correspond."""
    if source.nbytes == 0 or target.nbytes == 0:
        return None
    if source.item and target.item and source.nbytes * target.item == target.nbytes * source.item:
        return source.item, target.item
    common = math.gcd(source.nbytes, target.nbytes)
    sizes = source.nbytes // common, target.nbytes // common
    # Elements have 1, 2, 4 or 8 bytes. An operand of one element is in the first step, with all of such a result.
    return (8 * sizes[0], 8 * sizes[1]) if set(sizes) <= {1, 2, 4, 8} else None


def _by_place(source: Extent, some: Runs, target: Extent, step: int, other: int) -> Runs:
    """Steps of `step` bytes of the operand, in its order, make steps of `other` bytes of the result."""
    low, high = _places(source, some)
    places = bytesets.merged(low // step * other, np.minimum(-(-high // step) * other, target.nbytes))
    return _at_places(target, places)


def _places(extent: Extent, some: Runs) -> Runs:
    """Where some bytes stand in the order of a pattern: each time that it touches them, upwards."""
    run, starts = extent.run, extent.starts
    begin = np.searchsorted(some[1], starts, "right")
    count = np.maximum(np.searchsorted(some[0], starts + run, "left") - begin, 0)
    which, piece = np.repeat(np.arange(len(starts)), count), join_ranges(begin, count)
    shift = which * run - starts[which]
    low, high = np.maximum(some[0][piece], starts[which]), np.minimum(some[1][piece], starts[which] + run)
    return low + shift, high + shift


def _at_places(extent: Extent, places: Runs) -> Runs:
    """The bytes that stand at some places in the order of a pattern."""
    low, high = places
    first = low // extent.run
    count = (high - 1) // extent.run - first + 1
    at = join_ranges(first, count)  # cut where the runs of the pattern end
    shift = extent.starts[at] - at * extent.run
    begin = np.maximum(np.repeat(low, count), at * extent.run)
    end = np.minimum(np.repeat(high, count), (at + 1) * extent.run)
    return ordered(begin + shift, end + shift)


def _by_partition(source: Extent, some: Runs, target: Extent) -> Runs:
    """Partitions of the operand make the same ones of the result."""
    if not source.row or not target.row:
        return target.runs
    mine, theirs = _partitions(source.runs, source.row), _partitions(target.runs, target.row)
    if len(mine) != len(theirs):
        return target.runs
    rows = theirs[np.searchsorted(mine, _partitions(some, source.row))] * target.row
    return bytesets.common(target.runs, bytesets.merged(rows, rows + target.row))


def _transposed(source: Extent, some: Runs, target: Extent) -> Runs | None:
    """The partitions that some bytes lie in become elements of each partition that is made of their elements."""
    if not source.row or not target.row:
        return None
    mine, theirs = _partitions(source.runs, source.row), _partitions(target.runs, target.row)
    if len(mine) * len(theirs) != _elements(source) or not len(some[0]):
        return None
    columns, rows = _split(source, some, len(theirs))
    rows_of = join_ranges(rows[0], rows[1] - rows[0])
    place = (rows_of[:, None] * len(mine) + columns).ravel()
    return _at_places(target, bytesets.merged(place * target.item, (place + 1) * target.item))


def _partitions(runs: Runs, row: int) -> Ints:
    """The partitions that some bytes lie in, ascending."""
    first = runs[0] // row
    return distinct(join_ranges(first, (runs[1] - 1) // row - first + 1))


# -- sets of bytes ---------------------------------------------------------------------------------------------------


def ordered(low: Ints, high: Ints) -> Runs:
    """Runs in any order as maximal runs."""
    order = np.argsort(low, kind="stable")
    return bytesets.merged(low[order], high[order])


def union(one: Runs, other: Runs) -> Runs:
    """The bytes in any of two sets."""
    return ordered(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))


def without(one: Runs, other: Runs) -> Runs:
    """The bytes of the first set that are not in the second."""
    ends = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return bytesets.common(one, (np.append(ends[0], other[1]), np.append(other[0], ends[1])))


def total(runs: Runs) -> int:
    """How many bytes."""
    return int((runs[1] - runs[0]).sum())
