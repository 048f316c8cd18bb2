"""Where bytes lie: every location gets a place on one number line of storage keys.

Two maps. In the *physical* one an allocated location lies where its own row says, a view too: the one DRAM first,
then each core's SBUF and PSUM, then every owner that has no address, in storage of its own. A view without an
address lies where its owner does. Bytes with equal keys are the same storage. In the *logical* one every owner has
storage of its own, whatever its address: there two keys are equal when they are the same byte of the same tensor.

SBUF and PSUM are a grid. Partition p of a core's grid starts `pitch * p` keys after its first, so a location that
spans several partitions is a rectangle: `row` bytes of it lie in each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker.model import Model
from haulout.ir.enums import NONE, Space
from haulout.ir.schema import Bools, Ints
from haulout.support.diagnostics import bad_input

_MOST = 1 << 62
"""Keys stay below this, so that sums of two fit in 64 bits."""


@dataclass(slots=True)
class StorageMap:
    """By location of the program (rows of other functions mean nothing).

    Byte x of a location has the key `base + pitch * (x // row) + x % row`.
    """

    base: Ints
    row: Ints
    """Bytes of one partition's share; the whole size where storage is linear."""
    pitch: Ints
    """Keys from partition to partition; 0 where storage is linear."""

    @property
    def is_grid(self) -> Bools:
        """Which locations are rectangles."""
        grid: Bools = self.pitch != 0
        return grid


def logical_map(model: Model) -> StorageMap:
    """Every owner in storage of its own; views lie on their owners."""
    size, owners = model.program.locations.size, model.owners()
    base = np.zeros(len(size), np.int64)
    wanted = np.zeros(len(size), np.int64)
    # A view should be as large as its owner; where it is not, its storage is as large as the larger.
    np.maximum.at(wanted, owners[model.locations], size[model.locations])
    _reserve(base, wanted, 0)
    return StorageMap(base[owners], np.maximum(size, 1), np.zeros(len(size), np.int64))


def physical_map(model: Model) -> StorageMap:
    """Allocated locations at their addresses, the others in storage of their own."""
    rows, owners = model.program.locations, model.owners()
    own = rows.address != NONE
    source = np.where(own, np.arange(len(rows)), owners)  # whose placement counts
    address, space = rows.address[source], rows.space[source]
    placed = address != NONE
    base, row = np.where(placed, address, 0), np.maximum(rows.size, 1)
    pitch = np.zeros(len(rows), np.int64)
    here = np.zeros(len(rows), bool)
    here[model.locations] = True

    dram = here & placed & (space <= Space.DRAM_SHARED)
    end = _highest(base[dram].astype(float) + rows.size[dram])
    core = model.program.location_core[source]
    for each in range(model.cores):
        for kind in (Space.SBUF, Space.PSUM):
            grid = here & placed & (space == kind) & (core == each)
            if not grid.any():
                continue
            parts = np.maximum(rows.parts[source][grid].astype(np.int64), 1)
            share = -(-rows.size[grid] // parts)
            first = np.maximum(rows.partition[source][grid].astype(np.int64), 0)
            width = _highest(address[grid].astype(float) + share)
            base[grid] = end + first * width + address[grid]
            row[grid], pitch[grid] = np.maximum(share, 1), np.where(parts > 1, width, 0)
            end = _highest(np.array([float(end) + float(int((first + parts).max())) * width]))
    free = here & ~placed
    wanted = np.zeros(len(rows), np.int64)
    np.maximum.at(wanted, owners[free], rows.size[free])
    _reserve(base, wanted, end)
    base[free] = base[owners[free]]
    return StorageMap(base, row, pitch)


def _reserve(base: Ints, wanted: Ints, end: int) -> None:
    """Place owners that want bytes behind each other from key `end` on."""
    owners = np.flatnonzero(wanted)
    sizes = wanted[owners]
    _highest(np.array([float(end) + float(sizes.sum(dtype=float))]))
    base[owners] = end + np.cumsum(sizes) - sizes


def _highest(ends: Ints) -> int:
    """The largest of some ends, 0 for none; an error where keys would leave 64 bits."""
    highest = float(ends.max()) if len(ends) else 0.0
    if highest > _MOST:
        bad_input("more than 2**62 bytes of storage cannot be checked")
    return int(highest)
