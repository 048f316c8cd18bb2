"""Where bytes that nothing has written go: they do harm only where they can be seen.

Reading them is no fault. An instruction makes undefined what it writes of them (`spread.py`), the next one that
reads it too, through meetings as well, until defined bytes take their place. The fault is when they reach

    an output    what it holds in the end, of an output or inout (or any other location that is not internal)
    a branch     a condition
    an index     an operand that says which bytes of another are touched
    an effect    an instruction that writes nothing, or a collective: what becomes of them is not known

The accesses are taken in the order of a schedule, and only those that touch undefined bytes: a queue holds the next
access of each location that has some. What reads lead to a fault is found by trying many at once and halving: flows
do not influence each other, so bytes that reach nothing together reach nothing alone.

Two strengths. *Certain*: an access of bytes that are not known takes undefined ones only where all that it may touch
are undefined, and is taken to write all. *Possible*: it takes what it may touch, and overwrites nothing.

A run through loops and branches is one of many. What reaches nothing in it is followed through the whole function,
in any order (`Everywhere`): to reach something may take more iterations than were looked at, or other arms.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from haulout.check import bytesets
from haulout.check.loops import block_rows
from haulout.check.meetings import Meetings
from haulout.check.model import Model
from haulout.check.operands import Operands
from haulout.check.spread import COLLECTIVES, NO_BYTES, Runs, total, union, without
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
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


def _hops(came: Way, location: int) -> tuple[Hop, ...]:
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
        self.operands = Operands(model.program, model.owners())
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
        if self.operands.opcode(int(self.model.rows[instruction])) in COLLECTIVES:
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
                return Reach("output", NONE, _hops(self.came, owner))
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
            found = bytesets.common(self.state[owner], extent)
            if not self.certain or not flow.operands.guess(row) or total(found) == total(extent):
                some = union(some, found)
        if not len(some[0]):
            return None
        instruction = int(flow.model.instruction[access])
        if what := flow.seen(access):
            return Reach(what, instruction, _hops(self.came, owner))
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
            fresh = union(fresh, part)
        if sources:
            fresh = union(fresh, self.made.get((instruction, owner), NO_BYTES))
            self.made[instruction, owner] = fresh
        left = before if guess and not self.certain else without(before, extent)
        state = union(left, fresh)
        if len(state[0]):
            self.state[owner] = state
            self._follow(owner, place)
        else:
            self.state.pop(owner, None)


# -- the whole function, in any order --------------------------------------------------------------------------------

_MOST_GROWTHS = 8
"""After so many a location is undefined as a whole."""


class Everywhere:
    """The flow through all blocks of a function on all cores, in any order and any number of times."""

    def __init__(self, program: Program, functions: Iterable[int], owner: Ids) -> None:
        functions = list(functions)
        self.program, self.owner = program, owner
        moves = np.zeros(len(program.accesses), bool)
        moves[program.steps.access] = True
        self.operands = Operands(program, owner, moves)
        inside = np.isin(program.instruction_function[program.accesses.instruction], functions)
        inside[np.isin(program.accesses.instruction, program.barriers.instruction)] = False
        rows = np.flatnonzero(inside)
        self.readers: dict[int, list[int]] = {}
        for access in rows[~self.operands.write[rows]].tolist():
            self.readers.setdefault(int(self.operands.owner[access]), []).append(access)
        meets = program.meetings.instruction
        self.meets = meets[np.isin(program.instruction_function[meets], functions)].tolist()
        self.received = [access for row in self.meets for access in self.operands.writes(row)]
        self.conditions = {
            int(owner[program.blocks.cond[block]])
            for function in functions
            for block in block_rows(program, function)
            if program.blocks.cond[block] != NONE
        }

    def reach(self, begin: Sequence[tuple[int, Runs]]) -> Reach | None:
        """What undefined bytes of some locations may reach; its instructions are rows of the program."""
        state: dict[int, Runs] = {}
        for owner, some in begin:
            state[owner] = union(state.get(owner, NO_BYTES), some)
        came: Way = {}
        growths = dict.fromkeys(state, 0)
        waiting = list(state)
        while waiting:
            owner = waiting.pop()
            for access in self.readers.get(owner, ()):
                some = bytesets.common(state[owner], self.operands.extent(access).runs)
                if not len(some[0]):
                    continue
                instruction = int(self.operands.instruction[access])
                if what := self._seen(access):
                    return Reach(what, instruction, _hops(came, owner))
                for target in self._targets(instruction):
                    part = self._spread(access, some, target)
                    grown, writer = int(self.operands.owner[target]), int(self.operands.instruction[target])
                    if not len(part[0]):
                        continue
                    if what := self._is_last(grown):
                        return Reach(what, NONE, (*_hops(came, owner), Hop(grown, writer)))
                    old = state.get(grown, NO_BYTES)
                    new = union(old, part)
                    if total(new) == total(old):
                        continue
                    came.setdefault(grown, (writer, owner))
                    growths[grown] = growths.get(grown, 0) + 1
                    if growths[grown] > _MOST_GROWTHS:
                        end = max(int(self.program.locations.size[grown]), int(new[1][-1]))
                        new = np.zeros(1, np.int64), np.array([end], np.int64)
                    state[grown] = new
                    if grown not in waiting:
                        waiting.append(grown)
        return None

    def _is_last(self, owner: int) -> str | None:
        """Whether undefined bytes of a location are seen, whatever reads them."""
        if owner in self.conditions:
            return "branch"
        return "output" if self.program.locations.kind[owner] != Kind.INTERNAL else None

    def _seen(self, access: int) -> str | None:
        instruction = int(self.operands.instruction[access])
        if self.operands.is_index(access):
            return "index"
        if self.operands.opcode(instruction) in COLLECTIVES:
            return "collective"
        alone = instruction not in self.meets and not self.operands.writes(instruction)
        return "effect" if alone else None

    def _targets(self, instruction: int) -> list[int]:
        """The writes that get what an instruction reads; what one core sends, some other may receive."""
        return self.received if instruction in self.meets else self.operands.writes(instruction)

    def _spread(self, source: int, some: Runs, target: int) -> Runs:
        if self.operands.instruction[source] != self.operands.instruction[target]:
            return self.operands.extent(target).runs
        return self.operands.spread(source, some, target)


# -- which reads do harm ---------------------------------------------------------------------------------------------


class Harm(NamedTuple):
    """A read of bytes that nothing has written, the first of its location that does harm."""

    location: int
    read: Read
    reach: Reach
    certain: bool
    everywhere: bool
    """In the run at hand they reach nothing, but in another they may (`Everywhere`)."""
    times: int
    """Reads of such bytes of this location."""


def find_harm(model: Model, events: Ids, meetings: Meetings, locations: Sequence[int], most: int) -> list[Harm]:
    """For each of some locations the first read that does harm, `most` of them."""
    flow = Flow(model, events, meetings)
    reads = {location: flow.missing(location) for location in locations}
    found = []
    for location in _guilty(list(reads), lambda some: flow.reach(_all(reads, some), False) is not None, most):
        mine = reads[location]
        sure = [each for each in mine if each.certain]
        certain = flow.reach(sure, True) is not None
        mine = sure if certain else mine
        read, reach = _first(mine, partial(flow.reach, certain=certain))
        found.append(Harm(location, read, reach, certain, False, len(mine)))
    if model.unrolled is None or len(found) == most:
        return found
    source = model.unrolled.source
    rows = np.unique(source.instruction_function[model.unrolled.origin[model.unrolled.origin != NONE]])
    everywhere = Everywhere(source, rows.tolist(), model.owners())
    guilty = {each.location for each in found}
    left = [location for location in reads if location not in guilty]

    def spreads(some: Sequence[Read]) -> Reach | None:
        return everywhere.reach([(int(flow.owner[each.access]), each.missing) for each in some])

    for location in _guilty(left, lambda some: spreads(_all(reads, some)) is not None, most - len(found)):
        read, reach = _first(reads[location], spreads)
        found.append(Harm(location, read, reach, False, True, len(reads[location])))
    return found


def _all(reads: dict[int, list[Read]], locations: Iterable[int]) -> list[Read]:
    return [read for location in locations for read in reads[location]]


def _guilty(locations: list[int], is_guilty: Callable[[list[int]], bool], most: int) -> list[int]:
    """Those of some locations that are guilty, at most so many; several are tried at once."""
    if not locations or most <= 0 or not is_guilty(locations):
        return []
    if len(locations) == 1:
        return locations
    half = len(locations) // 2
    found = _guilty(locations[:half], is_guilty, most)
    return found + _guilty(locations[half:], is_guilty, most - len(found))


def _first(reads: Sequence[Read], reach: Callable[[Sequence[Read]], Reach | None]) -> tuple[Read, Reach]:
    """The first of some reads that reaches something, and what; together they do."""
    low, high = 0, len(reads) - 1
    while low < high:
        middle = (low + high) // 2
        if reach(reads[: middle + 1]) is None:
            low = middle + 1
        else:
            high = middle
    found = reach([reads[low]])
    assert found is not None
    return reads[low], found
