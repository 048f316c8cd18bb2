"""The arena cut into atoms: intervals of bytes that every operand touches as a whole or not at all.

The writers that an operand finds do not depend on the order of its bytes. So a pattern is treated as a set: negative
strides become positive, dims are sorted by stride, neighbours that touch or overlap are joined. The transposition of
a whole tensor becomes one run of bytes. The bounds of all runs cut the arena into atoms, and an operand is a list of
ranges of atoms; a program of a thousand instructions over a gigabyte has a few thousand atoms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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
    runs = _runs(extents)
    # A merge sort: the runs of each extent are in order already.
    bounds = np.sort(np.concatenate([runs.begin, runs.end]), kind="stable")
    cuts = bounds[np.append(True, bounds[1:] != bounds[:-1])[: len(bounds)]]
    begin, end = np.searchsorted(cuts, runs.begin), np.searchsorted(cuts, runs.end)
    before = np.append(0, np.cumsum(runs.number))
    every = np.repeat(runs.first - before[:-1], runs.number) + np.arange(before[-1])
    return Atoms(cuts, before[extents.starts], begin[every], end[every])


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


class _Runs(NamedTuple):
    """Contiguous runs of bytes; those of extent i are `first[i]` to `first[i] + number[i]`. Equal extents with dims
    share theirs.
    """

    first: Ints
    number: Ints
    begin: Ints
    """Of each run, in bytes of the arena."""
    end: Ints


def _runs(extents: Extents) -> _Runs:
    is_known = extents.run != NONE
    is_strided = (extents.dim_end > extents.dim_begin) & is_known
    plain = np.flatnonzero(is_known & ~is_strided)
    first, count = np.zeros(len(extents.run), np.int64), is_known.astype(np.int64)
    first[plain] = np.arange(len(plain))
    begins = [extents.offset[plain]]
    ends = [extents.offset[plain] + extents.run[plain]]
    size, known = len(plain), dict[Pattern, tuple[int, int]]()
    for row in np.flatnonzero(is_strided).tolist():
        touched = extents.pattern(row)
        if touched not in known:
            found = byte_set(touched)
            starts = found.starts()
            begins.append(starts)
            ends.append(starts + found.run)
            known[touched] = size, len(starts)
            size += len(starts)
        first[row], count[row] = known[touched]
    return _Runs(first, count, np.concatenate(begins), np.concatenate(ends))
