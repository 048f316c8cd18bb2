"""Where everything lies in the simulated memory: one array of bytes, the *arena*, for all spaces of all cores.

The DRAM is one pool; SBUF and PSUM are a pool a core. In a pool where every location has an address, the
addresses are the truth: locations that share bytes share them here too, and a view lies where its own address
says. In any other pool every owner location gets bytes of its own, and a view lies where its owner does.

Addresses may be far apart, so a pool is packed: the gaps that no location covers are left out. In SBUF and
PSUM a location is a rectangle, `parts` partitions high and `size / parts` bytes wide; both axes are packed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.ir.enums import NONE, Space
from haulout.ir.labels import location_label
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import bad_input

_LINE = 64
"""Bytes to which blocks of the arena are aligned."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of every location, as columns over `locations`."""

    base: Ints
    """Its first byte in the arena; NONE for locations of functions that do not run."""
    width: Ints
    """Bytes that lie together: all of them, or those of one partition."""
    pitch: Ints
    """Bytes from one partition to the next."""
    size: int
    """Bytes of the arena."""

    def byte_of(self, location: int, at: int) -> int:
        """Which byte of a location lies at a place of the arena."""
        inside, pitch = at - int(self.base[location]), int(self.pitch[location])
        return inside // pitch * int(self.width[location]) + inside % pitch if pitch else inside


def lay_out(program: Program, functions: Ids) -> Layout:
    """The arena of the locations of some functions, one a core."""
    locations = program.locations
    base = np.full(len(locations), NONE, np.int64)
    width = locations.size.copy()
    pitch = np.zeros(len(locations), np.int64)
    size = 0
    for rows in _pools(program, functions):
        if (locations.address[rows] != NONE).all():
            size = _place_by_address(program, rows, size, base, width, pitch)
        else:
            size = _place_apart(program, rows, size, base)
    return Layout(base, width, pitch, size)


def _pools(program: Program, functions: Ids) -> list[Ids]:
    locations = program.locations
    runs: Bools = np.isin(locations.function, functions)
    is_dram = locations.space <= Space.DRAM_SHARED
    pool = np.where(is_dram, NONE, program.location_core * len(Space) + locations.space)
    return [np.flatnonzero(runs & (pool == each)).astype(np.int32) for each in np.unique(pool[runs])]


def _place_apart(program: Program, rows: Ids, start: int, base: Ints) -> int:
    """Bytes of its own for each owner, in the order of the rows; the end of the pool."""
    owner = program.owner[rows]
    owners = rows[owner == rows]
    ends = start + np.cumsum(_rounded(program.locations.size[owners]))
    base[owners] = ends - _rounded(program.locations.size[owners])
    base[rows] = base[owner]
    return int(ends[-1]) if len(ends) else start


def _place_by_address(program: Program, rows: Ids, start: int, base: Ints, width: Ints, pitch: Ints) -> int:
    """Bytes as the addresses say, gaps left out; the end of the pool."""
    locations = program.locations
    address, size = locations.address[rows], locations.size[rows]
    is_dram = locations.space[rows] <= Space.DRAM_SHARED
    parts = np.where(is_dram, 1, np.maximum(locations.parts[rows], 1)).astype(np.int64)
    partition = np.where(is_dram, 0, np.maximum(locations.partition[rows], 0)).astype(np.int64)
    for row in rows[size % parts != 0][:1].tolist():
        bad_input(
            f"{locations.size[row]} bytes do not spread evenly over {locations.parts[row]} partitions",
            location_label(program, row),
        )
    column, columns = _packed(address, address + size // parts, _LINE)
    line, lines = _packed(partition, partition + parts, 1)
    base[rows] = start + line * columns + column
    width[rows] = size // parts
    pitch[rows] = columns
    return start + lines * columns


def _packed(begin: Ints, end: Ints, unit: int) -> tuple[Ints, int]:
    """New begins of ranges when what no range covers is left out, and the new length of the axis.

    Ranges that meet keep their distance; each stretch of them starts at the same place within a unit as
    before.
    """
    order = np.argsort(begin, kind="stable")
    reached = np.maximum.accumulate(end[order])
    opens = np.append(True, begin[order][1:] > reached[:-1])
    stretch = np.cumsum(opens) - 1
    first = np.flatnonzero(opens)
    stretch_begin = begin[order][first]
    stretch_end = reached[np.append(first[1:], len(order)) - 1]
    lead = stretch_begin % unit
    room = _rounded(lead + stretch_end - stretch_begin, unit)
    new_begin = np.cumsum(room) - room + lead
    result = np.empty(len(order), np.int64)
    result[order] = begin[order] - stretch_begin[stretch] + new_begin[stretch]
    return result, int(room.sum())


def _rounded(size: Ints, unit: int = _LINE) -> Ints:
    return -(-size // unit) * unit
