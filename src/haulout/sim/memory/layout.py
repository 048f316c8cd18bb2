"""The layout of all locations in the simulated memory: one array of bytes, the *arena*, for all spaces of all cores.

The DRAM is one pool; SBUF and PSUM are a pool a core. In a pool where every location has an address, addresses
decide: locations that share bytes share them in the arena, and a view is at its own address. In any other pool every
owner gets bytes of its own, and a view is where its owner is.

Addresses may be far apart, so a pool is packed: gaps that no location covers are left out. In SBUF and PSUM a
location is a rectangle, `parts` partitions high and `size / parts` bytes wide; both axes are packed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from haulout.ir.enums import NONE, Space
from haulout.ir.labels import location_label
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import bad_input

_MAX_BYTES = 2**46
"""Bytes of simulated memory; NumPy's own limits are near."""
_ALIGNMENT = 64
"""Alignment of the parts of the arena, in bytes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of every location, as columns over `locations`."""

    base: Ints
    """Its first byte in the arena; NONE for locations of functions that do not run."""
    width: Ints
    """Contiguous bytes: all of them, or those of one partition."""
    pitch: Ints
    """Bytes from one partition to the next."""
    size: int
    """Bytes of the arena."""

    def byte_of(self, location: int, at: int) -> int:
        """The byte of a location that is at a place of the arena."""
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
            size = _place_separately(program, rows, size, base)
        if size > _MAX_BYTES:
            refuse_size(size)
    return Layout(base, width, pitch, size)


def refuse_size(size: int) -> NoReturn:
    """`bad-input` for a program that needs too many bytes of simulated memory."""
    bad_input(f"the program needs {size} bytes of simulated memory, more than this machine has")


def _pools(program: Program, functions: Ids) -> list[Ids]:
    locations = program.locations
    runs: Bools = np.isin(locations.function, functions)
    is_dram = locations.space <= Space.DRAM_SHARED
    pool = np.where(is_dram, NONE, program.location_core * len(Space) + locations.space)
    return [np.flatnonzero(runs & (pool == each)).astype(np.int32) for each in np.unique(pool[runs])]


def _place_separately(program: Program, rows: Ids, start: int, base: Ints) -> int:
    """Separate bytes for each owner, in the order of the rows; the end of the pool."""
    owner = program.owner[rows]
    owners = rows[owner == rows]
    sizes = _rounded(program.locations.size[owners])
    base[owners] = start + np.cumsum(sizes) - sizes
    base[rows] = base[owner]
    each: list[int] = sizes.tolist()
    return start + sum(each)  # NumPy's sum may overflow


def _place_by_address(program: Program, rows: Ids, start: int, base: Ints, width: Ints, pitch: Ints) -> int:
    """Bytes at their addresses, without gaps; the end of the pool."""
    locations = program.locations
    address, size = locations.address[rows], locations.size[rows]
    is_dram = locations.space[rows] <= Space.DRAM_SHARED
    parts = np.where(is_dram, 1, np.maximum(locations.parts[rows], 1)).astype(np.int64)
    partition = np.where(is_dram, 0, np.maximum(locations.partition[rows], 0)).astype(np.int64)
    for row in rows[size % parts != 0][:1].tolist():
        bad_input(
            f"invalid size {locations.size[row]}: expected a multiple of its {locations.parts[row]} partitions",
            location_label(program, row),
        )
    column, columns = _packed(address, address + size // parts, _ALIGNMENT)
    line, lines = _packed(partition, partition + parts, 1)
    base[rows] = start + line * columns + column
    width[rows] = size // parts
    pitch[rows] = columns
    return start + lines * columns


def _packed(begin: Ints, end: Ints, unit: int) -> tuple[Ints, int]:
    """New begins of ranges without the gaps between them, and the new length of the axis.

    Ranges that overlap or touch keep their distance; each group of them begins at the same offset in a unit as
    before.
    """
    order = np.argsort(begin, kind="stable")
    reached = np.maximum.accumulate(end[order])
    opens = np.append(True, begin[order][1:] > reached[:-1])
    group = np.cumsum(opens) - 1
    first = np.flatnonzero(opens)
    group_begin = begin[order][first]
    group_end = reached[np.append(first[1:], len(order)) - 1]
    lead = group_begin % unit
    room = _rounded(lead + group_end - group_begin, unit)
    new_begin = np.cumsum(room) - room + lead
    result = np.empty(len(order), np.int64)
    result[order] = begin[order] - group_begin[group] + new_begin[group]
    return result, int(room.sum())


def _rounded(size: Ints, unit: int = _ALIGNMENT) -> Ints:
    return -(-size // unit) * unit
