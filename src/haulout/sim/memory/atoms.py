"""The arena cut into atoms: intervals of bytes that every operand touches as a whole or not at all.

The writers that an operand finds do not depend on the order of its bytes. So a pattern is treated as a set: negative
strides become positive, dims are sorted by stride, neighbours that touch or overlap are joined. The transposition of
a whole tensor becomes one run of bytes. The bounds of all runs cut the arena into atoms, and an operand is a list of
ranges of atoms; a program of a thousand instructions over a gigabyte has a few thousand atoms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.patterns import Pattern
from haulout.ir.schema import Ints
from haulout.sim.memory.extents import Extents


@dataclass(frozen=True, slots=True)
class Atoms:
    """Ranges of atoms of operand a: rows `starts[a]:starts[a + 1]`."""

    cuts: Ints
    """Byte of the arena at which each atom begins, and where the last one ends."""
    starts: Ints
    begin: Ints
    end: Ints

    def __len__(self) -> int:
        return max(0, len(self.cuts) - 1)

    def of(self, operand: int) -> slice | Ints:
        """The atoms of one operand, as an index."""
        begin, end = (column[self.starts[operand] : self.starts[operand + 1]] for column in (self.begin, self.end))
        if len(begin) == 1:
            return slice(int(begin[0]), int(end[0]))
        length = end - begin
        before = np.cumsum(length) - length
        return np.asarray(np.repeat(begin - before, length) + np.arange(length.sum()))


def cut(extents: Extents) -> Atoms:
    """The atoms of all operands of a table."""
    counts, begin, end = _runs(extents)
    cuts = np.unique(np.concatenate([begin, end]))
    return Atoms(cuts, np.append(0, np.cumsum(counts)), np.searchsorted(cuts, begin), np.searchsorted(cuts, end))


def byte_set(pattern: Pattern) -> Pattern:
    """A pattern that touches the same bytes, in another order, with as few dims as possible."""
    offset, run = pattern.offset, pattern.run
    steps = []
    for stride, count in pattern.dims:
        offset += min(0, stride * (count - 1))
        steps.append((abs(stride), count))
    dims: list[tuple[int, int]] = []
    for stride, count in sorted(steps):
        if stride <= run:
            run += stride * (count - 1)
        elif dims and stride % dims[-1][0] == 0 and stride // dims[-1][0] <= dims[-1][1]:
            # Copies of a row of runs that continue or overlap it make a longer row.
            inner, times = dims[-1]
            dims[-1] = inner, times + stride // inner * (count - 1)
        else:
            dims.append((stride, count))
    return Pattern(offset, run, tuple(reversed(dims)))


def _runs(extents: Extents) -> tuple[Ints, Ints, Ints]:
    """Number of runs of each operand; begin and end of every run, in bytes of the arena."""
    is_strided = extents.dim_end > extents.dim_begin
    each = np.where(extents.run == NONE, 0, 1)
    strided: dict[int, Ints] = {}
    length: dict[int, int] = {}
    known: dict[Pattern, Pattern] = {}
    for row in np.flatnonzero(is_strided & (extents.run != NONE)).tolist():
        touched = extents.pattern(row)
        found = known.get(touched)
        if found is None:
            found = known[touched] = byte_set(touched)
        strided[row], length[row] = found.starts(), found.run
        each[row] = len(strided[row])
    first = np.append(0, np.cumsum(each))
    begin = np.repeat(extents.offset, each)
    end = begin + np.repeat(extents.run, each)
    for row, starts in strided.items():
        begin[first[row] : first[row + 1]] = starts
        end[first[row] : first[row + 1]] = starts + length[row]
    return np.diff(first[extents.starts]), begin, end
