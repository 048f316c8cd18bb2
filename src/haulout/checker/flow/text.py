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
choose for themselves, the steps of one core come after those of another. Where both arms hold the same meetings, they
come in parts: what each core does in each arm until the first meeting, then the meeting in both arms, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from haulout.checker.columns import grouped
from haulout.checker.flow.apart import Meetings, find_disagreeing
from haulout.checker.flow.constants import attending, settled_forks
from haulout.checker.flow.events import Events, find_events, refused
from haulout.checker.flow.parts import find_parts
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.steps import Steps
from haulout.checker.model import Model, Runs
from haulout.checker.order.barriers import Barriers, check_barriers, find_barriers
from haulout.checker.order.sendrecv import SendRecvs, find_sendrecvs
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.ir.semaphores import semaphore_use
from haulout.ir.structure import Loop, Structure
from haulout.support.jit import njit


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
    meet: Ids
    """Of each event: the number of its barrier; in both arms of a fork, that in the first one. NONE: it is none."""
    barriers: Barriers
    sendrecvs: SendRecvs
    operations: Operations
    places: Column
    """int32 [line, block]: the position of the first event of the line in that block or a later one."""
    schedule: Ids
    """Events, block after block; of a barrier all its events."""
    steps: Column
    """int32 [step, 4]: the kind, and (first, end) in `schedule`, or (number, core or NONE) of a fork or loop; of a
    `PART` also which arm."""
    loops: Column
    """int32 [number, 4]: begin, end, trip count and core of each loop of the steps; NONE: unknown, all cores."""
    forks: Column
    """int32 [number, 4]: begin, middle, join and core of each fork of the steps."""
    second: Bools
    """Which events are in a second arm that is walked in parts."""
    core_by_core: Text | None
    """The same with the arms of one core after those of another everywhere; None: it is this one."""


def find_text(runs: Runs, priority: Ints | None = None) -> Text | Refusal:
    """The text of a function, unless it has meetings that depend on what cores choose for themselves, meetings do not
    agree block by block, or no order of the lists of a block is a schedule.

    Of what may come next in the schedule, that of the smallest `seq` comes first, or that of the smallest `priority`,
    given for the instructions of the program.
    """
    structure = runs.flow.structure
    settled = settled_forks(runs.flow, runs.narrowed.sides)
    model = runs.text(attending(runs.flow, settled, runs.narrowed.unused))
    assert model.unrolled is not None
    blocks = len(structure.region_of)
    block_of = model.unrolled.execution[model.rows]
    barriers, sendrecvs = find_barriers(model), find_sendrecvs(model)
    events = find_events(model, sendrecvs, block_of)
    divergent = np.array([structure.divergent_fork(block) != NONE for block in range(blocks)], bool)
    meet, members = _meetings(barriers, len(events.line), events)
    exchange = events.last[sendrecvs.instruction]
    meeting = np.sort(np.append(np.flatnonzero(meet != NONE), exchange))
    inside = meeting[divergent[events.block[meeting]]]
    parted = find_parts(runs, settled, model, events, barriers, inside)
    if isinstance(parted, Refusal):
        return parted
    sides = [exchange[rows] for rows in (sendrecvs.arrives, sendrecvs.completes)]
    disagreeing = _disagreement(model, events, barriers, sendrecvs, sides, (meet, members))
    if disagreeing is not None:
        meetings = Meetings(structure, model, events, barriers)
        return find_disagreeing(meetings, ever_runs(structure), runs.narrowed) or disagreeing
    begin = _begins(events, model.cores, blocks)
    starts, arrival = grouped(sides[1], len(events.line))
    arrivals = events.first[sendrecvs.instruction[sendrecvs.arrives]][arrival].astype(np.int32)
    # Meetings touch nothing: they stand where the other instructions want them.
    seq = model.program.instructions.seq[model.rows].astype(np.int64)
    if priority is not None:
        seq = np.append(priority, NONE)[model.unrolled.origin[model.rows]]
    seq = np.where(meet == NONE, seq[events.instruction], NONE)
    operations = _operations(model, events, ever_runs(structure)[events.block])
    counted = _Counted.of(operations, len(events.line))
    schedule = _scan_schedule(begin, seq, meet, members, starts, arrivals, divergent, counted)
    if len(schedule) < len(events.line):
        block = int(np.searchsorted((begin - begin[:, :1]).sum(axis=0), len(schedule), "right")) - 1
        return Refusal("no order of the cores' lists satisfies all meetings and waits of the block", block)
    for number, other in parted.twins:
        meet[meet == meet[other]] = meet[number]
    text = Text(
        runs,
        model,
        events,
        meet,
        barriers,
        sendrecvs,
        operations,
        _places(events, len(model.queue_core), blocks),
        schedule,
        *Steps(structure, settled, begin, schedule, {}).columns(),
        np.zeros(len(events.line), bool),
        None,
    )
    if not parted.cuts:
        return text
    steps = Steps(structure, settled, begin, schedule.copy(), parted.cuts)
    second = np.zeros(len(events.line), bool)
    for fork in parted.cuts:
        arm = structure.forks[fork].sides[1]
        second |= (events.block >= arm.start) & (events.block < arm.stop)
    rows, loops, forks = steps.columns()
    return replace(
        text, schedule=steps.schedule, steps=rows, loops=loops, forks=forks, second=second, core_by_core=text
    )


def _disagreement(
    model: Model, events: Events, barriers: Barriers, sendrecvs: SendRecvs, sides: list[Ids], met: tuple[Ids, Ids]
) -> Refusal | None:
    """Where meetings do not agree block by block."""
    if len(sendrecvs.unpaired):
        event = events.last[sendrecvs.instruction[sendrecvs.unpaired[0]]]
        return refused(model, events, int(event), "has no partner in the text")
    if check_barriers(model, barriers):
        return Refusal("the barriers of the cores differ, with both arms of each branch counted")
    if len(elsewhere := np.flatnonzero(events.block[sides[0]] != events.block[sides[1]])):
        return refused(model, events, int(sides[0][elsewhere[0]]), "has its partner in another block")
    if (event := _in_two_blocks(events, *met)) != NONE:
        return refused(model, events, event, "meets barriers of another block")
    return None


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


def ever_runs(structure: Structure) -> Bools:
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
                for other in range(cores):  # all that meet at a barrier wait
                    one = at[other]
                    if one >= begin[other, block + 1]:
                        continue
                    if other != core and (meet[event] < 0 or meet[one] != meet[event]):
                        continue
                    for k in range(counted.wait_starts[one], counted.wait_starts[one + 1]):
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
