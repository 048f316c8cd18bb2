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
from haulout.checker.flow.learning import copy_row, grown, grown_ids, learn, meet_all, meet_apart, tell
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
    log_cell = np.empty(1024, np.int64)
    log_old = np.empty((1024, 8), np.int32)
    logged = 0
    saved_cell = np.empty(1024, np.int64)
    saved_value = np.empty((1024, 8), np.int32)
    saved_old = np.empty((1024, 8), np.int32)
    saved = 0
    stamp = np.zeros(len(know), np.int64)
    where = np.zeros(len(know), np.int64)
    stamps = 0
    frames = len(graph.loops) + len(graph.forks) + 1
    mark = np.zeros(frames, np.int64)
    mark_saved = np.zeros(frames, np.int64)
    # The arms that cannot run along with the current one: level, first block, end block, core.
    apart = np.empty((frames, 4), np.int64)
    aparts = 0
    # While both arms of a fork are walked in parts: what of the first arms is still to come.
    later = np.zeros((lines, 2), np.int32)
    in_parts = in_first = False
    around = np.zeros(levels, np.int64)  # level -> number of the loop
    current = np.zeros(lines, np.int32)  # position of the next event of each line
    found_first, found_second = np.empty(limit, np.int32), np.empty(limit, np.int32)
    found_level, found_lag = np.empty(limit, np.int32), np.empty(limit, np.int32)
    count = 0
    walks = 0
    asking = False
    while True:
        changed = False
        level = 0
        depth = 0
        aparts = 0
        logged = saved = 0
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
                    log_cell, log_old = grown_ids(log_cell, logged + need), grown(log_old, logged + need)
                    for k in range(graph.wait_starts[event], graph.wait_starts[event + 1]):
                        note = graph.wait_note[k]
                        known = 3 * (min(level, note_depth[note]) + 1) * lines
                        logged = learn(
                            know, mine, notes, note * size, known, depth > 0, log_cell, log_old, logged, room
                        )
                    for k in range(graph.carried_starts[event], graph.carried_starts[event + 1]):
                        edge = graph.carried[k]
                        target = mine + (3 * graph.edge_level[edge] + 1) * lines
                        source = 2 * edge * lines
                        logged = learn(
                            know, target, back.edges, source, 2 * lines, depth > 0, log_cell, log_old, logged, room
                        )
                    for k in range(graph.read_starts[event], graph.read_starts[event + 1]):
                        source = graph.read[k] * size
                        logged = learn(know, mine, know, source, span, depth > 0, log_cell, log_old, logged, room)
                    if meet >= 0:
                        if graph.meet_fork[meet] >= 0:
                            logged = meet_apart(
                                graph, know, size, level, meet, depth > 0, log_cell, log_old, logged, room
                            )
                        else:
                            logged = meet_all(
                                graph, know, size, span, meet, depth > 0, log_cell, log_old, logged, room
                            )
                        for k in range(graph.meet_starts[meet], graph.meet_starts[meet + 1]):
                            # A line knows of its own core alone that the meeting is over.
                            row, met, note = graph.meet_lines[k], graph.meet_event[k], graph.meet_note[k]
                            if asking and graph.holder[met] == row:
                                for m in range(queries.starts[met], queries.starts[met + 1]):
                                    count = ask(
                                        graph,
                                        queries,
                                        know,
                                        levels,
                                        level,
                                        row,
                                        graph.line[met],
                                        around,
                                        current,
                                        later,
                                        apart,
                                        aparts,
                                        queries.access[m],
                                        count,
                                        limit,
                                        found_first,
                                        found_second,
                                        found_level,
                                        found_lag,
                                    )
                            cell = row * size + 3 * level * lines + graph.line[met]
                            if depth:
                                log_cell[logged] = cell
                                copy(log_old, logged, know, cell)
                                logged += 1
                            add(know, cell, graph.position[met], graph.position[met] + 1, room, pair)
                            if note >= 0:
                                note_depth[note] = level
                                copy_row(notes, note * size, know, row * size, span)
                    if graph.kind[event] != 1:
                        if asking:
                            for k in range(queries.starts[event], queries.starts[event + 1]):
                                count = ask(
                                    graph,
                                    queries,
                                    know,
                                    levels,
                                    level,
                                    holder,
                                    line,
                                    around,
                                    current,
                                    later,
                                    apart,
                                    aparts,
                                    queries.access[k],
                                    count,
                                    limit,
                                    found_first,
                                    found_second,
                                    found_level,
                                    found_lag,
                                )
                        cell = mine + 3 * level * lines + line
                        if depth:
                            log_cell[logged] = cell
                            copy(log_old, logged, know, cell)
                            logged += 1
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
                                logged = learn(know, to, know, mine, span, depth > 0, log_cell, log_old, logged, room)
                    for k in range(graph.write_starts[event], graph.write_starts[event + 1]):
                        to, source = graph.write[k] * size, graph.write_from[k] * size
                        logged = tell(know, to, know, source, span, depth > 0, log_cell, log_old, logged)
                    note = graph.note[event]
                    if note >= 0:
                        note_depth[note] = level
                        copy_row(notes, note * size, know, mine, span)
            elif what == 1:  # a fork begins
                mark[depth] = logged
                mark_saved[depth] = saved
                depth += 1
            elif what == 2:  # its second arm begins: put the changes of the first aside
                frame = depth - 1
                stamps += 1
                need = saved + logged - mark[frame]
                saved_cell = grown_ids(saved_cell, need)
                saved_value, saved_old = grown(saved_value, need), grown(saved_old, need)
                for k in range(mark[frame], logged):
                    cell = log_cell[k]
                    if stamp[cell] == stamps or (cell // (3 * lines)) % levels > level:
                        continue
                    stamp[cell] = stamps
                    saved_cell[saved] = cell
                    copy(saved_value, saved, know, cell)
                    copy(saved_old, saved, log_old, k)
                    saved += 1
                for k in range(mark_saved[frame], saved):
                    copy(know, saved_cell[k], saved_old, k)
                logged = mark[frame]
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
                for k in range(mark_saved[frame], saved):
                    stamp[saved_cell[k]] = stamps
                    where[saved_cell[k]] = k
                # Cells that the second arm changed alone join the list, with the value that they began with.
                need = saved + logged - mark[frame]
                saved_cell = grown_ids(saved_cell, need)
                saved_value, saved_old = grown(saved_value, need), grown(saved_old, need)
                for k in range(mark[frame], logged):
                    cell = log_cell[k]
                    if stamp[cell] == stamps or (cell // (3 * lines)) % levels > level:
                        continue
                    stamp[cell] = stamps
                    saved_cell[saved] = cell
                    copy(saved_value, saved, log_old, k)
                    copy(saved_old, saved, log_old, k)
                    saved += 1
                logged = mark[frame]
                need = logged + saved - mark_saved[frame]
                log_cell, log_old = grown_ids(log_cell, need), grown(log_old, need)
                for k in range(mark_saved[frame], saved):
                    cell = saved_cell[k]
                    if (cell // lines) % (3 * levels) == 3 * level:
                        other = cell % lines
                        if core < 0 or graph.line_core[other] == core:
                            places = graph.places[other]
                            add(saved_value, k, places[middle], places[end], room, pair)
                            add(know, cell, places[begin], places[middle], room, pair)
                    intersect(know, cell, saved_value, k, room)
                    if depth:
                        log_cell[logged] = cell
                        copy(log_old, logged, saved_old, k)
                        logged += 1
                saved = mark_saved[frame]
                _move_on(graph, current, later, in_first, end, core)
            elif what == 4:  # a loop begins
                mark[depth] = logged
                mark_saved[depth] = saved
                depth += 1
                level += 1
                around[level] = number
                begin, end = graph.loops[number, 0], graph.loops[number, 1]
                log_cell, log_old, logged = enter_loop(
                    graph, back, know, size, level, number, log_cell, log_old, logged, room
                )
                _move_on(graph, current, later, in_first, begin, core)
            elif what == 5:  # a body ends
                begin, frame = graph.loops[number, 0], depth - 1
                log_cell, log_old, logged, fell = end_body(
                    graph, back, know, notes, note_depth, size, level, number, log_cell, log_old, mark[frame], logged,
                    walks >= MOST_WALKS - 1, room,
                )  # fmt: skip
                changed = changed or fell
                _move_on(graph, current, later, in_first, begin, core)
            elif what == 6:  # a loop ends
                depth -= 1
                end = graph.loops[number, 1]
                log_cell, log_old, logged = leave_loop(
                    graph,
                    back,
                    know,
                    notes,
                    note_depth,
                    size,
                    level,
                    number,
                    depth > 0,
                    log_cell,
                    log_old,
                    logged,
                    room,
                )
                level -= 1
                _move_on(graph, current, later, in_first, end, core)
            elif what == 7:  # the arms of all cores begin, to be walked in parts
                in_parts = True
                span = 3 * (level + 1) * lines
                need = logged + span * lines
                log_cell, log_old = grown_ids(log_cell, need), grown(log_old, need)
                begin, middle = graph.forks[number, 0], graph.forks[number, 1]
                for line in range(lines):
                    to = (graph.shadow + line) * size
                    logged = tell(know, to, know, line * size, span, depth > 0, log_cell, log_old, logged)
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
                need = logged + span * lines
                log_cell, log_old = grown_ids(log_cell, need), grown(log_old, need)
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
                                log_cell[logged] = cell
                                copy(log_old, logged, know, cell)
                                logged += 1
                            copy(know, cell, one, 0)
                _move_on(graph, current, later, False, end, core)
        walks += 1
        if asking:
            break
        asking = not changed
    return Open(count, found_first, found_second, found_level, found_lag, walks)


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
