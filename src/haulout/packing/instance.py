"""The canonical form of a problem, on which every search works.

Three reductions make a problem smaller without changing its answer:

- Buffers that take no storage (no bytes, or never live) are left out; they get offset 0.
- Time is divided into *columns*, one for each maximal set of buffers that are live together. A column starts with a
  birth and ends with a death; the moments between two columns have no other live buffers than these columns.

        buffer a  [-------------)                    times     0  2  4  5  7  9
        buffer b     [-------)                       kept         ^^^^^^^  ^^^^     a and b; a and c
        buffer c                [----)               columns         0      1

- Bytes are counted in the largest unit that divides all sizes, pins and segments.

Rows are sorted by first column; `start_of` finds the rows that begin in a column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from haulout.packing.bound import running_sum
from haulout.packing.problem import I64, LIMIT, Problem
from haulout.support.diagnostics import fail

F64: TypeAlias = NDArray[np.float64]
I32: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """Rows to place. `first`, `last` (half-open) are columns, from the first range to the end of the last;
    `size`, `alignment`, `segment` (0: none), `pinned`, `load`, `bound` count units of `unit` bytes; the
    ranges of row i are `range_first[k], range_last[k]` for k in `range_of[i]:range_of[i + 1]`; `duration` is in the
    problem's time.
    """

    buffer: I64
    first: I64
    last: I64
    size: I64
    alignment: I64
    segment: I64
    pinned: I64
    duration: F64
    range_of: I64
    range_first: I64
    range_last: I64
    start_of: I64
    load: I64
    unit: int
    bound: int

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.size)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.load)

    @property
    def has_holes(self) -> bool:
        """Whether any row has more than one range."""
        return len(self.range_first) != len(self.size)

    @property
    def overlaps(self) -> int:
        """Pairs of rows that overlap in time, holes ignored: what best fit by gaps costs."""
        return int((self.start_of[self.last] - self.start_of[self.first]).sum())

    @property
    def has_pins(self) -> bool:
        """Whether any row's offset is given."""
        return bool((self.pinned >= 0).any())

    def offsets(self, placed: I64, buffers: int) -> I64:
        """Offsets in bytes for all `buffers` of the problem from those of the rows in units."""
        offset = np.zeros(buffers, np.int64)
        offset[self.buffer] = placed * self.unit
        return offset


def canonical(problem: Problem) -> Instance:
    """Reduce a problem to its rows, columns and units. O(n log n)."""
    taken = problem.occupies
    reserved = problem.reserved
    used = np.flatnonzero((problem.upper > problem.lower) & taken[problem.owner])
    owner, lower, upper = problem.owner[used], problem.lower[used], problem.upper[used]

    # time -> columns
    times, place = ranks(np.concatenate([lower, upper]))
    begin, end = place[: len(lower)], place[len(lower) :]
    opens = np.zeros(len(times) + 1, bool)
    closes = np.zeros(len(times) + 1, bool)
    opens[begin] = True
    closes[end] = True
    column = np.concatenate([[0], np.cumsum(opens[:-1] & closes[1:])])[: len(times)].astype(np.int64)
    begin, end = column[begin], column[end]
    columns = int(column[-1]) if len(column) else 0

    # bytes -> units
    row_of = np.cumsum(taken) - 1
    fixed = np.concatenate([problem.pinned[taken & (problem.pinned >= 0)], problem.segment[taken]])
    unit = _unit(reserved[taken], problem.alignment[taken], fixed)
    size = reserved[taken] // unit
    alignment = np.maximum(problem.alignment[taken] // unit, 1)
    pinned = np.where(problem.pinned[taken] >= 0, problem.pinned[taken] // unit, -1)
    weight = size[row_of[owner]]
    change = np.zeros(columns + 1, object if float(weight.sum(dtype=np.float64)) >= LIMIT else np.int64)
    np.add.at(change, begin, weight)
    np.subtract.at(change, end, weight)
    load = running_sum(change, weight)[:columns]
    if columns and int(load.max()) > LIMIT // unit:
        fail("over-capacity", f"{int(load.max()) * unit} bytes are live at one time; addresses end at 2**62")

    # sort rows by first column, and their ranges with them
    per_row = np.bincount(row_of[owner], minlength=len(size))
    head = np.concatenate([[0], np.cumsum(per_row)])
    first, last = begin[head[:-1]], end[head[1:] - 1]
    duration = upper[head[1:] - 1].astype(np.float64) - lower[head[:-1]].astype(np.float64)
    order = np.lexsort((last, first))
    per_row = per_row[order]
    range_of = np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64)
    pick = np.repeat(head[:-1][order] - range_of[:-1], per_row) + np.arange(len(owner))
    bound = max(int(load.max()) if columns else 0, int(np.where(pinned >= 0, pinned + size, 0).max(initial=0)))
    return Instance(
        buffer=np.flatnonzero(taken)[order],
        first=first[order],
        last=last[order],
        size=size[order],
        alignment=alignment[order],
        segment=(problem.segment[taken] // unit)[order],
        pinned=pinned[order],
        duration=duration[order],
        range_of=range_of,
        range_first=begin[pick],
        range_last=end[pick],
        start_of=np.searchsorted(first[order], np.arange(columns + 2)),
        load=load.astype(np.int64),
        unit=unit,
        bound=bound,
    )


def ranks(values: I64) -> tuple[I64, I64]:
    """The distinct values, ascending, and the place of each value among them; `np.unique` imports masked arrays."""
    order = np.argsort(values, kind="stable")
    sorted_values = values[order]
    new = np.append(True, sorted_values[1:] != sorted_values[:-1])[: len(values)]
    place = np.empty(len(values), np.int64)
    place[order] = np.cumsum(new) - 1
    return sorted_values[new], place


def _unit(size: I64, alignment: I64, fixed: I64) -> int:
    """The largest u that divides sizes and `fixed` (pins, segments), and divides or is divided by each alignment.

    Least offsets are sums of sizes rounded up to alignments, so all of them are multiples of u.
    """
    unit = math.gcd(int(np.gcd.reduce(size)), int(np.gcd.reduce(fixed))) if len(size) else 1
    aligns = ranks(alignment)[0].tolist()
    while True:
        smaller = unit
        for a in aligns:
            if smaller % a:
                smaller = math.gcd(smaller, a)
        if smaller == unit:
            return max(unit, 1)
        unit = smaller
