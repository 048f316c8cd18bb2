"""What the events of a text wait for, as columns for the walk of `claims.py`.

A note is kept from its producer to its last reader in the order of the walk; notes whose times do not meet share a
number, so long texts need few at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.columns import grouped, join_ranges
from haulout.checker.flow.counts import Trust, find_rows
from haulout.checker.flow.graph import Graph
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.steps import EVENTS, EXIT, LATCH, LOOP, MERGE, PART, SPLIT
from haulout.checker.flow.text import Text
from haulout.ir.enums import NONE, Engine
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.structure import Arm, Loop
from haulout.support.jit import njit

NOTHING_LOST = Trust()
_MAX_CELLS = 1 << 25
"""Cells of all notes, of 32 bytes."""


def find_graph(text: Text, trust: Trust = NOTHING_LOST) -> Graph | Refusal:
    """The columns of a text, unless they would take too much memory, or semaphores give no order that is known."""
    model, events = text.model, text.events
    structure = text.runs.flow.structure
    lines = len(model.queue_core)
    semaphores = find_rows(text, trust)
    if isinstance(semaphores, Refusal):
        return semaphores
    depth = max((len(each) for each in structure.loop_nesting), default=0)
    producer, consumer = find_waits(text)
    edges = Edges(text)
    # Where the walk comes to each event, and to the end of each body and loop.
    rows = text.steps
    size = np.where(rows[:, 0] == EVENTS, rows[:, 2] - rows[:, 1], 0)
    before = np.cumsum(size) - size
    walk = text.schedule[join_ranges(np.where(rows[:, 0] == EVENTS, rows[:, 1], 0), size)]
    first, last = np.zeros(len(events.line), np.int64), np.zeros(len(events.line), np.int64)
    last[walk] = np.arange(len(walk))
    first[walk[::-1]] = np.arange(len(walk))[::-1]
    latch, leave = np.zeros(len(text.loops), np.int64), np.zeros(len(text.loops), np.int64)
    for step, found in ((LATCH, latch), (EXIT, leave)):
        at = np.flatnonzero(rows[:, 0] == step)
        found[rows[at, 1]] = before[at]
    until = np.full(len(events.line), NONE, np.int64)
    np.maximum.at(until, producer, last[consumer])
    np.maximum.at(until, edges.producer, latch[edges.loop])
    leaving = np.flatnonzero(until != NONE)
    until = np.maximum(until, first)  # what never runs has no time
    note = np.full(len(events.line), NONE, np.int32)
    numbers, count = scan_notes(first[leaving], until[leaving])
    note[leaving] = numbers
    if (count + 2 * lines + len(semaphores.core)) * (depth + 1) * 3 * lines > _MAX_CELLS:
        return Refusal("its loops are nested too deeply for so many queues and waits")
    # Notes of headers that are read behind the loop.
    begins = {(int(begin), int(core)): number for number, (begin, _, _, core) in enumerate(text.loops.tolist())}
    header_of = np.full((len(structure.region_of), model.cores + 1), NONE, np.int32)
    for (begin, core), number in begins.items():
        if core == NONE:
            header_of[begin] = number
        else:
            header_of[begin, core] = number
    of = header_of[events.block[leaving], events.core[leaving]]
    behind = np.flatnonzero((of != NONE) & (until[leaving] >= np.append(leave, 0)[of]))
    left_starts, left = grouped(of[behind], len(text.loops))
    wait_starts, order = grouped(consumer, len(events.line))
    carried_starts, by_consumer = grouped(edges.consumer, len(events.line))
    edge_starts, by_loop = grouped(edges.loop, len(text.loops))
    kind = np.zeros(len(events.line), np.int32)
    kind[model.is_branch[events.instruction]] = 2
    meeting = events.first[text.barriers.instruction]
    kind[meeting] = 1
    shadow = lines + len(semaphores.core)
    holder = np.where(text.second, shadow + events.line, events.line).astype(np.int32)
    meetings = _meetings(text, note, holder)
    return Graph(
        steps=text.steps,
        loops=text.loops,
        forks=text.forks,
        places=text.places,
        schedule=text.schedule,
        line=events.line,
        position=events.position,
        holder=holder,
        kind=kind,
        meet_starts=meetings.starts,
        meet_lines=meetings.lines,
        meet_event=meetings.event,
        meet_note=meetings.note,
        meet_fork=meetings.fork,
        meet_of=meetings.of,
        line_core=model.queue_core,
        core_lines=np.searchsorted(model.queue_core, np.arange(model.cores + 1)).astype(np.int32),
        wait_starts=wait_starts,
        wait_note=note[producer[order]],
        carried_starts=carried_starts,
        carried=edges.number[by_consumer],
        note=np.where(kind == 1, NONE, note).astype(np.int32),
        notes=count,
        left_starts=left_starts,
        left=note[leaving[behind[left]]],
        edge_starts=edge_starts,
        edge=by_loop.astype(np.int32),
        edge_note=note[edges.producer],
        edge_level=edges.level,
        edge_low=edges.low,
        edge_high=edges.high,
        edge_void=edges.void,
        depth=depth,
        row_core=np.concatenate([model.queue_core, semaphores.core, model.queue_core]).astype(np.int32),
        shadow=shadow,
        shift=_shifts(text, shadow),
        read_starts=semaphores.read_starts,
        read=semaphores.read,
        write_starts=semaphores.write_starts,
        write=semaphores.write,
        write_from=semaphores.write_from,
        written_starts=semaphores.loop_starts,
        written=semaphores.loop_rows,
    )


def _rows(text: Text) -> tuple[Ids, Ids]:
    """Instruction of the program -> its instruction in the text, NONE; and the rows of dependences that matter."""
    model = text.model
    assert model.unrolled is not None
    program = text.runs.flow.program
    origin = model.unrolled.origin[model.rows]
    local = np.full(len(program.instructions), NONE, np.int32)
    mine = np.flatnonzero(origin != NONE)
    local[origin[mine]] = mine
    rows = program.dependences
    one, other = local[rows.producer], local[rows.instruction]
    # A barrier on `all` waits for its whole core, and what follows it there for the barrier. A queue is in order.
    matters = (one != NONE) & (other != NONE) & (model.queue[one] != model.queue[other])
    matters &= (model.engine[one] != Engine.ALL) & (model.engine[other] != Engine.ALL)
    return local, np.flatnonzero(matters).astype(np.int32)


def find_waits(text: Text) -> tuple[Ids, Ids]:
    """(Producer, consumer), both events: dependences, what branches wait for, and partners of `sendrecv`s."""
    model, events, rows = text.model, text.events, text.runs.flow.program.dependences
    local, chosen = _rows(text)
    chosen = chosen[~rows.carried[chosen]]
    branch = np.repeat(np.arange(len(model.rows), dtype=np.int32), np.diff(model.producer_starts))
    apart = np.flatnonzero((model.queue[model.producer] != model.queue[branch]) & ~model.is_fence[model.producer])
    meets = text.sendrecvs
    producer = [
        events.last[local[rows.producer[chosen]]],
        events.last[model.producer[apart]],
        events.first[meets.instruction[meets.arrives]],
    ]
    consumer = [
        events.first[local[rows.instruction[chosen]]],
        events.first[branch[apart]],
        events.last[meets.instruction[meets.completes]],
    ]
    return np.concatenate(producer), np.concatenate(consumer)


class Edges:
    """Carried dependences: each reads an edge, a producer over the iterations of a loop."""

    def __init__(self, text: Text) -> None:
        structure, events = text.runs.flow.structure, text.events
        rows = text.runs.flow.program.dependences
        local, chosen = _rows(text)
        chosen = chosen[rows.carried[chosen]]
        numbers = {(int(begin), int(core)): at for at, (begin, _, _, core) in enumerate(text.loops.tolist())}
        found: dict[tuple[int, int], int] = {}
        producer: list[int] = []
        loops: list[int] = []
        level: list[int] = []
        low: list[int] = []
        high: list[int] = []
        void: list[bool] = []
        which: list[int] = []
        consumers: list[int] = []
        sides = local[rows.producer[chosen]], local[rows.instruction[chosen]]
        for one, other in zip(*(side.tolist() for side in sides), strict=True):
            event, reader = int(events.last[one]), int(events.first[other])
            here = int(events.block[event])
            loop = structure.common_loop(here, int(events.block[reader]))
            if loop == NONE:
                continue  # no iteration comes before
            begin = structure.loops[loop].begin
            core = int(events.core[event])
            number = numbers.get((begin, NONE), numbers.get((begin, core), NONE))
            if number == NONE:
                continue  # in the body of a loop that never runs
            key = event, number
            if key not in found:
                found[key] = len(producer)
                producer.append(event)
                loops.append(number)
                level.append(len(structure.loops_around(begin)))
                between = structure.around(here)
                between = between[between.index(loop) + 1 :]
                arms = [region for number in between if isinstance(region := structure.regions[number], Arm)]
                inner = [region for number in between if isinstance(region := structure.regions[number], Loop)]
                void.append(bool(inner) and (len(inner) > 1 or inner[0].header != here))
                low.append(arms[-1].begin if arms else NONE)
                high.append(arms[-1].end if arms else NONE)
            which.append(found[key])
            consumers.append(reader)
        self.producer, self.loop, self.level = (np.array(each, np.int32) for each in (producer, loops, level))
        self.low, self.high = np.array(low, np.int32), np.array(high, np.int32)
        self.void: Bools = np.array(void, bool)
        self.number, self.consumer = np.array(which, np.int32), np.array(consumers, np.int32)


def _shifts(text: Text, shadow: int) -> Ids:
    """Of each loop of the steps: from lines to the rows that know what they do inside."""
    found = np.zeros(len(text.loops), np.int32)
    side = 0
    for kind, number, _, arm in text.steps.tolist():
        if kind in (PART, MERGE):
            side = arm if kind == PART else 0
        elif kind == LOOP:
            found[number] = shadow if side else 0
    return found


class _Meetings(NamedTuple):
    """As `Graph` has them."""

    of: Ids
    starts: Ints
    lines: Ids
    event: Ids
    note: Ids
    fork: Ids


def _meetings(text: Text, note: Ids, holder: Ids) -> _Meetings:
    """The barriers with the rows of the lines that meet."""
    model, events, barriers = text.model, text.events, text.barriers
    event = events.first[barriers.instruction]
    number = text.meet[event]
    count = int(number.max(initial=NONE)) + 1
    place = np.empty(len(events.line), np.int64)
    place[text.schedule] = np.arange(len(text.schedule))
    by = np.lexsort((place[event], number))
    ends = np.flatnonzero(np.append(number[by][1:] != number[by][:-1], True)[: len(by)])
    meet_of = np.full(len(events.line), NONE, np.int32)
    meet_of[event[by[ends]]] = number[by[ends]]
    # On `all`, all lines of the core meet.
    lines = np.searchsorted(model.queue_core, np.arange(model.cores + 1))
    fence = barriers.engine == Engine.ALL
    first = np.where(fence, lines[barriers.core], events.line[event])
    size = np.where(fence, lines[barriers.core + 1] - lines[barriers.core], 1)
    owner = np.repeat(np.arange(len(event)), size)
    line = join_ranges(first, size)
    left = np.where(line == events.line[event][owner], note[event][owner], NONE).astype(np.int32)
    row = (line + (holder - events.line)[event[owner]]).astype(np.int32)
    starts, order = grouped(number[owner], count)
    fork = np.full(count, NONE, np.int32)
    for at in text.steps[text.steps[:, 0] == SPLIT, 1].tolist():
        begin, _, join, _ = text.forks[at].tolist()
        fork[number[(events.block[event] >= begin) & (events.block[event] < join)]] = at
    return _Meetings(meet_of, starts, row[order], event[owner[order]].astype(np.int32), left[order], fork)


@njit
def _scan_notes_sorted(begin: Ints, end: Ints, by_begin: Ints, by_end: Ints) -> tuple[Ids, int]:
    number = np.empty(len(begin), np.int32)
    free = np.empty(len(begin), np.int32)
    frees = count = at = 0
    for k in range(len(by_begin)):
        row = by_begin[k]
        while at < len(by_end) and end[by_end[at]] < begin[row]:
            free[frees] = number[by_end[at]]
            frees += 1
            at += 1
        if frees > 0:
            frees -= 1
            number[row] = free[frees]
        else:
            number[row] = count
            count += 1
    return number, count


def scan_notes(begin: Ints, end: Ints) -> tuple[Ids, int]:
    """A number for each time from `begin` to `end`, both included; equal ones are apart. Also how many there are."""
    found, count = _scan_notes_sorted(begin, end, np.argsort(begin, kind="stable"), np.argsort(end, kind="stable"))
    return found, int(count)
