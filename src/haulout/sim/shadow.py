"""Who wrote what an access finds: a run without numbers.

Beside every byte stands its last writer: an instruction, or nobody, or what was there before the run. The
reference run leaves, for every operand, a hash of the writers that it finds: those whose values a read sees,
and those whose values a write destroys. Another schedule is followed until the first operand whose hash
differs.

That is exact. If two accesses that conflict are ordered, they are so in every schedule. If nothing orders
them, some queue's `slowest` schedule inverts them, and then an operand finds another writer: let x write
before y touches the same byte in one run, and after it in the other. Of the writers that follow x in the
first run, or y itself, the first one finds x there; in the other run it cannot, since x comes after y. Reads
alone would not do: a third writer may hide the inversion from every reader that the schedules at hand show.

Bytes that are never told apart share a shadow (atoms.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.ir.enums import Kind
from haulout.ir.schema import Bytes, Ids, Ints
from haulout.sim.events import Effect
from haulout.sim.inputs import locations_of_kind
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
    """The first byte of the location that differs."""
    expected: int
    """Who has written it under the reference: a row of `instructions`, `NOBODY` or `GIVEN`."""
    found: int
    """Who has written it under this schedule."""


class Columns(NamedTuple):
    """What the scans below walk: operands with their atoms, and who reads and writes when."""

    starts: Ints
    """Ranges of atoms of operand a: rows `starts[a]:starts[a + 1]`."""
    begin: Ints
    end: Ints
    first: Ints
    """Operands of item i of the trace: rows `first[i]:last[i]`, those before `middle[i]` are reads."""
    middle: Ints
    last: Ints
    item: Ids
    """Of each event."""
    effect: Bytes
    """Of each event: READS, WRITES or both."""


class Shadow:
    """Shadow runs of one prepared program."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        program, trace, graph = prepared.program, prepared.trace, prepared.graph
        self.atoms = prepared.operands.atoms
        begin, end = (program.access_starts[trace.instruction + after] for after in (0, 1))
        self.columns = Columns(
            self.atoms.starts,
            self.atoms.begin,
            self.atoms.end,
            begin,
            prepared.operands.middle[trace.instruction],
            end,
            graph.item,
            _EFFECT_BITS[graph.effect],
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
        every = np.arange(len(self.atoms))
        for access in range(first, last):
            atoms = every[self.atoms.of(access)]
            differing = atoms[before[0][atoms] != before[1][atoms]]
            if len(differing):
                break
        atom = int(differing.min())
        location = int(self.prepared.program.accesses.location[access])
        byte = self.prepared.layout.byte_of(location, int(self.atoms.cuts[atom]))
        return Difference(schedule, access, byte, *(self._instruction(int(writer[atom])) for writer in before))

    def _writers_before(self, order: Ids, event: int) -> Ids:
        """The shadow memory at the moment at which an event happens."""
        writer = self._initial()
        unused = np.zeros(len(self.columns.starts) - 1, np.int64)
        _scan_shadow(self.columns, order[: int(np.flatnonzero(order == event)[0])], writer, unused, True)
        return writer

    def _initial(self) -> Ids:
        program, trace = self.prepared.program, self.prepared.trace
        writer = np.full(len(self.atoms), NOBODY, np.int32)
        for row in locations_of_kind(program, trace.functions, Kind.INPUT, Kind.INOUT, Kind.CONST):
            writer[self.atoms.of(self.prepared.operands.whole(row))] = GIVEN
        return writer

    def _instruction(self, writer: int) -> int:
        return writer if writer < 0 else int(self.prepared.trace.instruction[writer])


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
    """Make `who` the writer of all atoms of an operand; or, with LOOK, hash their writers, run by run."""
    mixed, current, length = 1, LOOK, 0
    for row in range(x.starts[operand], x.starts[operand + 1]):
        for atom in range(x.begin[row], x.end[row]):
            if who != LOOK:
                writer[atom] = who
            elif writer[atom] == current:
                length += 1
            else:
                mixed = ((mixed * FACTOR + current - LOOK) % PRIME * FACTOR + length) % PRIME
                current, length = writer[atom], 1
    return ((mixed * FACTOR + current - LOOK) % PRIME * FACTOR + length) % PRIME
