"""Where bytes that nothing has written go: they do harm only where they can be seen.

Reading them is no fault. An instruction makes undefined what it writes of them (`spread.py`), the next one that
reads it too, through meetings as well, until defined bytes take their place. The fault is when they reach

    an output    what it holds in the end, of an output or inout (or any other location that is not internal)
    a branch     a condition
    an index     an operand that says which bytes of another are touched
    an effect    an instruction that writes nothing, or a collective: what becomes of them is not known

The accesses are taken in the order of a schedule, and only those that touch undefined bytes: a queue holds the next
access of each location that has some. So the cost is that of what undefined bytes touch.

Two strengths. *Certain*: an access of bytes that are not known takes undefined ones only where all that it may touch
are undefined, and is taken to write all. *Possible*: it takes what it may touch, and overwrites nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from haulout.checker import bytesets
from haulout.checker.model import Model
from haulout.checker.order.sendrecv import Meetings
from haulout.checker.values.byte_flow import NO_BYTES, Runs, total, union, without
from haulout.checker.values.interned import Sets
from haulout.checker.values.operands import Operands
from haulout.ir.enums import NONE, Kind
from haulout.ir.schema import Ids


class Read(NamedTuple):
    """A read of bytes that nothing has written."""

    access: int
    """Of the model."""
    missing: Runs
    certain: bool


class Hop(NamedTuple):
    """How undefined bytes came into a location."""

    location: int
    writer: int
    """The instruction that wrote them there; NONE: they were there from the start."""


class Reach(NamedTuple):
    """What undefined bytes reach."""

    what: str
    """`output`, `branch`, `index`, `effect`, `collective`."""
    instruction: int
    """Who reads them; NONE of an output."""
    hops: tuple[Hop, ...]
    """The locations that they went through, the first is where they were read; the last is the output."""


Way = dict[int, tuple[int, int]]
"""Location -> (instruction that first wrote undefined bytes there, the location that it read them of)."""


def hops_to(came: Way, location: int) -> tuple[Hop, ...]:
    """The way of undefined bytes into a location."""
    found: list[Hop] = []
    passed: set[int] = set()
    while location in came and location not in passed:
        passed.add(location)
        writer, source = came[location]
        found.append(Hop(location, writer))
        location = source
    found.append(Hop(location, NONE))
    return tuple(reversed(found))


class Flow:
    """The flow of undefined bytes through one run."""

    def __init__(self, model: Model, events: Ids, meetings: Meetings) -> None:
        self.model, self.program = model, model.program
        self.owner: Ids = model.owners()[model.location]
        self.sets = Sets()
        self.operands = Operands(model.program, model.owners(), self.sets)
        self.events = events
        self.at = np.empty(len(events), np.int64)
        self.at[events] = np.arange(len(events))
        order = np.argsort(self.owner[events], kind="stable")
        owners, first = np.unique(self.owner[events[order]], return_index=True)
        ends = np.append(first, len(order))
        self.places = {int(owner): order[ends[k] : ends[k + 1]] for k, owner in enumerate(owners)}
        """Owner -> the places of its accesses in the schedule."""
        # The first half of the pairs leads from a sender to its receiver.
        half = len(meetings.arrives) // 2
        senders, receivers = (meetings.instruction[side[:half]] for side in (meetings.arrives, meetings.completes))
        self._meets = set(meetings.instruction.tolist())
        self._receiver = dict(zip(senders.tolist(), receivers.tolist(), strict=True))
        self._sender = dict(zip(receivers.tolist(), senders.tolist(), strict=True))

    def missing(self, owner: int) -> list[Read]:
        """The reads of a location's bytes that nothing has written, in the order of the schedule."""
        size = int(self.program.locations.size[owner])
        whole: Runs = (np.array([0], np.int64), np.array([size], np.int64))
        left, doubted, found = whole, False, []
        for place in self.places[owner].tolist():
            access = int(self.events[place])
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

    def writes(self, instruction: int) -> list[int]:
        """The accesses that get what an instruction has read: its own writes, or those of the core it sends to."""
        if instruction in self._meets:
            instruction = self._receiver.get(instruction, NONE)
            if instruction == NONE:
                return []
        starts = self.model.access_starts
        mine = range(int(starts[instruction]), int(starts[instruction + 1]))
        return [access for access in mine if self.model.write[access]]

    def source(self, instruction: int) -> int:
        """Where what an instruction writes was read: by itself, or by the core that sends it."""
        return self._sender.get(instruction, NONE) if instruction in self._meets else instruction

    def seen(self, access: int) -> str | None:
        """What a read of undefined bytes is at once, whatever comes of it."""
        instruction = int(self.model.instruction[access])
        if self.model.is_branch[instruction]:
            return "branch"
        row = int(self.model.access[access])
        if self.operands.is_index(row):
            return "index"
        if self.operands.opcode(int(self.model.rows[instruction])).collective:
            return "collective"
        starts = self.model.access_starts
        mine = slice(int(starts[instruction]), int(starts[instruction + 1]))
        alone = instruction not in self._meets and not self.model.write[mine].any()
        return "effect" if alone else None


