"""The flow of undefined bytes: they do harm only where they become visible.

Reading them is not a fault. An instruction makes the bytes undefined that it derives from them (`byte_flow.py`), the
next one that reads those does the same, also through `sendrecv`s, until defined bytes replace them. The fault is when
they reach

    an output    the final bytes of an output or inout (or any other location that is not internal)
    a branch     a condition
    an index     an operand that selects bytes of another operand
    an effect    an instruction that writes nothing, or a collective: its effect is not known

The accesses are taken in the order of a schedule, and only those that touch undefined bytes: a queue has the next
access of each location with undefined bytes. So the cost is that of the accesses that touch undefined bytes.

There are two strengths. *Certain*: an access with unknown bytes takes undefined ones only where all bytes that it may
touch are undefined, and is assumed to write all of them. *Possible*: it takes whatever it may touch, and overwrites
nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from haulout.checker import bytesets
from haulout.checker.columns import positions
from haulout.checker.model import Model
from haulout.checker.order.sendrecv import SendRecvs
from haulout.checker.paths.unroll import BRANCH
from haulout.checker.values.byte_flow import NO_BYTES, Runs, total, union, without
from haulout.checker.values.interned import Sets
from haulout.checker.values.operands import Operands
from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Ids


class Read(NamedTuple):
    """A read of unwritten bytes."""

    access: int
    """Of the model."""
    missing: Runs
    certain: bool


class Hop(NamedTuple):
    """How undefined bytes provenance into a location."""

    location: int
    writer: int
    """The instruction that wrote them there; NONE: the location was never written."""


class Reach(NamedTuple):
    """What undefined bytes reach."""

    what: str
    """`output`, `branch`, `index`, `effect`, `collective`."""
    instruction: int
    """The reader; NONE for an output."""
    hops: tuple[Hop, ...]
    """The locations on their path; the first is where they were read, the last is the output."""


Provenance = dict[int, tuple[int, int]]
"""Location -> (instruction that first wrote undefined bytes there, location that it read them from)."""


def hops_to(provenance: Provenance, location: int) -> tuple[Hop, ...]:
    """The path of undefined bytes into a location."""
    found: list[Hop] = []
    passed: set[int] = set()
    while location in provenance and location not in passed:
        passed.add(location)
        writer, source = provenance[location]
        found.append(Hop(location, writer))
        location = source
    found.append(Hop(location, NONE))
    return tuple(reversed(found))


class Accesses:
    """The accesses of a model: what undefined bytes that they read do, and where these go on."""

    def __init__(self, model: Model, operands: Operands, row: Ids, sendrecvs: SendRecvs) -> None:
        self.model, self.operands = model, operands
        self.row = row
        """Of each access: its row in `operands`; NONE: a branch."""
        self.owner: Ids = model.owners()[model.location]
        self.sender, self.receiver = sendrecvs.partners()
        self.meets = set(sendrecvs.instruction.tolist())

    def writes(self, instruction: int) -> list[int]:
        """The accesses that get what an instruction has read: its own writes, or those of the core it sends to."""
        if instruction in self.meets:
            instruction = self.receiver.get(instruction, NONE)
            if instruction == NONE:
                return []
        starts = self.model.access_starts
        mine = range(int(starts[instruction]), int(starts[instruction + 1]))
        return [access for access in mine if self.model.write[access]]

    def source(self, instruction: int) -> int:
        """The instruction that read what this one writes: itself, or the sender."""
        return self.sender.get(instruction, NONE) if instruction in self.meets else instruction

    def sink(self, access: int) -> str | None:
        """The kind of harm (`Reach.what`) that a read of undefined bytes does by itself; None: none."""
        instruction = int(self.model.instruction[access])
        if self.model.engine[instruction] == BRANCH:
            return "branch"
        starts = self.model.access_starts
        mine = slice(int(starts[instruction]), int(starts[instruction + 1]))
        alone = instruction not in self.meets and not self.model.write[mine].any()
        return self.operands.sink(int(self.row[access]), alone)


class UndefinedBytes:
    """The undefined bytes of each location, as accesses happen one after the other."""

    def __init__(self, accesses: Accesses, reads: Mapping[int, Runs], certain: bool) -> None:
        self.accesses, self.reads, self.certain = accesses, reads, certain
        self.state: dict[int, Runs] = {}
        self.provenance: Provenance = {}
        self.taken: dict[int, list[tuple[int, Runs]]] = {}
        """Instruction -> the undefined bytes that it has read, by access."""
        self.made: dict[tuple[int, int], Runs] = {}
        """(Instruction, location) -> the undefined bytes that it has written there."""

    def read(self, access: int) -> bool:
        """Take the undefined bytes that an access reads; whether there are some."""
        operands = self.accesses.operands
        owner, row = int(self.accesses.owner[access]), int(self.accesses.row[access])
        some = self.reads.get(access, NO_BYTES)
        if owner in self.state:
            found = self.state[owner]
            if row != NONE:
                extent = operands.extent(row).runs
                found = operands.sets.made(bytesets.common, found, extent)
                if self.certain and operands.guess(row) and total(found) != total(extent):
                    found = NO_BYTES
            some = operands.sets.made(union, some, found) if len(some[0]) else found
        if not len(some[0]):
            return False
        self.taken.setdefault(int(self.accesses.model.instruction[access]), []).append((access, some))
        return True

    def write(self, access: int) -> None:
        """Some bytes become undefined, the others of the write are defined."""
        accesses, operands, made = self.accesses, self.accesses.operands, self.accesses.operands.sets.made
        owner, row = int(accesses.owner[access]), int(accesses.row[access])
        instruction = int(accesses.model.instruction[access])
        sources = self.taken.get(accesses.source(instruction), ())
        if owner not in self.state and not sources and (instruction, owner) not in self.made:
            return
        guess = operands.guess(row)
        before, fresh = self.state.get(owner, NO_BYTES), NO_BYTES
        for source, some in () if guess and self.certain else sources:
            part = operands.spread(int(accesses.row[source]), some, row)
            if len(part[0]) and not len(before[0]):
                self.provenance.setdefault(owner, (instruction, int(accesses.owner[source])))
            fresh = made(union, fresh, part)
        if sources:
            fresh = made(union, fresh, self.made.get((instruction, owner), NO_BYTES))
            self.made[instruction, owner] = fresh
        left = before if guess and not self.certain else made(without, before, operands.extent(row).runs)
        state = made(union, left, fresh)
        if len(state[0]):
            self.state[owner] = state
        else:
            self.state.pop(owner, None)


class Flow(Accesses):
    """The flow of undefined bytes through one run."""

    def __init__(self, model: Model, schedule: Ids, sendrecvs: SendRecvs) -> None:
        super().__init__(model, Operands(model.program, model.owners(), Sets()), model.access, sendrecvs)
        self.schedule = schedule
        self.at = positions(schedule, len(schedule))
        order = np.argsort(self.owner[schedule], kind="stable")
        owners, first = np.unique(self.owner[schedule[order]], return_index=True)
        ends = np.append(first, len(order))
        self.places = {int(owner): order[ends[k] : ends[k + 1]] for k, owner in enumerate(owners)}
        """Owner -> the places of its accesses in the schedule."""

    def missing(self, owner: int) -> list[Read]:
        """The reads of unwritten bytes of a location, in the order of the schedule."""
        size = int(self.model.program.locations.size[owner])
        whole: Runs = (np.array([0], np.int64), np.array([size], np.int64))
        left, doubted, found = whole, False, []
        for place in self.places[owner].tolist():
            access = int(self.schedule[place])
            row = int(self.model.access[access])
            extent, guess = self.operands.extent(row).runs, self.operands.guess(row)
            if not self.model.write[access]:
                some = bytesets.common(left, extent)
                if len(some[0]):
                    certain = not doubted and (not guess or total(some) == total(extent))
                    found.append(Read(access, some, certain))
            elif self.operands.is_unknown(row):
                doubted = True
            else:
                left = without(left, extent)
                if not len(left[0]):
                    break
        return found

    def reach(self, reads: Sequence[Read], certain: bool) -> Reach | None:
        """The first thing that the bytes of some reads reach."""
        return _Walk(self, reads, certain).run()


class _Walk(UndefinedBytes):
    """One flow: the undefined bytes of each location along the schedule."""

    def __init__(self, flow: Flow, reads: Sequence[Read], certain: bool) -> None:
        super().__init__(flow, {read.access: read.missing for read in reads}, certain)
        self.flow = flow
        self.queue: list[tuple[int, int]] = [(int(flow.at[access]), NONE) for access in self.reads]
        """(Position in the schedule, location whose next access it is, or NONE)."""
        self.followed: set[int] = set()
        """Locations whose next access is in the queue."""

    def run(self) -> Reach | None:
        """Go through the schedule."""
        heapq.heapify(self.queue)
        done = NONE
        while self.queue:
            place, owner = heapq.heappop(self.queue)
            if place != done:
                done = place
                if found := self._happens(int(self.flow.schedule[place]), place):
                    return found
            if owner != NONE:
                self.followed.discard(owner)
                self._follow(owner, place)
        kind = self.flow.model.program.locations.kind
        for owner in sorted(self.state):
            if kind[owner] != Kind.INTERNAL:
                return Reach("output", NONE, hops_to(self.provenance, owner))
        return None

    def _follow(self, owner: int, place: int) -> None:
        """Queue the next access of a location, while it has undefined bytes."""
        if owner not in self.state or owner in self.followed:
            return
        places = self.flow.places[owner]
        after = int(np.searchsorted(places, place, "right"))
        if after < len(places):
            self.followed.add(owner)
            heapq.heappush(self.queue, (int(places[after]), owner))

    def _happens(self, access: int, place: int) -> Reach | None:
        flow, owner = self.flow, int(self.flow.owner[access])
        if flow.model.write[access]:
            self.write(access)
            self._follow(owner, place)
            return None
        if not self.read(access):
            return None
        instruction = int(flow.model.instruction[access])
        if what := flow.sink(access):
            return Reach(what, instruction, hops_to(self.provenance, owner))
        for write in flow.writes(instruction):
            heapq.heappush(self.queue, (int(flow.at[write]), NONE))
        return None
