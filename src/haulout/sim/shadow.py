"""Who wrote what an access finds: a run without numbers.

Beside every byte stands its last writer: an execution of an instruction, or nobody, or what was there before
the run. The reference run leaves, for every access, a hash of the writers that it finds: those whose values a
read sees, and those whose values a write destroys. Another schedule is followed until the first access whose
hash differs. A branch is a read of `cond`; all schedules go where the reference goes.

That is exact. If two accesses that conflict are ordered, they are so in every schedule. If nothing orders
them, some queue's `slowest` schedule inverts them, and then an access finds another writer: let x write
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
from haulout.sim.plan import Plan, Prepared
from haulout.sim.visits import Iteration
from haulout.support.jit import njit, plain_if_small

NOBODY = -1
GIVEN = -2
"""Writers that are no instructions: nothing has been written; it was there before the run."""

LOOK = -3
READS, WRITES = 2, 1
"""Bits of an event's effect, in the columns here."""

_EFFECT_BITS = np.zeros(len(Effect), np.uint8)
_EFFECT_BITS[[Effect.BOTH, Effect.READS, Effect.WRITES, Effect.BRANCHES]] = READS | WRITES, READS, WRITES, READS

PRIME = 2**42 - 11
FACTOR = 2**20 - 3
"""Of the hash: a polynomial modulo a prime, so small that products stay within 63 bits."""


class Instance(NamedTuple):
    """An execution of a row of the code."""

    row: int
    """Of the code (`code.py`): an instruction or a branch. `NOBODY` and `GIVEN` stand for writers that are none."""
    around: Iteration = ()
    """The iterations of the loops around it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first access of a schedule that finds another writer than under the reference."""

    schedule: str
    access: Instance
    """Who reads or overwrites."""
    location: int
    """What: a row of `locations` ..."""
    byte: int
    """... and the first of its bytes that differs."""
    write: bool
    expected: Instance
    """Who has written it under the reference."""
    found: Instance
    """Who has written it under this schedule."""


class Columns(NamedTuple):
    """What the scans below walk: operands with their atoms, and who reads and writes when."""

    starts: Ints
    """Ranges of atoms of operand a: rows `starts[a]:starts[a + 1]`."""
    begin: Ints
    end: Ints
    operand: Ints
    """Of each access that is executed."""
    first: Ints
    """Accesses of item i of the trace: rows `first[i]:last[i]`, those before `middle[i]` are reads."""
    middle: Ints
    last: Ints
    item: Ids
    """Of each event."""
    effect: Bytes
    """Of each event: READS, WRITES or both."""


class Shadow:
    """Shadow runs of one plan; `runs`: about how many there will be."""

    def __init__(self, prepared: Prepared, plan: Plan, runs: int = 1) -> None:
        self.prepared, self.plan = prepared, plan
        self.atoms = prepared.operands.atoms
        code, row = prepared.code, plan.trace.row
        each = code.end - code.begin
        last = np.cumsum(each[row])
        first = last - each[row]
        self.columns = Columns(
            self.atoms.starts,
            self.atoms.begin,
            self.atoms.end,
            self._operands(first, int(last[-1]) if len(last) else 0),
            first,
            first + (code.middle - code.begin)[row],
            last,
            plan.graph.item,
            _EFFECT_BITS[plan.graph.effect],
        )
        atoms = self.atoms.starts[self.columns.operand + 1] - self.atoms.starts[self.columns.operand]
        self._work = runs * (int(atoms.sum()) + len(self.atoms))

    def hashes(self, order: Ids) -> Ints:
        """For each access, a hash of the writers that it finds under an order of the events."""
        found = np.zeros(len(self.columns.operand), np.int64)
        self._scan(order, self._initial(), found, record=True)
        return found

    def first_difference(self, order: Ids, expected: Ints) -> int | None:
        """The step of the order at which an access first finds other writers; None when none does."""
        step = self._scan(order, self._initial(), expected, record=False)
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
            operand = int(self.columns.operand[access])
            atoms = every[self.atoms.of(operand)]
            differing = atoms[before[0][atoms] != before[1][atoms]]
            if len(differing):
                break
        atom = int(differing.min())
        location = int(self.prepared.operands.location[operand])
        byte = self.prepared.layout.byte_of(location, int(self.atoms.cuts[atom]))
        writers = (self._instance(int(writer[atom])) for writer in before)
        return Difference(schedule, self._instance(item), location, byte, access >= middle, *writers)

    def _operands(self, first: Ints, accesses: int) -> Ints:
        """The operand of every access that is executed, where its iteration takes it."""
        code, trace = self.prepared.code, self.plan.trace
        each = (code.end - code.begin)[trace.row]
        result = np.repeat(code.begin[trace.row] - first, each) + np.arange(accesses)
        for access, move in self.prepared.operands.moves.by_access.items():
            row = int(self.prepared.program.accesses.instruction[access])
            items = np.flatnonzero(trace.row == row)
            iterations = trace.visits.iteration[trace.visit[items]]
            result[first[items] + access - code.begin[row]] = self.prepared.operands.moves.operands(move, iterations)
        return np.asarray(result)

    def _writers_before(self, order: Ids, event: int) -> Ids:
        """The shadow memory at the moment at which an event happens."""
        writer = self._initial()
        unused = np.zeros(len(self.columns.operand), np.int64)
        self._scan(order[: int(np.flatnonzero(order == event)[0])], writer, unused, record=True)
        return writer

    def _scan(self, order: Ids, writer: Ids, found: Ints, record: bool) -> int:
        with plain_if_small(_scan_shadow, self._work):
            return int(_scan_shadow(self.columns, order, writer, found, record))

    def _initial(self) -> Ids:
        program, functions = self.prepared.program, self.prepared.functions
        writer = np.full(len(self.atoms), NOBODY, np.int32)
        for row in locations_of_kind(program, functions, Kind.INPUT, Kind.INOUT, Kind.CONST):
            writer[self.atoms.of(self.prepared.operands.whole(row))] = GIVEN
        return writer

    def _instance(self, item: int) -> Instance:
        if item < 0:
            return Instance(item)
        trace = self.plan.trace
        return Instance(int(trace.row[item]), trace.visits.around(int(trace.visit[item])))


@njit
def _scan_shadow(x: Columns, order: Ids, writer: Ids, found: Ints, record: bool) -> int:
    """Let events happen in the shadow; record what every access finds, or compare it: the step that differs."""
    for step in range(len(order)):
        item, effect = x.item[order[step]], x.effect[order[step]]
        first = x.first[item] if effect & READS else x.middle[item]
        last = x.last[item] if effect & WRITES else x.middle[item]
        for access in range(first, last):
            what = _scan_operand(x, x.operand[access], writer, LOOK)
            if record:
                found[access] = what
            elif found[access] != what:
                return step
        for access in range(x.middle[item], last):
            _scan_operand(x, x.operand[access], writer, item)
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
                current, length = int(writer[atom]), 1
    return ((mixed * FACTOR + current - LOOK) % PRIME * FACTOR + length) % PRIME
