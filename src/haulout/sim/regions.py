"""Which bytes of the arena each operand touches, as columns: one region an operand, or several where it is torn.

A region is a byte pattern that counts from the arena's first byte. An operand of one location that lies in
one piece is one region, with the dims of its own pattern. A whole location that lies in several partitions is
one region with one dim; part of such a location is cut into the runs that lie together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Ids, Ints
from haulout.sim.layout import Layout


@dataclass
class Regions:
    """Regions of operand a, in the order of its bytes: rows `starts[a]:starts[a + 1]`."""

    starts: Ints
    offset: Ints
    run: Ints
    """Bytes together; NONE where the pattern is `?` or the location is not laid out."""
    dim_begin: Ints
    dim_end: Ints
    stride: Ints
    count: Ints

    @cached_property
    def _rows(self) -> list[list[int]]:
        columns = (self.starts, self.offset, self.run, self.dim_begin, self.dim_end, self.stride, self.count)
        return [column.tolist() for column in columns]

    def pattern(self, row: int) -> Pattern:
        """One region."""
        _, offset, run, dim_begin, dim_end, stride, count = self._rows
        begin, end = dim_begin[row], dim_end[row]
        dims = tuple(zip(stride[begin:end], count[begin:end], strict=True)) if end > begin else ()
        return Pattern(offset[row], run[row], dims)

    def patterns(self, operand: int) -> Iterator[Pattern]:
        """The regions of one operand."""
        starts = self._rows[0]
        return map(self.pattern, range(starts[operand], starts[operand + 1]))


def operand_regions(program: Program, layout: Layout) -> Regions:
    """The regions of every operand: first the rows of `accesses`, then every location as a whole."""
    every = np.arange(len(program.locations), dtype=np.int32)
    location = np.concatenate([program.accesses.location, every])
    pattern = np.concatenate([program.accesses.pattern, np.full(len(every), NONE, np.int32)])
    return _regions(program, layout, location, pattern)


def _regions(program: Program, layout: Layout, location: Ids, pattern: Ids) -> Regions:
    patterns, size = program.patterns, program.locations.size[location]
    offset, run, dim_begin, dim_end = (
        np.append(column, 0)[pattern].astype(np.int64)
        for column in (patterns.offset, patterns.run, patterns.dim_begin, patterns.dim_end)
    )
    regions = Regions(
        starts=np.arange(len(location) + 1),
        offset=offset + layout.base[location],
        run=np.where(layout.base[location] == NONE, NONE, np.where(pattern == NONE, size, run)),
        dim_begin=dim_begin,
        dim_end=dim_end,
        stride=program.dims.stride,
        count=program.dims.count,
    )
    torn = np.flatnonzero((layout.width[location] < size) & (regions.run != NONE))
    if not len(torn):
        return regions
    cut = {at: _cut(program, layout, int(location[at]), int(pattern[at])) for at in torn.tolist()}
    return _with_cut(regions, cut)


def _cut(program: Program, layout: Layout, location: int, pattern: int) -> list[Pattern]:
    """The bytes of an operand whose location lies in several partitions."""
    base, width, pitch = (int(column[location]) for column in (layout.base, layout.width, layout.pitch))
    touched = program.pattern(pattern)
    if touched is None:
        return [Pattern(base, width, ((pitch, int(program.locations.size[location]) // width),))]
    inside = touched.bytes()
    at = base + inside // width * pitch + inside % width
    bounds = [0, *(np.flatnonzero(np.diff(at) != 1) + 1).tolist(), len(at)]
    return [Pattern(int(at[low]), high - low) for low, high in pairwise(bounds)]


def _with_cut(regions: Regions, cut: dict[int, list[Pattern]]) -> Regions:
    """The same regions, with those of some operands replaced."""
    operands = len(regions.starts) - 1
    counts = np.ones(operands, np.int64)
    counts[list(cut)] = [len(pieces) for pieces in cut.values()]
    starts = np.append(0, np.cumsum(counts))
    taken = np.repeat(np.arange(operands), counts)
    offset, run, dim_begin, dim_end = (
        column[taken] for column in (regions.offset, regions.run, regions.dim_begin, regions.dim_end)
    )
    stride, count = regions.stride.tolist(), regions.count.tolist()
    for operand, pieces in cut.items():
        for row, piece in enumerate(pieces, int(starts[operand])):
            offset[row], run[row] = piece.offset, piece.run
            dim_begin[row], dim_end[row] = len(stride), len(stride) + len(piece.dims)
            stride += [step for step, _ in piece.dims]
            count += [number for _, number in piece.dims]
    return Regions(starts, offset, run, dim_begin, dim_end, np.array(stride, np.int64), np.array(count, np.int64))
