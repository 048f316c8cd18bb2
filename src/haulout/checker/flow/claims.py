"""What each line knows to be complete, at every event of a text: claims, by one walk to a fixpoint.

A line runs in order, so what it knows of another line is nearly always all positions up to one. It is a *claim*:
every instance of those events is complete *if it exists*. Of an arm that is not taken, and of iterations before the
first, everything may be claimed. What a line knows, one *cell* of intervals (`intervals.py`) each:

    know[line, level, lag, other]   the events of another line in the iteration `lag` back of the loop around at that
                                    level (level 0: the whole function, lag 0). Lag 2 stands for all from there on;
                                    lag 0 leaves out the next inner loop around, which has its own level.

    an event       its line learns what the events know that it waits for; then it is complete
    a barrier      its lines learn what any of them knows, then their core's event is complete
    a branch       all other lines of its core learn what it knows
    a fork         both arms begin alike. Behind it holds what holds at the end of both, where each claims the events
                   of the other
    a loop         begins with a level that claims all of its events, at both lags, and less after each walk: what the
                   end of its body says of the iteration before. Behind its header's last run that becomes one claim,
                   of what is complete in all iterations

Every walk begins with at least what the next one will claim, and nothing rises, so walks end with a fixpoint. By
induction along a run each step then claims no more than what every run that comes there guarantees: the last walk's
claims are true. Cells that still fall in walk `MOST_WALKS` are given up.

Where cores meet in both arms of a fork that each of them chooses for itself, the arms are walked in parts, from
meeting to meeting: the first arms in the rows of the lines, the second ones in their *shadows*. At a meeting a core
knows of itself in which arm it is; of another one it learns what holds in both.

A dependence reads the newest copy of its producer, which dominates it: what that knew is kept as a *note* until its
last reader. A `carried` one reads what the copy in the previous iteration of the loop around both knew, of that loop
alone: in the first iteration there is none.

To undo what an arm or a body did, every change inside is logged with the cell's old value.
"""

from __future__ import annotations

import numpy as np

from haulout.checker.flow.graph import Graph, Open, Queries
from haulout.checker.flow.intervals import add, clear, copy, equal, intersect
from haulout.checker.flow.learning import (
    Here,
    copy_row,
    grown,
    keep,
    learn,
    meet_all,
    meet_apart,
    new_found,
    new_log,
    tell,
    with_room,
)
from haulout.checker.flow.loops import end_body, enter_loop, find_back, leave_loop
from haulout.checker.flow.questions import ask
from haulout.ir.schema import Column, Ids
from haulout.support.jit import njit

MOST_WALKS = 32


