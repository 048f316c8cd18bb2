"""Who wrote what an access finds: a run without numbers.

Beside every byte stands its last writer: an instruction, or nobody, or what was there before the run. The
reference run leaves, for every operand, a hash of the writers that it finds, in the order of its bytes: those
whose values a read sees, and those whose values a write destroys. Another schedule is followed until the
first operand whose hash differs.

That is exact. If two accesses that conflict are ordered, they are so in every schedule. If nothing orders
them, some queue's `slowest` schedule inverts them, and then an operand finds another writer: let x write
before y touches the same byte in one run, and after it in the other. Of the writers that follow x in the
first run, or y itself, the first one finds x there; in the other run it cannot, since x comes after y. Reads
alone would not do: a third writer may hide the inversion from every reader that the schedules at hand show.

Bytes that are never told apart share a shadow cell: the granule is the greatest common divisor of everything
that offsets, strides and runs are made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Bytes, Ids, Ints
from haulout.sim.events import Effect
from haulout.sim.inputs import locations_of_kind
from haulout.sim.regions import Regions
from haulout.sim.run import Prepared
from haulout.support.jit import njit

NOBODY = -1
GIVEN = -2
"""Writers that are no instructions: nothing has been written; it was there before the run."""

LOOK = -3
READS, WRITES = 2, 1
"""Bits of an event's effect, in the columns here."""

_EFFECT_BITS = np.zeros(len(Effect), np.uint8)
_EFFECT_BITS[[Effect.BOTH, Effect.READS, Effect.WRITES]] = READS | WRITES, READS, WRITES

PRIME = 2**42 - 11
FACTOR = 2**20 - 3
"""Of the hash: a polynomial modulo a prime, so small that products stay within 63 bits."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first access of a schedule that finds another writer than under the reference."""

    schedule: str
    access: int
    """Row of `accesses`."""
    byte: int
    """The first byte that differs, counted in the order of the operand's bytes."""
    expected: int
    """Who has written it under the reference: a row of `instructions`, `NOBODY` or `GIVEN`."""
    found: int
    """Who has written it under this schedule."""


class Columns(NamedTuple):
    """What the scans below walk: operands with their regions, and who reads and writes when."""

    starts: Ints
    """Regions of operand a: rows `starts[a]:starts[a + 1]`."""
    offset: Ints
    run: Ints
    dim_begin: Ints
    dim_end: Ints
    stride: Ints
    times: Ints
    first: Ints
    """Operands of item i of the trace: rows `first[i]:last[i]`, those before `middle[i]` are reads."""
    middle: Ints
    last: Ints
    item: Ids
    """Of each event."""
    effect: Bytes
    """Of each event: READS, WRITES or both."""
    depth: int
    """Dims of the deepest pattern."""


