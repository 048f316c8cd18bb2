"""Operands at hand: what a run asks for again and again about an access or a location, worked out once.

Operands are numbered as in `regions.operand_regions`: first the rows of `accesses`, then every location as a
whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.sim.atoms import Atoms, cut
from haulout.sim.layout import Layout
from haulout.sim.regions import operand_regions


class Operand(NamedTuple):
    """The bytes of one operand."""

    patterns: tuple[Pattern, ...]
    """In order; offsets count from the arena's first byte."""
    nbytes: int
    """Bytes that move; one that is touched twice counts twice."""
    atoms: slice | Ints
    """The same bytes as atoms."""


class Operands:
    """All operands of a program in one layout."""

    def __init__(self, program: Program, layout: Layout) -> None:
        self.regions = operand_regions(program, layout)
        self.atoms: Atoms = cut(self.regions)
        self.middle: Ints = _first_writes(program)
        """For each instruction: its first row of `accesses` that is a write."""
        self._accesses = len(program.accesses)
        self._known: dict[int, Operand] = {}

    def __getitem__(self, operand: int) -> Operand:
        found = self._known.get(operand)
        if found is None:
            patterns = tuple(self.regions.patterns(operand))
            nbytes = sum(pattern.nbytes for pattern in patterns)
            found = self._known[operand] = Operand(patterns, nbytes, self.atoms.of(operand))
        return found

    def whole(self, location: int) -> int:
        """The operand that is all of a location."""
        return self._accesses + location


def _first_writes(program: Program) -> Ints:
    starts = program.access_starts
    reads = np.append(0, np.cumsum(~program.accesses.write))
    return np.asarray(starts[:-1] + reads[starts[1:]] - reads[starts[:-1]])
