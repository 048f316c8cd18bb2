"""A function with loops and forks as one text: every block once, and the steps in which it is walked.

The *text* is a model of the function in which each block is executed once, both arms of a fork one after the other:
no run does that. It gives accesses, storage and branches their columns. What an instruction does at one time is an
*event*: an instruction is one, a `sendrecv` two, its arrival (with its reads) and its completion (with its writes).
Events are numbered core after core in list order. A *line* is a queue of the model; the events of a line have
positions in list order, so the events of a line in some blocks are an interval of positions.

The *schedule* lists the events of all cores block by block, so that each comes after all that it waits for in its
block. Where a block has such an order of the cores' lists, no run can deadlock in it, and in every run the first of
two ordered accesses of one iteration comes first in the schedule. The arms of a divergent fork, in which cores do not
meet, are listed core after core.

The *steps* are the structure as a list, for kernels: events, and where forks and loops begin and end. Where cores
choose for themselves, the steps of one core come after those of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.checker.columns import grouped, occurrence
from haulout.checker.flow.refusal import Refusal
from haulout.checker.model import Model, Runs
from haulout.checker.order.barriers import Barriers, check_barriers, find_barriers
from haulout.checker.order.sendrecv import SendRecvs, find_sendrecvs
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.ir.semaphores import semaphore_use
from haulout.ir.structure import Fork, Loop, Structure
from haulout.support.jit import njit

EVENTS, FORK, ELSE, JOIN, LOOP, LATCH, EXIT = range(7)
"""Kinds of steps."""


@dataclass(slots=True)
class Events:
    """Columns over events."""

    instruction: Ids
    completes: Bools
    """It is the completion of a `sendrecv`."""
    line: Ids
    core: Ids
    block: Ids
    """In the function."""
    position: Ids
    """On its line."""
    first: Ids
    """Instruction -> its first event."""
    last: Ids
    """Instruction -> its last event."""


class Operations(NamedTuple):
    """What events do to semaphores; a semaphore is a core and a name, numbered densely."""

    signal: Ids
    signal_to: Ids
    """Of each signal: the semaphore that it adds to ..."""
    signal_by: Ids
    """... and the one of that name of its own core."""
    amount: Ints
    wait: Ids
    wait_for: Ids
    value: Ints
    back: Bools
    core_of: Ids
    """Semaphore -> its core."""
    foreign: Bools
    """Semaphore -> another core signals it."""

    @property
    def semaphores(self) -> int:
        """How many there are."""
        return len(self.core_of)


@dataclass(slots=True)
class Text:
    """A function, ready to be walked."""

    runs: Runs
    model: Model
    events: Events
    barriers: Barriers
    sendrecvs: SendRecvs
    operations: Operations
    places: Column
    """int32 [line, block]: the position of the first event of the line in that block or a later one."""
    schedule: Ids
    """Events, block after block; of a barrier all its events."""
    steps: Column
    """int32 [step, 4]: the kind, and (first, end) in `schedule`, or (number, core or NONE) of a fork or loop."""
    loops: Column
    """int32 [number, 4]: begin, end, trip count and core of each loop of the steps; NONE: unknown, all cores."""
    forks: Column
    """int32 [number, 4]: begin, middle, join and core of each fork of the steps."""


def find_text(runs: Runs) -> Text | Refusal:
    """The text of a function, unless it has meetings that depend on what cores choose for themselves, meetings do not
    agree block by block, or no order of the lists of a block is a schedule.
    """
    structure = runs.flow.structure
    model = runs.text()
    assert model.unrolled is not None
    blocks = len(structure.region_of)
    block_of = model.unrolled.execution[model.rows]
    barriers, sendrecvs = find_barriers(model), find_sendrecvs(model)
    events = _events(model, sendrecvs, block_of)
    divergent = np.array([structure.divergent_fork(block) != NONE for block in range(blocks)], bool)
    meet, members = _meetings(barriers, len(events.line), events)
    exchange = events.last[sendrecvs.instruction]
    meeting = np.sort(np.append(np.flatnonzero(meet != NONE), exchange))
    if len(apart := meeting[divergent[events.block[meeting]]]):
        return refused(model, events, int(apart[0]), "is in an arm that each core chooses for itself")
    if len(sendrecvs.unpaired):
        return refused(model, events, int(exchange[sendrecvs.unpaired[0]]), "has no partner in the text")
    if check_barriers(model, barriers):
        return Refusal("the barriers of the cores differ, with both arms of each branch counted")
    sides = [exchange[rows] for rows in (sendrecvs.arrives, sendrecvs.completes)]
    if len(elsewhere := np.flatnonzero(events.block[sides[0]] != events.block[sides[1]])):
        return refused(model, events, int(sides[0][elsewhere[0]]), "has its partner in another block")
    if (event := _in_two_blocks(events, meet, members)) != NONE:
        return refused(model, events, event, "meets barriers of another block")
    begin = _begins(events, model.cores, blocks)
    starts, arrival = grouped(sides[1], len(events.line))
    arrivals = events.first[sendrecvs.instruction[sendrecvs.arrives]][arrival].astype(np.int32)
    # Meetings touch nothing: they stand where the other instructions want them.
    seq = np.where(meet == NONE, model.program.instructions.seq[model.rows][events.instruction], NONE)
    operations = _operations(model, events, _ever_runs(structure)[events.block])
    counted = _Counted.of(operations, len(events.line))
    schedule = _scan_schedule(begin, seq, meet, members, starts, arrivals, divergent, counted)
    if len(schedule) < len(events.line):
        block = int(np.searchsorted((begin - begin[:, :1]).sum(axis=0), len(schedule), "right")) - 1
        return Refusal("no order of the cores' lists satisfies all meetings and waits of the block", block)
    places = _places(events, len(model.queue_core), blocks)
    steps = _Steps(runs, begin)
    return Text(
        runs,
        model,
        events,
        barriers,
        sendrecvs,
        operations,
        places,
        schedule,
        np.array(steps.rows, np.int32).reshape(-1, 4),
        np.array(steps.loops, np.int32).reshape(-1, 4),
        np.array(steps.forks, np.int32).reshape(-1, 4),
    )


def refused(model: Model, events: Events, event: int, why: str) -> Refusal:
    """That something is so of the instruction of an event."""
    assert model.unrolled is not None
    instruction = int(events.instruction[event])
    row = int(model.unrolled.origin[model.rows[instruction]])
    text = f"{model.name(instruction)} on core {model.core[instruction]} {why}"
    return Refusal(text, int(events.block[event]), row)


def _events(model: Model, sendrecvs: SendRecvs, block_of: Ids) -> Events:
    size = np.ones(len(model.rows), np.int64)
    size[sendrecvs.instruction] = 2
    first = np.cumsum(size) - size
    instruction = np.repeat(np.arange(len(size), dtype=np.int32), size)
    line = model.queue[instruction]
    return Events(
        instruction=instruction,
        completes=np.arange(len(instruction)) > first[instruction],
        line=line,
        core=model.core[instruction],
        block=block_of[instruction].astype(np.int32),
        position=occurrence(line).astype(np.int32),
        first=first.astype(np.int32),
        last=(first + size - 1).astype(np.int32),
    )


def _meetings(barriers: Barriers, count: int, events: Events) -> tuple[Ids, Ids]:
    """Of each event the number of its barrier, NONE: it is none; and how many events each barrier has."""
    meet = np.full(count, NONE, np.int32)
    key = barriers.chain.astype(np.int64) * (len(barriers.index) + 1) + barriers.index
    _, number, members = np.unique(key, return_inverse=True, return_counts=True)
    meet[events.first[barriers.instruction]] = number
    return meet, members.astype(np.int32)


def _in_two_blocks(events: Events, meet: Ids, members: Ids) -> int:
    """An event of a barrier whose events are in several blocks, NONE: there is none."""
    rows = np.flatnonzero(meet != NONE)
    low = np.full(len(members), np.iinfo(np.int32).max, np.int32)
    np.minimum.at(low, meet[rows], events.block[rows])
    later = rows[events.block[rows] != low[meet[rows]]]
    return int(later[0]) if len(later) else NONE


def _begins(events: Events, cores: int, blocks: int) -> Column:
    """int64 [core, block]: the first event of a core in that block or a later one."""
    key = events.core.astype(np.int64) * blocks + events.block
    wanted = np.arange(cores)[:, None] * blocks + np.arange(blocks + 1)
    return np.searchsorted(key, wanted)


def _places(events: Events, lines: int, blocks: int) -> Column:
    key = np.sort(events.line.astype(np.int64) * blocks + events.block)
    wanted = np.arange(lines)[:, None] * blocks + np.arange(blocks + 1)
    found = np.searchsorted(key, wanted)
    return (found - found[:, :1]).astype(np.int32)


def _ever_runs(structure: Structure) -> Bools:
    """Which blocks are in no body of a loop of trip count 0."""
    dead = structure.descend(
        False, lambda outer, number, region: outer or (isinstance(region, Loop) and region.trip == 0)
    )
    found = []
    for block, number in enumerate(structure.region_of):
        at = structure.regions[number].parent if block in structure.loop_at else number
        found.append(not dead[at])
    return np.array(found, bool)


def _operations(model: Model, events: Events, live: Bools) -> Operations:
    use = semaphore_use(model.program)
    names = np.int64(max(len(use.names), 1))
    made, needed = (model.local[part.instruction] for part in (use.signals, use.waits))
    signals = np.flatnonzero((made != NONE) & live[events.last[made]])
    waits = np.flatnonzero((needed != NONE) & live[events.first[needed]])
    made, needed = made[signals], needed[waits]
    name = use.signals.name[signals].astype(np.int64)
    to, by = use.signals.core[signals] * names + name, model.core[made] * names + name
    wanted = model.core[needed] * names + use.waits.name[waits]
    keys = np.unique(np.concatenate([to, by, wanted]))
    to, by, wanted = (np.searchsorted(keys, each).astype(np.int32) for each in (to, by, wanted))
    core_of = (keys // names).astype(np.int32)
    foreign = np.zeros(len(keys), bool)
    foreign[to[core_of[to] != model.core[made]]] = True
    return Operations(
        signal=events.last[made],
        signal_to=to,
        signal_by=by,
        amount=use.signals.amount[signals],
        wait=events.first[needed],
        wait_for=wanted,
        value=use.waits.value[waits],
        back=use.waits.back[waits],
        core_of=core_of,
        foreign=foreign,
    )


class _Counted(NamedTuple):
    """Operations by event."""

    operations: Operations
    signal_starts: Ints
    signals: Ints
    wait_starts: Ints
    waits: Ints

    @staticmethod
    def of(operations: Operations, events: int) -> _Counted:
        """The same with indices."""
        return _Counted(operations, *grouped(operations.signal, events), *grouped(operations.wait, events))


@njit
def _scan_schedule(
    begin: Column,
    seq: Ints,
    meet: Ids,
    members: Ids,
    starts: Ints,
    arrivals: Ids,
    divergent: Bools,
    counted: _Counted,
) -> Ids:
    """The events of each block in an order of the lists, the earliest `seq` first; shorter where there is none.

    A wait comes when enough signals have come: to count back, of its block; for a constant, of the text, if there is
    a choice. Whether they are enough is for `counts.py` to prove.
    """
    use = counted.operations
    total = np.zeros(len(use.core_of), np.int64)
    ahead = np.zeros(len(use.core_of), np.int64)  # made in the block less issued by the own core
    cores, blocks = begin.shape[0], begin.shape[1] - 1
    schedule = np.empty(len(seq), np.int32)
    done = np.zeros(len(seq), np.bool_)
    time = np.full(cores, -1, np.int64)
    at = np.zeros(cores, np.int64)
    count = 0
    for block in range(blocks):
        ahead[:] = 0
        for core in range(cores):
            at[core] = begin[core, block]
            if divergent[block]:
                for event in range(begin[core, block], begin[core, block + 1]):
                    schedule[count] = event
                    count += 1
                    done[event] = True
                    for k in range(counted.signal_starts[event], counted.signal_starts[event + 1]):
                        total[use.signal_to[counted.signals[k]]] += use.amount[counted.signals[k]]
                at[core] = begin[core, block + 1]
        while True:
            best, other_best, left = -1, -1, False
            for core in range(cores):
                event = at[core]
                if event >= begin[core, block + 1]:
                    continue
                left = True
                if meet[event] >= 0:
                    here = 0
                    for other in range(cores):
                        if at[other] < begin[other, block + 1] and meet[at[other]] == meet[event]:
                            here += 1
                    if here < members[meet[event]]:
                        continue
                ready = True
                for k in range(starts[event], starts[event + 1]):
                    ready = ready and done[arrivals[k]]
                late = False
                for k in range(counted.wait_starts[event], counted.wait_starts[event + 1]):
                    row = counted.waits[k]
                    if not use.foreign[use.wait_for[row]]:
                        continue  # its signals come first in the list
                    if use.back[row]:
                        ready = ready and ahead[use.wait_for[row]] + use.value[row] >= 0
                    else:  # loops before may have made more than the text shows
                        late = late or total[use.wait_for[row]] < use.value[row]
                if ready and seq[event] >= 0:
                    time[core] = seq[event]
                if ready and late and (other_best < 0 or time[core] < time[other_best]):
                    other_best = core
                elif ready and not late and (best < 0 or time[core] < time[best]):
                    best = core
            if best < 0:
                best = other_best
            if best < 0:
                if left:
                    return schedule[:count].copy()
                break
            number = meet[at[best]]
            for core in range(cores):
                event = at[core]
                if event >= begin[core, block + 1] or (core != best and (number < 0 or meet[event] != number)):
                    continue
                schedule[count] = event
                count += 1
                done[event] = True
                at[core] += 1
                for k in range(counted.signal_starts[event], counted.signal_starts[event + 1]):
                    row = counted.signals[k]
                    total[use.signal_to[row]] += use.amount[row]
                    ahead[use.signal_to[row]] += use.amount[row]
                    ahead[use.signal_by[row]] -= use.amount[row]
    return schedule


class _Steps:
    """The structure as a list of steps."""

    def __init__(self, runs: Runs, begin: Column) -> None:
        self.structure = runs.flow.structure
        self.begin = begin
        self.before = begin.sum(axis=0) - begin[:, 0].sum()
        self.rows: list[tuple[int, int, int, int]] = []
        self.loops: list[tuple[int, int, int, int]] = []
        self.forks: list[tuple[int, int, int, int]] = []
        self._sequence(range(len(self.structure.region_of)), NONE)

    def _events(self, block: int, core: int) -> None:
        first, end = int(self.before[block]), int(self.before[block + 1])
        if core != NONE:  # listed core after core
            size = self.begin[:, block + 1] - self.begin[:, block]
            first += int(size[:core].sum())
            end = first + int(size[core])
        if end > first:
            self.rows.append((EVENTS, first, end, NONE))

    def _sequence(self, blocks: range, core: int) -> None:
        for item in self.structure.items(blocks.start, blocks.stop):
            if isinstance(item, Loop):
                self._loop(item, core)
            elif isinstance(item, Fork):
                alone = item.divergent and core == NONE
                for each in range(len(self.begin)) if alone else (core,):
                    self._fork(item, each)
            else:
                self._events(item, core)

    def _fork(self, fork: Fork, core: int) -> None:
        number = len(self.forks)
        self.forks.append((fork.block + 1, fork.middle, fork.join, core))
        self.rows.append((FORK, number, core, NONE))
        self._sequence(fork.sides[0], core)
        self.rows.append((ELSE, number, core, NONE))
        self._sequence(fork.sides[1], core)
        self.rows.append((JOIN, number, core, NONE))

    def _loop(self, loop: Loop, core: int) -> None:
        number = len(self.loops)
        self.loops.append((loop.begin, loop.end, loop.trip, core))
        self.rows.append((LOOP, number, core, NONE))
        if loop.trip:  # else the body never runs, and the header does once
            self._events(loop.header, core)
            self._sequence(loop.body, core)
        self.rows.append((LATCH, number, core, NONE))
        self._events(loop.header, core)
        self.rows.append((EXIT, number, core, NONE))
