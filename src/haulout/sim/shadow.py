"""Shadow memory: the last writer of each byte that an access finds, in a run without values.

The shadow of a byte is its last writer: an execution of an instruction, nothing, or the initial contents. The
reference run records, for every access, a hash of the writers that it finds: for a read, those whose values it sees;
for a write, those whose values it destroys. Another schedule is followed until the first access whose hash differs. A
branch is a read of `cond`; all schedules take the branches as the reference does.

The comparison is exact. Ordered accesses have the same order in every schedule. If nothing orders two conflicting
accesses, some queue's `slowest` schedule inverts them, and then an access finds another writer: let x write before y
touches the same byte in one run, and after it in the other. In the first run, the first of the writers after x, or y
itself, finds x there; in the other run it cannot, since x comes after y. Reads alone would not suffice: a third
writer may hide the inversion from every reader.

Atomic accesses of one kind (`ir/atomics.py`) commute: the bytes are the same in every order. Such an access finds the
contents from before the first of them, and the last writer is then a *group*: those contents, the kind, and the sum
of a number for each of its members, in any order. Any other access finds that group.

Writes of equal bytes may be such a kind, too (`equal_writes.py`).

The bytes of an atom share a shadow (`atoms.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.ir.atomics import find_atomics
from haulout.ir.enums import Kind
from haulout.ir.schema import Bytes, Ids, Ints
from haulout.sim.events.graph import Effect
from haulout.sim.flow.visits import Iteration
from haulout.sim.inputs import locations_of_kind
from haulout.sim.plan import Plan, Prepared
from haulout.support.jit import interpreted, njit, plain_if_small

UNWRITTEN = -1
GIVEN = -2
"""Writers that are not instructions: nothing was written; the initial contents."""

LOOK = -3
READS, WRITES = 2, 1
"""Bits of an event's effect, in the columns here."""

_EFFECT_BITS = np.zeros(len(Effect), np.uint8)
_EFFECT_BITS[[Effect.BOTH, Effect.READS, Effect.WRITES, Effect.BRANCHES]] = READS | WRITES, READS, WRITES, READS

PRIME = 2**42 - 11
FACTOR = 2**20 - 3
"""Of the hash: a polynomial modulo a prime, small enough for products of 63 bits."""

WRITER, BELOW, KIND, MEMBERS = range(4)
"""Columns of the shadow, of each atom: the last writer; of a group, the contents before it, its kind (0: no group)
and the sum of its members.
"""


class Instance(NamedTuple):
    """An execution of a row of the code."""

    row: int
    """Of the code (`code.py`): an instruction or a branch. `UNWRITTEN` and `GIVEN` are writers that are not rows."""
    around: Iteration = ()
    """The iterations of the loops around it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first access of a schedule that finds another writer than under the reference."""

    schedule: str
    access: Instance
    """The one that reads or overwrites."""
    location: int
    byte: int
    """The first byte of the location that differs."""
    write: bool
    expected: Instance
    """The last writer under the reference."""
    found: Instance
    """The last writer under this schedule."""


class Columns(NamedTuple):
    """The input of the scans below: operands with their atoms, accesses and events."""

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
    kind: Ids
    """Of each access that is executed: its kind when it is atomic, else 0."""