class Shadow:
    """Shadow runs of one prepared program."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        program, trace, graph = prepared.program, prepared.trace, prepared.graph
        self.granule = _granule(prepared.regions, prepared.wholes)
        self._cells = prepared.layout.size // self.granule + 1
        begin, end = (program.access_starts[trace.instruction + after] for after in (0, 1))
        reads = np.append(0, np.cumsum(~program.accesses.write))
        self.columns = Columns(
            *_in_cells(prepared.regions, self.granule),
            begin,
            begin + reads[end] - reads[begin],
            end,
            graph.item,
            _EFFECT_BITS[graph.effect],
            _depth(prepared.regions),
        )

    def hashes(self, order: Ids) -> Ints:
        """For each operand, a hash of the writers that it finds under an order of the events."""
        found = np.zeros(len(self.columns.starts) - 1, np.int64)
        _scan_shadow(self.columns, order, self._initial(), found, True)
        return found

    def first_difference(self, order: Ids, expected: Ints) -> int | None:
        """The step of the order at which an operand first finds other writers; None when none does."""
        step = int(_scan_shadow(self.columns, order, self._initial(), expected, False))
        return None if step < 0 else step

    def difference(self, schedule: str, reference: Ids, order: Ids, step: int) -> Difference:
        """What exactly differs at that step."""
        event = int(order[step])
        item, effect = int(self.columns.item[event]), int(self.columns.effect[event])
        middle = int(self.columns.middle[item])
        first = int(self.columns.first[item]) if effect & READS else middle
        last = int(self.columns.last[item]) if effect & WRITES else middle
        before = [self._writers_before(each, event) for each in (reference, order)]
        for access in range(first, last):
            cells = self._cells_of(access)
            differs = np.flatnonzero(before[0][cells] != before[1][cells])
            if len(differs):
                break
        writers = [self._instruction(int(writer[cells[differs[0]]])) for writer in before]
        return Difference(schedule, access, int(differs[0]) * self.granule, *writers)

    def _writers_before(self, order: Ids, event: int) -> Ids:
        """The shadow memory at the moment at which an event happens."""
        writer = self._initial()
        unused = np.zeros(len(self.columns.starts) - 1, np.int64)
        _scan_shadow(self.columns, order[: int(np.flatnonzero(order == event)[0])], writer, unused, True)
        return writer

    def _initial(self) -> Ids:
        program, trace = self.prepared.program, self.prepared.trace
        writer = np.full(self._cells, NOBODY, np.int32)
        for row in locations_of_kind(program, trace.functions, Kind.INPUT, Kind.INOUT, Kind.CONST):
            for pattern in self.prepared.wholes.patterns(row):
                writer[pattern.bytes() // self.granule] = GIVEN
        return writer

    def _cells_of(self, access: int) -> Ints:
        """Cells of an operand in the order of its bytes."""
        at = np.concatenate([pattern.bytes() for pattern in self.prepared.regions.patterns(access)])
        return at[:: self.granule] // self.granule

    def _instruction(self, writer: int) -> int:
        return writer if writer < 0 else int(self.prepared.trace.instruction[writer])


def _granule(*each: Regions) -> int:
    """Bytes that are never told apart."""
    numbers = [
        column
        for regions in each
        for column in (regions.offset[regions.run != NONE], regions.run[regions.run != NONE], regions.stride)
    ]
    return max(1, int(np.gcd.reduce(np.concatenate(numbers), initial=0)))


def _in_cells(regions: Regions, granule: int) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints]:
    """The columns of regions, measured in cells."""
    return (
        regions.starts,
        regions.offset // granule,
        regions.run // granule,
        regions.dim_begin,
        regions.dim_end,
        regions.stride // granule,
        regions.count,
    )


def _depth(regions: Regions) -> int:
    return int((regions.dim_end - regions.dim_begin).max(initial=0))


@njit
def _scan_shadow(x: Columns, order: Ids, writer: Ids, found: Ints, record: bool) -> int:
    """Let events happen in the shadow; record what every operand finds, or compare it: the step that differs."""
    for step in range(len(order)):
        item, effect = x.item[order[step]], x.effect[order[step]]
        first = x.first[item] if effect & READS else x.middle[item]
        last = x.last[item] if effect & WRITES else x.middle[item]
        for operand in range(first, last):
            what = _scan_operand(x, operand, writer, LOOK)
            if record:
                found[operand] = what
            elif found[operand] != what:
                return step
        for operand in range(x.middle[item], last):
            _scan_operand(x, operand, writer, item)
    return -1


@njit
def _scan_operand(x: Columns, operand: int, writer: Ids, who: int) -> int:
    """Make `who` the writer of all cells of an operand; or, with LOOK, hash their writers, run by run."""
    index = np.zeros(x.depth, np.int64)
    mixed, current, length = 1, LOOK, 0
    for region in range(x.starts[operand], x.starts[operand + 1]):
        at, run = x.offset[region], x.run[region]
        begin, end = x.dim_begin[region], x.dim_end[region]
        index[: end - begin] = 0
        dim = begin
        while dim >= begin:
            if who != LOOK:
                writer[at : at + run] = who
            else:
                for cell in range(at, at + run):
                    if writer[cell] == current:
                        length += 1
                    else:
                        mixed = ((mixed * FACTOR + current - LOOK) % PRIME * FACTOR + length) % PRIME
                        current, length = writer[cell], 1
            # The next place of the run: an odometer whose last dim turns fastest.
            dim = end - 1
            while dim >= begin:
                at += x.stride[dim]
                index[dim - begin] += 1
                if index[dim - begin] < x.times[dim]:
                    break
                at -= x.stride[dim] * x.times[dim]
                index[dim - begin] = 0
                dim -= 1
    return ((mixed * FACTOR + current - LOOK) % PRIME * FACTOR + length) % PRIME