class _Walk:
    """One flow: what is undefined where, as the schedule goes on."""

    def __init__(self, flow: Flow, reads: Sequence[Read], certain: bool) -> None:
        self.flow, self.certain = flow, certain
        self.reads = {read.access: read.missing for read in reads}
        self.state: dict[int, Runs] = {}
        self.came: Way = {}
        self.taken: dict[int, list[tuple[int, Runs]]] = {}
        """Instruction -> the undefined bytes that it has read."""
        self.queue: list[tuple[int, int]] = [(int(flow.at[access]), NONE) for access in self.reads]
        """(Place in the schedule, the location whose next access is asked for, or NONE)."""
        self.followed: set[int] = set()
        """Locations whose next access is in the queue."""
        self.made: dict[tuple[int, int], Runs] = {}
        """(Instruction, location) -> the undefined bytes that it has written there."""

    def run(self) -> Reach | None:
        """Go through the schedule."""
        heapq.heapify(self.queue)
        done = NONE
        while self.queue:
            place, owner = heapq.heappop(self.queue)
            if place != done:
                done = place
                if found := self._happens(int(self.flow.events[place]), place):
                    return found
            if owner != NONE:
                self.followed.discard(owner)
                self._follow(owner, place)
        kind = self.flow.program.locations.kind
        for owner in sorted(self.state):
            if kind[owner] != Kind.INTERNAL:
                return Reach("output", NONE, hops_to(self.came, owner))
        return None

    def _follow(self, owner: int, place: int) -> None:
        """Ask for the next access of a location behind a place, while it holds undefined bytes."""
        if owner not in self.state or owner in self.followed:
            return
        places = self.flow.places[owner]
        after = int(np.searchsorted(places, place, "right"))
        if after < len(places):
            self.followed.add(owner)
            heapq.heappush(self.queue, (int(places[after]), owner))

    def _happens(self, access: int, place: int) -> Reach | None:
        if self.flow.model.write[access]:
            self._write(access, place)
            return None
        return self._read(access)

    def _read(self, access: int) -> Reach | None:
        flow, owner = self.flow, int(self.flow.owner[access])
        row = int(flow.model.access[access])
        some = self.reads.get(access, NO_BYTES)
        if owner in self.state:
            extent = flow.operands.extent(row).runs
            found = flow.sets.made(bytesets.common, self.state[owner], extent)
            if not self.certain or not flow.operands.guess(row) or total(found) == total(extent):
                some = flow.sets.made(union, some, found) if len(some[0]) else found
        if not len(some[0]):
            return None
        instruction = int(flow.model.instruction[access])
        if what := flow.seen(access):
            return Reach(what, instruction, hops_to(self.came, owner))
        self.taken.setdefault(instruction, []).append((access, some))
        for write in flow.writes(instruction):
            heapq.heappush(self.queue, (int(flow.at[write]), NONE))
        return None

    def _write(self, access: int, place: int) -> None:
        flow, owner = self.flow, int(self.flow.owner[access])
        operands, row = flow.operands, int(flow.model.access[access])
        instruction = int(flow.model.instruction[access])
        sources = self.taken.get(flow.source(instruction), ())
        guess, extent = operands.guess(row), operands.extent(row).runs
        before, fresh = self.state.get(owner, NO_BYTES), NO_BYTES
        for source, some in () if guess and self.certain else sources:
            part = operands.spread(int(flow.model.access[source]), some, row)
            if len(part[0]) and not len(before[0]):
                self.came.setdefault(owner, (instruction, int(flow.owner[source])))
            fresh = flow.sets.made(union, fresh, part)
        if sources:
            fresh = flow.sets.made(union, fresh, self.made.get((instruction, owner), NO_BYTES))
            self.made[instruction, owner] = fresh
        left = before if guess and not self.certain else flow.sets.made(without, before, extent)
        state = flow.sets.made(union, left, fresh)
        if len(state[0]):
            self.state[owner] = state
            self._follow(owner, place)
        else:
            self.state.pop(owner, None)