class Shadow:
    """Shadow runs of one plan; `runs`: about how many there will be."""

    def __init__(self, prepared: Prepared, plan: Plan, runs: int = 1) -> None:
        self.prepared, self.plan = prepared, plan
        self.atoms = prepared.operands.atoms
        code, row = prepared.code, plan.trace.row
        each = code.end - code.begin
        last = np.cumsum(each[row])
        first = last - each[row]
        operand = self._operands(first, int(last[-1]) if len(last) else 0)
        self.columns = Columns(
            self.atoms.starts,
            self.atoms.begin,
            self.atoms.end,
            operand,
            first,
            first + (code.middle - code.begin)[row],
            last,
            plan.graph.item,
            _EFFECT_BITS[plan.graph.effect],
            self._atomic()[operand],
        )
        atoms = self.atoms.starts[self.columns.operand + 1] - self.atoms.starts[self.columns.operand]
        self._work = runs * (int(atoms.sum()) + len(self.atoms))

    def hashes(self, order: Ids) -> Ints:
        """For each access, a hash of the writers that it finds under an order of the events."""
        found = np.zeros(len(self.columns.operand), np.int64)
        self._scan(order, self._initial(), found, record=True)
        return found

    def with_kinds(self, kind: Ids) -> None:
        """Let other accesses commute: the kind of each that is executed."""
        self.columns = self.columns._replace(kind=kind)

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
            kind = int(self.columns.kind[access])
            atoms = every[self.atoms.of(operand)]
            with interpreted():
                found = [[_scan_found(shadow, atom, kind) for atom in atoms.tolist()] for shadow in before]
            differing = atoms[np.array(found[0], np.int64) != np.array(found[1], np.int64)]
            if len(differing):
                break
        atom = int(differing.min())
        location = int(self.prepared.operands.location[operand])
        byte = self.prepared.layout.byte_of(location, int(self.atoms.cuts[atom]))
        writers = [int(shadow[atom, WRITER]) for shadow in before]
        if writers[0] == writers[1]:
            # The last of a group is the same, another member is not.
            writers = self._members(atom, event, reference, order, writers[0])
        expected, found_ = (self._instance(writer) for writer in writers)
        return Difference(schedule, self._instance(item), location, byte, access >= middle, expected, found_)

    def _members(self, atom: int, event: int, reference: Ids, order: Ids, last: int) -> list[int]:
        """A writer of an atom that precedes an event in only one of two orders, and `last` for the other order."""
        before = [set(each[: int(np.flatnonzero(each == event)[0])].tolist()) for each in (reference, order)]
        for other in sorted(before[0] ^ before[1]):
            item = int(self.columns.item[other])
            if not int(self.columns.effect[other]) & WRITES:
                continue
            for access in range(int(self.columns.middle[item]), int(self.columns.last[item])):
                rows = range(*self.atoms.starts[self.columns.operand[access] :][:2].tolist())
                if any(self.atoms.begin[row] <= atom < self.atoms.end[row] for row in rows):
                    return [item, last] if other in before[0] else [last, item]
        return [last, last]

    def _atomic(self) -> Ids:
        """The kind of every operand."""
        operands = self.prepared.operands
        kind = np.zeros(len(self.atoms.starts) - 1, np.int32)
        accesses = find_atomics(self.prepared.program).kind
        kind[: len(accesses)] = accesses
        for access, strided in operands.strided.by_access.items():
            kind[strided.first : strided.first + len(strided.shifts)] = accesses[access]
        return kind

    def _operands(self, first: Ints, accesses: int) -> Ints:
        """The operand of every access that is executed, where its iteration takes it."""
        code, trace = self.prepared.code, self.plan.trace
        each = (code.end - code.begin)[trace.row]
        result = np.repeat(code.begin[trace.row] - first, each) + np.arange(accesses)
        for access, strided in self.prepared.operands.strided.by_access.items():
            row = int(self.prepared.program.accesses.instruction[access])
            items = np.flatnonzero(trace.row == row)
            iterations = trace.visits.iteration[trace.visit[items]]
            result[first[items] + access - code.begin[row]] = self.prepared.operands.strided.operands(
                strided, iterations
            )
        return np.asarray(result)

    def _writers_before(self, order: Ids, event: int) -> Ints:
        """The shadow memory at the moment at which an event happens."""
        writer = self._initial()
        unused = np.zeros(len(self.columns.operand), np.int64)
        self._scan(order[: int(np.flatnonzero(order == event)[0])], writer, unused, record=True)
        return writer

    def _scan(self, order: Ids, shadow: Ints, found: Ints, record: bool) -> int:
        with plain_if_small(_scan_shadow, self._work):
            return int(_scan_shadow(self.columns, order, shadow, found, record))

    def _initial(self) -> Ints:
        program, functions = self.prepared.program, self.prepared.functions
        shadow = np.zeros((len(self.atoms), 4), np.int64)
        shadow[:, WRITER] = UNWRITTEN
        for row in locations_of_kind(program, functions, Kind.INPUT, Kind.INOUT, Kind.CONST):
            shadow[self.atoms.of(self.prepared.operands.whole(row)), WRITER] = GIVEN
        return shadow

    def _instance(self, item: int) -> Instance:
        if item < 0:
            return Instance(item)
        trace = self.plan.trace
        return Instance(int(trace.row[item]), trace.visits.around(int(trace.visit[item])))


@njit
def _scan_shadow(x: Columns, order: Ids, shadow: Ints, found: Ints, record: bool) -> int:
    """Let events happen in the shadow; record what every access finds, or compare it: the step that differs."""
    for step in range(len(order)):
        item, effect = x.item[order[step]], x.effect[order[step]]
        first = x.first[item] if effect & READS else x.middle[item]
        last = x.last[item] if effect & WRITES else x.middle[item]
        for access in range(first, last):
            what = _scan_operand(x, x.operand[access], shadow, LOOK, x.kind[access])
            if record:
                found[access] = what
            elif found[access] != what:
                return step
        for access in range(x.middle[item], last):
            _scan_operand(x, x.operand[access], shadow, item, x.kind[access])
    return -1


@njit
def _scan_operand(x: Columns, operand: int, shadow: Ints, who: int, kind: int) -> int:
    """Make `who` the writer of all atoms of an operand; or, with LOOK, hash their writers, run by run."""
    mixed, current, length = 1, LOOK, 0
    for row in range(x.starts[operand], x.starts[operand + 1]):
        for atom in range(x.begin[row], x.end[row]):
            if who != LOOK:
                if kind > 0:
                    if shadow[atom, KIND] != kind:
                        shadow[atom, BELOW] = _scan_found(shadow, atom, kind)
                        shadow[atom, MEMBERS] = 0
                    shadow[atom, MEMBERS] = (shadow[atom, MEMBERS] + _scan_number(who)) % PRIME
                shadow[atom, KIND] = kind
                shadow[atom, WRITER] = who
                continue
            writer = _scan_found(shadow, atom, kind)
            if writer == current:
                length += 1
            else:
                mixed = ((mixed * FACTOR + current - LOOK) % PRIME * FACTOR + length) % PRIME
                current, length = int(writer), 1
    return ((mixed * FACTOR + current - LOOK) % PRIME * FACTOR + length) % PRIME


@njit
def _scan_found(shadow: Ints, atom: int, kind: int) -> int:
    """What an access finds at an atom; `kind`: 0, or the kind of atomics that it is one of."""
    if shadow[atom, KIND] == 0:
        return int(shadow[atom, WRITER])
    if shadow[atom, KIND] == kind:
        return int(shadow[atom, BELOW])
    mixed = (int(shadow[atom, BELOW]) - LOOK) % PRIME
    mixed = (mixed * FACTOR + int(shadow[atom, KIND])) % PRIME
    return (mixed * FACTOR + int(shadow[atom, MEMBERS])) % PRIME


@njit
def _scan_number(item: int) -> int:
    """A number for an item; sums of these distinguish sets of items."""
    mixed = (int(item) + 1) * FACTOR % PRIME
    for _ in range(2):
        mixed = ((mixed ^ mixed >> 17) * FACTOR + 1) % PRIME
    return mixed
