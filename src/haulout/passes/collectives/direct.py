"""Results that are views of an operand of another core: nothing is copied, and no bytes are taken.

The result of a `collective_permute` has the bytes of one operand. If nothing writes that operand later, readers of
the result can read the operand instead, as long as they like. Then the result's location becomes a view of the
operand's. Such a result can be the operand of the next collective: its *root* is the location that has the bytes.

    the operand     read in place, and never written later (`Site.unchanged`)
    the result      whole, local, internal; nothing but the collective writes it, and no block branches on it
    the order       the program has `seq`, so that order 81 places fences where operand and readers need them
    in regions      all accesses of the result, and all writes of the root, are in the block of the collective: so no
                    iteration reads what the one before it received
"""

from __future__ import annotations

import numpy as np

from haulout.ir.arrays import Array
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids


class Direct:
    """Which locations became views of others, and which may."""

    def __init__(self, program: Program) -> None:
        locations, accesses = program.locations, program.accesses
        self._program = program
        self._has_regions = bool(program.structure)
        self._roots: dict[int, int] = {}
        writes = accesses.location[accesses.write]
        fits = (locations.space == Space.DRAM_LOCAL) & (locations.kind == Kind.INTERNAL)
        fits &= (locations.address == NONE) & (np.bincount(writes, minlength=len(locations)) == 1)
        fits[program.blocks.cond[program.blocks.cond != NONE]] = False
        self._fits: Bools = fits
        order = np.argsort(accesses.location, kind="stable")
        self._rows: Ids = accesses.instruction[order]
        self._write: Bools = accesses.write[order]
        self._starts = np.searchsorted(accesses.location[order], np.arange(len(locations) + 1))

    def root(self, location: int) -> int:
        """The location that has the bytes."""
        return self._roots.get(location, location)

    def may_view(self, row: int, result: Array, source: Array) -> bool:
        """Whether the result of the collective in a row can be a view of a source that is read in place."""
        program, root = self._program, self.root(source.location)
        if not self._fits[result.location] or result.pattern is not None or result.nbytes != source.nbytes:
            return False
        if program.instructions.seq[row] == NONE or program.location_core[root] == program.instruction_core[row]:
            return False
        rows, _ = self._accesses(result.location)
        return bool((rows >= row).all()) and (not self._has_regions or self._in_one_block(row, rows, root))

    def view(self, result: int, source: int) -> int:
        """Note that a location is a view of another one; returns its root."""
        self._roots[result] = self.root(source)
        return self._roots[result]

    def _accesses(self, location: int) -> tuple[Ids, Bools]:
        mine = slice(int(self._starts[location]), int(self._starts[location + 1]))
        return self._rows[mine], self._write[mine]

    def _in_one_block(self, row: int, rows: Ids, root: int) -> bool:
        program = self._program
        block, each = program.instructions.block, len(program.blocks) // program.lnc
        others, write = self._accesses(root)
        return bool((block[rows] == block[row]).all() and (block[others[write]] % each == block[row] % each).all())
