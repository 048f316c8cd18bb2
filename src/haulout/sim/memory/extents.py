"""The bytes of the arena that each operand touches, as columns: one extent an operand, or several.

An extent is a byte pattern that counts from the arena's first byte. An operand of a location in one piece is one
extent, with the dims of its own pattern. So is a part of a location in several partitions if its dims go either from
partition to partition or along one; any other part is cut into contiguous runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Ids, Ints
from haulout.sim.flow.code import condition_bytes
from haulout.sim.memory.layout import Layout
from haulout.sim.memory.strided_operands import StridedOperands


@dataclass
class Extents:
    """Extents of operand a, in the order of its bytes: rows `starts[a]:starts[a + 1]`."""

    starts: Ints
    offset: Ints
    run: Ints
    """Contiguous bytes; NONE where the pattern is `?` or the location is not laid out."""
    dim_begin: Ints
    dim_end: Ints
    stride: Ints
    count: Ints

    @cached_property
    def _rows(self) -> list[list[int]]:
        columns = (self.starts, self.offset, self.run, self.dim_begin, self.dim_end, self.stride, self.count)
        return [column.tolist() for column in columns]

    def pattern(self, row: int) -> Pattern:
        """One extent."""
        _, offset, run, dim_begin, dim_end, stride, count = self._rows
        begin, end = dim_begin[row], dim_end[row]
        dims = tuple(zip(stride[begin:end], count[begin:end], strict=True)) if end > begin else ()
        return Pattern(offset[row], run[row], dims)

    def patterns(self, operand: int) -> Iterator[Pattern]:
        """The extents of one operand."""
        starts = self._rows[0]
        return map(self.pattern, range(starts[operand], starts[operand + 1]))


def operand_extents(program: Program, layout: Layout, strided: StridedOperands) -> Extents:
    """The extents of every operand, in the order of `code.py`."""
    accesses, locations, blocks = program.accesses, program.locations, program.blocks
    moved, shift = strided.variants()
    wholes = np.full(len(locations) + len(blocks), NONE, np.int32)
    every = np.arange(len(locations), dtype=np.int32)
    location = np.concatenate([accesses.location, every, blocks.cond, accesses.location[moved]])
    pattern = np.concatenate([accesses.pattern, wholes, accesses.pattern[moved]])
    size = np.append(locations.size, 0)[location]
    first = len(accesses) + len(locations)
    size[first : first + len(blocks)] = condition_bytes(program)
    moved_by = np.concatenate([np.zeros(first + len(blocks), np.int64), shift])
    return _extents(program, layout, _Wanted(location, pattern, size, moved_by))


class _Wanted(NamedTuple):
    """Operands as columns."""

    location: Ids
    """NONE: an operand of no bytes, which no row uses."""
    pattern: Ids
    size: Ints
    """Bytes from the location's first one, where there is no pattern."""
    shift: Ints
    """Bytes that the pattern is moved by."""


def _extents(program: Program, layout: Layout, wanted: _Wanted) -> Extents:
    location, pattern, size, shift = wanted
    patterns = program.patterns
    offset, run, dim_begin, dim_end = (
        np.append(column, 0)[pattern].astype(np.int64)
        for column in (patterns.offset, patterns.run, patterns.dim_begin, patterns.dim_end)
    )
    base, width = (np.append(column, NONE)[location] for column in (layout.base, layout.width))
    extents = Extents(
        starts=np.arange(len(location) + 1),
        offset=offset + shift + base,
        run=np.where(base == NONE, NONE, np.where(pattern == NONE, size, run)),
        dim_begin=dim_begin,
        dim_end=dim_end,
        stride=program.dims.stride,
        count=program.dims.count,
    )
    split = np.flatnonzero((width < np.append(program.locations.size, 0)[location]) & (extents.run != NONE))
    if not len(split):
        return extents
    cut = {}
    for at in split.tolist():
        touched = program.pattern(int(pattern[at]))
        touched = Pattern(0, int(size[at])) if touched is None else touched
        moved = Pattern(touched.offset + int(shift[at]), touched.run, touched.dims)
        cut[at] = _cut(program, layout, int(location[at]), moved)
    return _with_cut(extents, cut)


def _cut(program: Program, layout: Layout, location: int, touched: Pattern) -> list[Pattern]:
    """The bytes of an operand whose location is in several partitions."""
    base, width, pitch = (int(column[location]) for column in (layout.base, layout.width, layout.pitch))
    size = int(program.locations.size[location])
    if touched == Pattern(0, size):
        return [Pattern(base, width, ((pitch, size // width),))]
    found = _over_partitions(touched, base, width, pitch)
    if found is not None:
        return [found]
    inside = touched.bytes()
    at = base + inside // width * pitch + inside % width
    bounds = [0, *(np.flatnonzero(np.diff(at) != 1) + 1).tolist(), len(at)]
    return [Pattern(int(at[low]), high - low) for low, high in pairwise(bounds)]


def _over_partitions(touched: Pattern, base: int, width: int, pitch: int) -> Pattern | None:
    """The pattern in the arena if each of its dims goes over partitions or stays in one, else None."""
    run, dims = touched.run, list(touched.dims)
    if run > width:
        if run % width or touched.offset % width:
            return None
        dims.append((width, run // width))
        run = width
    row, inside = divmod(touched.offset, width)
    low, high = inside, inside + run
    moved = []
    for stride, count in _split_at_rows(dims, width):
        if count > 1 and stride % width == 0:
            moved.append((stride // width * pitch, count))
            continue
        low, high = low + min(0, stride * (count - 1)), high + max(0, stride * (count - 1))
        moved.append((stride, count))
    return Pattern(base + row * pitch + inside, run, tuple(moved)) if low >= 0 and high <= width else None


def _split_at_rows(dims: list[tuple[int, int]], width: int) -> Iterator[tuple[int, int]]:
    """Dims of which none goes along a partition and on into the next: such a one is cut in two where it can be."""
    for stride, count in dims:
        each = width // stride if stride > 0 else 0
        if 1 < each < count and width % stride == 0 and count % each == 0:
            yield width, count // each
            yield stride, each
        else:
            yield stride, count


def _with_cut(extents: Extents, cut: dict[int, list[Pattern]]) -> Extents:
    """The same extents, with those of some operands replaced."""
    operands = len(extents.starts) - 1
    counts = np.ones(operands, np.int64)
    counts[list(cut)] = [len(pieces) for pieces in cut.values()]
    starts = np.append(0, np.cumsum(counts))
    taken = np.repeat(np.arange(operands), counts)
    offset, run, dim_begin, dim_end = (
        column[taken] for column in (extents.offset, extents.run, extents.dim_begin, extents.dim_end)
    )
    stride, count = extents.stride.tolist(), extents.count.tolist()
    for operand, pieces in cut.items():
        for row, piece in enumerate(pieces, int(starts[operand])):
            offset[row], run[row] = piece.offset, piece.run
            dim_begin[row], dim_end[row] = len(stride), len(stride) + len(piece.dims)
            stride += [step for step, _ in piece.dims]
            count += [number for _, number in piece.dims]
    return Extents(starts, offset, run, dim_begin, dim_end, np.array(stride, np.int64), np.array(count, np.int64))
