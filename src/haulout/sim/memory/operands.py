"""Operands: the bytes of each access, location and condition, computed once and kept for the run.

Operands are numbered as in `code.py`: the rows of `accesses`, every location as a whole, the `cond` of every block,
and the variants of strided operands.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Ids, Ints
from haulout.sim.memory.atoms import Atoms, cut
from haulout.sim.memory.extents import operand_extents
from haulout.sim.memory.layout import Layout
from haulout.sim.memory.strided_operands import StridedOperands


class Operand(NamedTuple):
    """The bytes of one operand."""

    patterns: tuple[Pattern, ...]
    """In order; offsets count from the arena's first byte."""
    nbytes: int
    """The number of bytes; one that is touched twice counts twice."""
    atoms: slice | Ints
    """The same bytes as atoms."""


class Operands:
    """All operands of a program in one layout."""

    def __init__(self, program: Program, layout: Layout, strided: StridedOperands) -> None:
        self.strided = strided
        self.extents = operand_extents(program, layout, strided)
        self.atoms: Atoms = cut(self.extents)
        moved, _ = strided.variants()
        accesses = program.accesses
        self.location: Ids = np.concatenate(
            [
                accesses.location,
                np.arange(len(program.locations), dtype=np.int32),
                program.blocks.cond,
                accesses.location[moved],
            ]
        )
        """Of each operand; NONE for blocks without `cond`."""
        self._accesses = len(program.accesses)
        self._known: dict[int, Operand] = {}

    def __getitem__(self, operand: int) -> Operand:
        found = self._known.get(operand)
        if found is None:
            patterns = tuple(self.extents.patterns(operand))
            nbytes = sum(pattern.nbytes for pattern in patterns)
            found = self._known[operand] = Operand(patterns, nbytes, self.atoms.of(operand))
        return found

    def whole(self, location: int) -> int:
        """The operand of a whole location."""
        return self._accesses + location