@njit
def scan_claims(graph: Graph, queries: Queries, limit: int) -> Open:
    """The pairs of accesses that some run may leave unordered, up to `limit` of them."""
    lines, levels, rows = len(graph.line_core), graph.depth + 1, len(graph.row_core)
    know = np.empty((rows * levels * 3 * lines, 8), np.int32)
    for cell in range(len(know)):
        clear(know, cell)
    room = np.empty(16, np.int32)
    pair = np.empty((1, 8), np.int32)
    one = np.empty((1, 8), np.int32)
    two = np.empty((1, 8), np.int32)
    size = levels * 3 * lines  # of a row
    notes = np.empty((graph.notes * size, 8), np.int32)
    note_depth = np.zeros(max(graph.notes, 1), np.int64)
    back = find_back(graph, levels)
    log = new_log()
    # The cells that first arms changed: what they began with, and their values.
    saved = new_log()
    saved_value = np.empty((1024, 8), np.int32)
    stamp = np.zeros(len(know), np.int64)
    stamps = 0
    frames = len(graph.loops) + len(graph.forks) + 1
    mark = np.zeros(frames, np.int64)
    mark_saved = np.zeros(frames, np.int64)
    here = Here(
        know, np.zeros(levels, np.int64), np.zeros(lines, np.int32), np.zeros((lines, 2), np.int32),
        np.empty((frames, 4), np.int64),
    )  # fmt: skip
    around, current, later, apart = here.around, here.current, here.later, here.apart
    in_parts = in_first = False
    found = new_found(limit)
    walks = 0
    asking = False
    while True:
        changed = False
        level = 0
        depth = 0
        aparts = 0
        log.size[0] = saved.size[0] = 0
        current[:] = 0
        later[:] = 0
        in_parts = in_first = False
        for cell in range(len(know)):
            clear(know, cell)
        for step in range(len(graph.steps)):
            what, number, core = graph.steps[step, 0], graph.steps[step, 1], graph.steps[step, 2]
            if what == 0:
                for at in range(number, core):
                    event = graph.schedule[at]
                    line, holder = graph.line[event], graph.holder[event]
                    mine = holder * size
                    meet = graph.meet_of[event]
                    span = 3 * (level + 1) * lines
                    # What it waits for.
                    need = span * (1 + graph.wait_starts[event + 1] - graph.wait_starts[event])
                    need += 2 * lines * (graph.carried_starts[event + 1] - graph.carried_starts[event])
                    if meet >= 0:
                        need += (span + 1) * (graph.meet_starts[meet + 1] - graph.meet_starts[meet])
                    if graph.kind[event] == 2:
                        need += span * lines
                    need += span * (graph.read_starts[event + 1] - graph.read_starts[event])
                    need += span * (graph.write_starts[event + 1] - graph.write_starts[event])
                    need += 2
                    log = with_room(log, need)
                    for k in range(graph.wait_starts[event], graph.wait_starts[event + 1]):
                        note = graph.wait_note[k]
                        known = 3 * (min(level, note_depth[note]) + 1) * lines
                        learn(know, mine, notes, note * size, known, log, depth > 0, room)
                    for k in range(graph.carried_starts[event], graph.carried_starts[event + 1]):
                        edge = graph.carried[k]
                        target = mine + (3 * graph.edge_level[edge] + 1) * lines
                        source = 2 * edge * lines
                        learn(know, target, back.edges, source, 2 * lines, log, depth > 0, room)
                    for k in range(graph.read_starts[event], graph.read_starts[event + 1]):
                        source = graph.read[k] * size
                        learn(know, mine, know, source, span, log, depth > 0, room)
                    if meet >= 0:
                        if graph.meet_fork[meet] >= 0:
                            meet_apart(graph, know, size, level, meet, log, depth > 0, room)
                        else:
                            meet_all(graph, know, size, span, meet, log, depth > 0, room)
                        for k in range(graph.meet_starts[meet], graph.meet_starts[meet + 1]):
                            # A line knows of its own core alone that the meeting is over.
                            row, met, note = graph.meet_lines[k], graph.meet_event[k], graph.meet_note[k]
                            if asking and graph.holder[met] == row:
                                ask(graph, queries, here, level, aparts, row, met, found)
                            cell = row * size + 3 * level * lines + graph.line[met]
                            if depth:
                                keep(log, cell, know, cell)
                            add(know, cell, graph.position[met], graph.position[met] + 1, room, pair)
                            if note >= 0:
                                note_depth[note] = level
                                copy_row(notes, note * size, know, row * size, span)
                    if graph.kind[event] != 1:
                        if asking:
                            ask(graph, queries, here, level, aparts, holder, event, found)
                        cell = mine + 3 * level * lines + line
                        if depth:
                            keep(log, cell, know, cell)
                        add(know, cell, graph.position[event], graph.position[event] + 1, room, pair)
                    if in_parts and holder < lines:
                        later[line, 0] = graph.position[event] + 1
                    else:
                        current[line] = graph.position[event] + 1
                    if graph.kind[event] == 2:
                        of = graph.line_core[line]
                        for other in range(graph.core_lines[of], graph.core_lines[of + 1]):
                            if other != line:
                                to = (other + holder - line) * size
                                learn(know, to, know, mine, span, log, depth > 0, room)
                    for k in range(graph.write_starts[event], graph.write_starts[event + 1]):
                        to, source = graph.write[k] * size, graph.write_from[k] * size
                        tell(know, to, know, source, span, log, depth > 0)
                    note = graph.note[event]
                    if note >= 0:
                        note_depth[note] = level
                        copy_row(notes, note * size, know, mine, span)
            elif what == 1:  # a fork begins
                mark[depth], mark_saved[depth] = log.size[0], saved.size[0]
                depth += 1
            elif what == 2:  # its second arm begins: put the changes of the first aside
                frame = depth - 1
                stamps += 1
                saved = with_room(saved, log.size[0] - mark[frame])
                saved_value = grown(saved_value, len(saved.cell))
                for k in range(mark[frame], log.size[0]):
                    cell = log.cell[k]
                    if stamp[cell] == stamps or (cell // (3 * lines)) % levels > level:
                        continue
                    stamp[cell] = stamps
                    copy(saved_value, saved.size[0], know, cell)
                    keep(saved, cell, log.old, k)
                for k in range(mark_saved[frame], saved.size[0]):
                    copy(know, saved.cell[k], saved.old, k)
                log.size[0] = mark[frame]
                apart[aparts, 0], apart[aparts, 3] = level, core
                apart[aparts, 1], apart[aparts, 2] = graph.forks[number, 0], graph.forks[number, 1]
                aparts += 1
                _move_on(graph, current, later, in_first, graph.forks[number, 1], core)
            elif what == 3:  # a fork ends
                aparts -= 1
                frame = depth - 1
                depth -= 1
                begin, middle, end = graph.forks[number, 0], graph.forks[number, 1], graph.forks[number, 2]
                stamps += 1
                for k in range(mark_saved[frame], saved.size[0]):
                    stamp[saved.cell[k]] = stamps
                # Cells that the second arm changed alone join the list, with the value that they began with.
                saved = with_room(saved, log.size[0] - mark[frame])
                saved_value = grown(saved_value, len(saved.cell))
                for k in range(mark[frame], log.size[0]):
                    cell = log.cell[k]
                    if stamp[cell] == stamps or (cell // (3 * lines)) % levels > level:
                        continue
                    stamp[cell] = stamps
                    copy(saved_value, saved.size[0], log.old, k)
                    keep(saved, cell, log.old, k)
                log.size[0] = mark[frame]
                log = with_room(log, saved.size[0] - mark_saved[frame])
                for k in range(mark_saved[frame], saved.size[0]):
                    cell = saved.cell[k]
                    if (cell // lines) % (3 * levels) == 3 * level:
                        other = cell % lines
                        if core < 0 or graph.line_core[other] == core:
                            places = graph.places[other]
                            add(saved_value, k, places[middle], places[end], room, pair)
                            add(know, cell, places[begin], places[middle], room, pair)
                    intersect(know, cell, saved_value, k, room)
                    if depth:
                        keep(log, cell, saved.old, k)
                saved.size[0] = mark_saved[frame]
                _move_on(graph, current, later, in_first, end, core)
            elif what == 4:  # a loop begins
                mark[depth], mark_saved[depth] = log.size[0], saved.size[0]
                depth += 1
                level += 1
                around[level] = number
                begin, end = graph.loops[number, 0], graph.loops[number, 1]
                log = enter_loop(graph, back, know, size, level, number, log, room)
                _move_on(graph, current, later, in_first, begin, core)
            elif what == 5:  # a body ends
                begin, frame = graph.loops[number, 0], depth - 1
                give_up = walks >= MOST_WALKS - 1
                log, fell = end_body(
                    graph, back, know, notes, note_depth, size, level, number, log, mark[frame], give_up, room
                )
                changed = changed or fell
                _move_on(graph, current, later, in_first, begin, core)
            elif what == 6:  # a loop ends
                depth -= 1
                end = graph.loops[number, 1]
                log = leave_loop(graph, back, know, notes, note_depth, size, level, number, log, depth > 0, room)
                level -= 1
                _move_on(graph, current, later, in_first, end, core)
            elif what == 7:  # the arms of all cores begin, to be walked in parts
                in_parts = True
                span = 3 * (level + 1) * lines
                log = with_room(log, span * lines)
                begin, middle = graph.forks[number, 0], graph.forks[number, 1]
                for line in range(lines):
                    to = (graph.shadow + line) * size
                    tell(know, to, know, line * size, span, log, depth > 0)
                    later[line, 0], later[line, 1] = graph.places[line, begin], graph.places[line, middle]
                    current[line] = graph.places[line, middle]
                aparts += 1
            elif what == 8:  # a part of an arm of a core begins
                side = graph.steps[step, 3]
                in_first = side == 0
                apart[aparts - 1, 0], apart[aparts - 1, 3] = level, core
                apart[aparts - 1, 1] = graph.forks[number, 1 - side]
                apart[aparts - 1, 2] = graph.forks[number, 2 - side]
            elif what == 9:  # the arms of all cores end
                in_parts = in_first = False
                aparts -= 1
                later[:] = 0
                begin, middle, end = graph.forks[number, 0], graph.forks[number, 1], graph.forks[number, 2]
                span = 3 * (level + 1) * lines
                log = with_room(log, span * lines)
                for line in range(lines):
                    for k in range(span):
                        other = k % lines
                        cell = line * size + k
                        copy(one, 0, know, cell)
                        copy(two, 0, know, (graph.shadow + line) * size + k)
                        if k // lines == 3 * level and graph.line_core[other] == graph.line_core[line]:
                            places = graph.places[other]
                            add(one, 0, places[middle], places[end], room, pair)
                            add(two, 0, places[begin], places[middle], room, pair)
                        intersect(one, 0, two, 0, room)
                        if not equal(one, 0, know, cell):
                            if depth:
                                keep(log, cell, know, cell)
                            copy(know, cell, one, 0)
                _move_on(graph, current, later, False, end, core)
        walks += 1
        if asking:
            break
        asking = not changed
    return Open(found.total[0], found.first, found.second, found.level, found.lag, walks)


@njit
def _move_on(graph: Graph, current: Ids, later: Column, in_first: bool, block: int, core: int) -> None:
    """Go to the start of a block, on one core or on all; in a first arm that is walked in parts, what comes later
    begins there.
    """
    for line in range(len(current)):
        if core < 0 or graph.line_core[line] == core:
            if in_first:
                later[line, 0] = graph.places[line, block]
            else:
                current[line] = graph.places[line, block]
