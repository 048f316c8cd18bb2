"""What each line knows to be complete, at every event of a text: claims, by one walk to a fixpoint.

A line runs in order, so what it knows of another line is nearly always all positions up to one. It is a *claim*:
every instance of those events is complete *if it exists*. Of an arm that is not taken, and of iterations before the
first, everything may be claimed. What a line knows, one *cell* of intervals (`intervals.py`) each:

    know[line, level, lag, other]   the events of another line in the iteration `lag` back of the loop around at that
                                    level (level 0: the whole function, lag 0). Lag 2 stands for all from there on;
                                    lag 0 leaves out the next inner loop around, which has its own level.

    an event       its line learns what the events know that it waits for; then it is complete
    a barrier      its lines learn what any of them knows
    a branch       all other lines of its core learn what it knows
    a fork         both arms begin alike. Behind it holds what holds at the end of both, where each claims the events
                   of the other
    a loop         begins with a level that claims all of its events, at both lags, and less after each walk: what the
                   end of its body says of the iteration before. Behind its header's last run that becomes one claim,
                   of what is complete in all iterations

Every walk begins with at least what the next one will claim, and nothing rises, so walks end with a fixpoint. By
induction along a run each step then claims no more than what every run that comes there guarantees: the last walk's
claims are true. Cells that still fall in walk `MOST_WALKS` are given up.

A dependence reads the newest copy of its producer, which dominates it: what that knew is kept as a *note* until its
last reader. A `carried` one reads what the copy in the previous iteration of the loop around both knew, of that loop
alone: in the first iteration there is none.

To undo what an arm or a body did, every change inside is logged with the cell's old value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.flow.intervals import (
    add,
    assign,
    clear,
    clip,
    contains,
    copy,
    equal,
    intersect,
    is_empty,
    unite,
)
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.support.jit import njit

LAGS = 3
MOST_WALKS = 32


class Graph(NamedTuple):
    """A text and what its events wait for, as columns for the kernel."""

    steps: Column
    loops: Column
    forks: Column
    places: Column
    schedule: Ids
    line: Ids
    position: Ids
    kind: Ids
    """Of each event: 0 ordinary, 1 of a barrier, 2 a branch."""
    meet_starts: Ints
    meet_lines: Ids
    """Of each barrier: the lines that meet ..."""
    meet_note: Ids
    """... and the note that the barrier leaves on each, -1."""
    meet_of: Ids
    """Of each event: its barrier, when it is the last of its events in the schedule; -1."""
    line_core: Ids
    core_lines: Ids
    """Lines are numbered core after core: core c has `core_lines[c]:core_lines[c + 1]`."""
    wait_starts: Ints
    wait_note: Ids
    """Events wait for notes ..."""
    carried_starts: Ints
    carried: Ids
    """... and for carried edges."""
    note: Ids
    """Of each event: the note that it leaves, -1."""
    notes: int
    left_starts: Ints
    left: Ids
    """Of each loop of the steps: notes of its header, which are read behind it."""
    edge_starts: Ints
    edge: Ids
    """Of each loop of the steps: the carried edges over its iterations."""
    edge_note: Ids
    edge_level: Ids
    """Of each carried edge: how many loops are around, its own included."""
    edge_low: Ids
    edge_high: Ids
    """Of each carried edge: the blocks whose events alone it may claim, when its producer is in an arm; -1: any."""
    edge_void: Bools
    """Of each carried edge: nothing is claimed."""
    depth: int
    row_core: Ids
    """Of each row that knows: the lines, then those of semaphores (`counts.py`)."""
    read_starts: Ints
    read: Ids
    """Events wait for what rows of semaphores know ..."""
    write_starts: Ints
    write: Ids
    write_from: Ids
    """... and write them, with what another row knows, or with what they know themselves: -1."""
    written_starts: Ints
    written: Ids
    """Of each loop of the steps: the rows of semaphores that are written inside."""


class Queries(NamedTuple):
    """The accesses of events and which may touch the same bytes, under *keys*."""

    starts: Ints
    access: Ids
    """Event e has accesses `access[starts[e]:starts[e + 1]]`."""
    write: Bools
    """Of each access."""
    key_starts: Ints
    key: Ids
    """Of each access: the keys under which others are found."""
    any_starts: Ints
    any_line: Ids
    any_of: Ints
    any_position: Ids
    any_access: Ids
    """All accesses by (key, line): key k has groups `any_starts[k]:any_starts[k + 1]`, group g the line `any_line[g]`
    and the rows `any_of[g]:any_of[g + 1]` of the last two, ascending."""
    write_starts: Ints
    write_line: Ids
    write_of: Ints
    write_position: Ids
    write_access: Ids
    """The same of writes alone."""


class Open(NamedTuple):
    """Pairs that are not claimed to be ordered."""

    total: int
    first: Ids
    second: Ids
    level: Ids
    lag: Ids
    walks: int


@njit
def _grown(table: Column, need: int) -> Column:
    more = np.empty((max(2 * table.shape[0], need), table.shape[1]), table.dtype)
    more[: table.shape[0]] = table
    return more


@njit
def _grown_ids(column: Ints, need: int) -> Ints:
    more = np.empty(max(2 * len(column), need), column.dtype)
    more[: len(column)] = column
    return more


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
    per_note = levels * 3 * lines
    notes = np.empty((graph.notes * per_note, 8), np.int32)
    note_depth = np.zeros(max(graph.notes, 1), np.int64)
    # BACK: of each loop, by (line, lag 1 or 2, other): what it claims at the start of an iteration.
    loops = len(graph.loops)
    back_starts, outer_starts = np.zeros(loops + 1, np.int64), np.zeros(loops + 1, np.int64)
    active = np.empty((loops, lines), np.int32)
    actives = np.zeros(loops, np.int64)
    firsts, ends = np.empty(loops, np.int64), np.empty(loops, np.int64)
    for number in range(loops):
        begin, end, core = graph.loops[number, 0], graph.loops[number, 1], graph.loops[number, 3]
        firsts[number], ends[number] = 0, lines
        if core >= 0:
            firsts[number], ends[number] = graph.core_lines[core], graph.core_lines[core + 1]
        for other in range(firsts[number], ends[number]):
            if graph.places[other, begin] < graph.places[other, end]:
                active[number, actives[number]] = other
                actives[number] += 1
        written = graph.written_starts[number + 1] - graph.written_starts[number]
        back_starts[number + 1] = (
            back_starts[number] + (ends[number] - firsts[number] + written) * 2 * actives[number]
        )
        outer_starts[number + 1] = outer_starts[number] + written * levels * 3 * lines
    back = np.empty((back_starts[loops], 8), np.int32)
    # Rows of semaphores forget: what they claim of outer loops at the start of an iteration may fall, too.
    outer_back = np.empty((outer_starts[loops], 8), np.int32)
    for cell in range(len(outer_back)):
        assign(outer_back, cell, 0, 2147483646)
    outer_end = np.empty((levels * 3 * lines, 8), np.int32)
    edge_cells = np.empty((len(graph.edge_note) * 2 * lines, 8), np.int32)
    for number in range(loops):
        begin, end = graph.loops[number, 0], graph.loops[number, 1]
        cell = back_starts[number]
        written = graph.written_starts[number + 1] - graph.written_starts[number]
        for _row in range(2 * (ends[number] - firsts[number] + written)):
            for k in range(actives[number]):
                other = active[number, k]
                assign(back, cell, graph.places[other, begin], graph.places[other, end])
                cell += 1
        for at in range(graph.edge_starts[number], graph.edge_starts[number + 1]):
            cell = graph.edge[at] * 2 * lines
            for k in range(2 * lines):
                clear(edge_cells, cell + k)
            if graph.edge_void[graph.edge[at]]:
                continue
            for k in range(actives[number]):
                other = active[number, k]
                for lag in range(2):
                    low, high = graph.places[other, begin], graph.places[other, end]
                    assign(edge_cells, cell + lag * lines + other, low, high)

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
        for cell in range(len(know)):
            clear(know, cell)
        for step in range(len(graph.steps)):
            what, number, core = graph.steps[step, 0], graph.steps[step, 1], graph.steps[step, 2]
            if what == 0:
                for at in range(number, core):
                    event = graph.schedule[at]
                    line = graph.line[event]
                    meet = graph.meet_of[event]
                    span = 3 * (level + 1) * lines
                    # What it waits for.
                    need = span * (1 + graph.wait_starts[event + 1] - graph.wait_starts[event])
                    need += 2 * lines * (graph.carried_starts[event + 1] - graph.carried_starts[event])
                    if meet >= 0:
                        need += span * (graph.meet_starts[meet + 1] - graph.meet_starts[meet])
                    if graph.kind[event] == 2:
                        need += span * lines
                    need += span * (graph.read_starts[event + 1] - graph.read_starts[event])
                    need += span * (graph.write_starts[event + 1] - graph.write_starts[event])
                    need += 2
                    if logged + need > len(log_cell):
                        log_cell = _grown_ids(log_cell, logged + need)
                        log_old = _grown(log_old, logged + need)
                    for k in range(graph.wait_starts[event], graph.wait_starts[event + 1]):
                        note = graph.wait_note[k]
                        for lev in range(min(level, note_depth[note]) + 1):
                            for lag in range(3 if lev else 1):
                                source = note * per_note + (lev * 3 + lag) * lines
                                target = ((line * levels + lev) * 3 + lag) * lines
                                for other in range(lines):
                                    if not is_empty(notes, source + other) and not contains(
                                        know, target + other, notes, source + other
                                    ):
                                        if depth:
                                            log_cell[logged] = target + other
                                            copy(log_old, logged, know, target + other)
                                            logged += 1
                                        unite(know, target + other, notes, source + other, room)
                    for k in range(graph.carried_starts[event], graph.carried_starts[event + 1]):
                        edge = graph.carried[k]
                        lev = graph.edge_level[edge]
                        for lag in range(1, 3):
                            source = (edge * 2 + lag - 1) * lines
                            target = ((line * levels + lev) * 3 + lag) * lines
                            for other in range(lines):
                                if not contains(know, target + other, edge_cells, source + other):
                                    if depth:
                                        log_cell[logged] = target + other
                                        copy(log_old, logged, know, target + other)
                                        logged += 1
                                    unite(know, target + other, edge_cells, source + other, room)
                    for k in range(graph.read_starts[event], graph.read_starts[event + 1]):
                        for lev in range(level + 1):
                            for lag in range(3 if lev else 1):
                                source = ((graph.read[k] * levels + lev) * 3 + lag) * lines
                                target = ((line * levels + lev) * 3 + lag) * lines
                                for other in range(lines):
                                    if not contains(know, target + other, know, source + other):
                                        if depth:
                                            log_cell[logged] = target + other
                                            copy(log_old, logged, know, target + other)
                                            logged += 1
                                        unite(know, target + other, know, source + other, room)
                    if graph.kind[event] == 1:
                        if meet >= 0:
                            for lev in range(level + 1):
                                for lag in range(3 if lev else 1):
                                    for other in range(lines):
                                        clear(one, 0)
                                        for k in range(graph.meet_starts[meet], graph.meet_starts[meet + 1]):
                                            cell = ((graph.meet_lines[k] * levels + lev) * 3 + lag) * lines + other
                                            if not contains(one, 0, know, cell):
                                                unite(one, 0, know, cell, room)
                                        if is_empty(one, 0):
                                            continue
                                        for k in range(graph.meet_starts[meet], graph.meet_starts[meet + 1]):
                                            cell = ((graph.meet_lines[k] * levels + lev) * 3 + lag) * lines + other
                                            if not equal(know, cell, one, 0):
                                                if depth:
                                                    log_cell[logged] = cell
                                                    copy(log_old, logged, know, cell)
                                                    logged += 1
                                                copy(know, cell, one, 0)
                            for k in range(graph.meet_starts[meet], graph.meet_starts[meet + 1]):
                                note = graph.meet_note[k]
                                if note >= 0:
                                    note_depth[note] = level
                                    source = graph.meet_lines[k] * levels * 3 * lines
                                    for m in range(span):
                                        copy(notes, note * per_note + m, know, source + m)
                        current[line] = graph.position[event] + 1
                    else:
                        if asking:
                            for k in range(queries.starts[event], queries.starts[event + 1]):
                                count = _ask(
                                    graph,
                                    queries,
                                    know,
                                    levels,
                                    level,
                                    line,
                                    around,
                                    current,
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
                        cell = ((line * levels + level) * 3) * lines + line
                        if depth:
                            log_cell[logged] = cell
                            copy(log_old, logged, know, cell)
                            logged += 1
                        add(know, cell, graph.position[event], graph.position[event] + 1, room, pair)
                        current[line] = graph.position[event] + 1
                    if graph.kind[event] == 2:
                        of = graph.line_core[line]
                        for mine in range(graph.core_lines[of], graph.core_lines[of + 1]):
                            if mine == line:
                                continue
                            for lev in range(level + 1):
                                for lag in range(3 if lev else 1):
                                    source = ((line * levels + lev) * 3 + lag) * lines
                                    target = ((mine * levels + lev) * 3 + lag) * lines
                                    for other in range(lines):
                                        if not contains(know, target + other, know, source + other):
                                            if depth:
                                                log_cell[logged] = target + other
                                                copy(log_old, logged, know, target + other)
                                                logged += 1
                                            unite(know, target + other, know, source + other, room)
                    for k in range(graph.write_starts[event], graph.write_starts[event + 1]):
                        teller = graph.write_from[k] if graph.write_from[k] >= 0 else line
                        for lev in range(level + 1):
                            for lag in range(3 if lev else 1):
                                source = ((teller * levels + lev) * 3 + lag) * lines
                                target = ((graph.write[k] * levels + lev) * 3 + lag) * lines
                                for other in range(lines):
                                    if not equal(know, target + other, know, source + other):
                                        if depth:
                                            log_cell[logged] = target + other
                                            copy(log_old, logged, know, target + other)
                                            logged += 1
                                        copy(know, target + other, know, source + other)
                    note = graph.note[event]
                    if note >= 0:
                        note_depth[note] = level
                        source = line * levels * 3 * lines
                        for k in range(span):
                            copy(notes, note * per_note + k, know, source + k)
            elif what == 1:  # a fork begins
                mark[depth] = logged
                mark_saved[depth] = saved
                depth += 1
            elif what == 2:  # its second arm begins: put the changes of the first aside
                frame = depth - 1
                stamps += 1
                if saved + logged - mark[frame] > len(saved_cell):
                    need = saved + logged - mark[frame]
                    saved_cell = _grown_ids(saved_cell, need)
                    saved_value, saved_old = _grown(saved_value, need), _grown(saved_old, need)
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
                _move_on(graph, current, graph.forks[number, 1], core)
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
                if saved + logged - mark[frame] > len(saved_cell):
                    need = saved + logged - mark[frame]
                    saved_cell = _grown_ids(saved_cell, need)
                    saved_value, saved_old = _grown(saved_value, need), _grown(saved_old, need)
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
                if logged + saved - mark_saved[frame] > len(log_cell):
                    need = logged + saved - mark_saved[frame]
                    log_cell = _grown_ids(log_cell, need)
                    log_old = _grown(log_old, need)
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
                _move_on(graph, current, end, core)
            elif what == 4:  # a loop begins
                mark[depth] = logged
                mark_saved[depth] = saved
                depth += 1
                level += 1
                around[level] = number
                begin, end, trip = graph.loops[number, 0], graph.loops[number, 1], graph.loops[number, 2]
                cell = back_starts[number]
                written = graph.written_starts[number + 1] - graph.written_starts[number]
                need = written * level * 3 * lines
                if logged + need > len(log_cell):
                    log_cell = _grown_ids(log_cell, logged + need)
                    log_old = _grown(log_old, logged + need)
                for k in range(written):
                    base = graph.written[graph.written_starts[number] + k] * levels * 3 * lines
                    for m in range(level * 3 * lines):
                        at = outer_starts[number] + k * levels * 3 * lines + m
                        if not contains(outer_back, at, know, base + m):
                            log_cell[logged] = base + m
                            copy(log_old, logged, know, base + m)
                            logged += 1
                            intersect(know, base + m, outer_back, at, room)
                for turn in range(ends[number] - firsts[number] + written):
                    line = firsts[number] + turn
                    if line >= ends[number]:
                        line = graph.written[graph.written_starts[number] + line - ends[number]]
                    for lag in range(1, 3):
                        target = ((line * levels + level) * 3 + lag) * lines
                        for k in range(actives[number]):
                            other = active[number, k]
                            if trip == 0 or trip == 1:  # no iteration follows another
                                assign(know, target + other, graph.places[other, begin], graph.places[other, end])
                            else:
                                copy(know, target + other, back, cell)
                            cell += 1
                    for k in range(actives[number]):
                        clear(know, ((line * levels + level) * 3) * lines + active[number, k])
                _move_on(graph, current, begin, core)
            elif what == 5:  # a body ends
                frame = depth - 1
                begin, end, trip = graph.loops[number, 0], graph.loops[number, 1], graph.loops[number, 2]
                for at in range(graph.edge_starts[number], graph.edge_starts[number + 1]):
                    edge = graph.edge[at]
                    if graph.edge_void[edge]:
                        continue
                    note = graph.edge_note[edge]
                    source = note * per_note + level * 3 * lines
                    low, high = graph.edge_low[edge], graph.edge_high[edge]
                    for other in range(lines):
                        clear(one, 0)
                        clear(two, 0)
                        if note_depth[note] == level:
                            copy(one, 0, notes, source + other)
                            if low >= 0:
                                clip(one, 0, graph.places[other, low], graph.places[other, high], room, pair)
                            else:
                                copy(two, 0, notes, source + lines + other)
                                intersect(two, 0, notes, source + 2 * lines + other, room)
                        if trip == 1:
                            assign(two, 0, graph.places[other, begin], graph.places[other, end])
                        for lag in range(2):
                            cell = (edge * 2 + lag) * lines + other
                            new = one if lag == 0 else two
                            if not contains(new, 0, edge_cells, cell):
                                changed = True
                                intersect(edge_cells, cell, new, 0, room)
                                if walks >= 31:
                                    clear(edge_cells, cell)
                cell = back_starts[number]
                written = graph.written_starts[number + 1] - graph.written_starts[number]
                for k in range(written):
                    base = graph.written[graph.written_starts[number] + k] * levels * 3 * lines
                    for m in range(level * 3 * lines):
                        at = outer_starts[number] + k * levels * 3 * lines + m
                        if not contains(know, base + m, outer_back, at):
                            changed = True
                            intersect(outer_back, at, know, base + m, room)
                            if walks >= 31:
                                clear(outer_back, at)
                for turn in range(ends[number] - firsts[number] + written):
                    line = firsts[number] + turn
                    if line >= ends[number]:
                        line = graph.written[graph.written_starts[number] + line - ends[number]]
                    base = ((line * levels + level) * 3) * lines
                    for k in range(actives[number]):
                        other = active[number, k]
                        copy(one, 0, know, base + other)
                        copy(two, 0, know, base + lines + other)
                        intersect(two, 0, know, base + 2 * lines + other, room)
                        if trip == 1:
                            assign(two, 0, graph.places[other, begin], graph.places[other, end])
                        for lag in range(2):
                            at = cell + lag * actives[number] + k
                            new = one if lag == 0 else two
                            if not contains(new, 0, back, at):
                                changed = True
                                intersect(back, at, new, 0, room)
                                if walks >= 31:
                                    clear(back, at)
                            if trip == 0:
                                assign(new, 0, graph.places[other, begin], graph.places[other, end])
                            copy(know, base + (lag + 1) * lines + other, new, 0)
                        clear(know, base + other)
                    cell += 2 * actives[number]
                if trip <= 0:  # it may not run: outer claims are those of before
                    if trip < 0 and written:
                        if len(outer_end) < written * level * 3 * lines:
                            outer_end = np.empty((written * level * 3 * lines, 8), np.int32)
                        for k in range(written):
                            base = graph.written[graph.written_starts[number] + k] * levels * 3 * lines
                            for m in range(level * 3 * lines):
                                copy(outer_end, k * level * 3 * lines + m, know, base + m)
                    for k in range(logged - 1, mark[frame] - 1, -1):
                        cell = log_cell[k]
                        if (cell // (3 * lines)) % levels < level:
                            copy(know, cell, log_old, k)
                    logged = mark[frame]
                    if trip < 0 and written:
                        need = logged + written * level * 3 * lines
                        if need > len(log_cell):
                            log_cell = _grown_ids(log_cell, need)
                            log_old = _grown(log_old, need)
                        for k in range(written):
                            base = graph.written[graph.written_starts[number] + k] * levels * 3 * lines
                            for m in range(level * 3 * lines):
                                at = k * level * 3 * lines + m
                                if not contains(outer_end, at, know, base + m):
                                    log_cell[logged] = base + m
                                    copy(log_old, logged, know, base + m)
                                    logged += 1
                                    intersect(know, base + m, outer_end, at, room)
                _move_on(graph, current, begin, core)
            elif what == 6:  # a loop ends
                depth -= 1
                begin, end = graph.loops[number, 0], graph.loops[number, 1]
                written = graph.written_starts[number + 1] - graph.written_starts[number]
                need = (ends[number] - firsts[number] + written) * actives[number]
                if logged + need > len(log_cell):
                    log_cell = _grown_ids(log_cell, logged + need)
                    log_old = _grown(log_old, logged + need)
                for turn in range(ends[number] - firsts[number] + written):
                    line = firsts[number] + turn
                    if line >= ends[number]:
                        line = graph.written[graph.written_starts[number] + line - ends[number]]
                    base = ((line * levels + level) * 3) * lines
                    for k in range(actives[number]):
                        other = active[number, k]
                        add(know, base + other, graph.places[other, begin + 1], graph.places[other, end], room, pair)
                        intersect(know, base + other, know, base + lines + other, room)
                        intersect(know, base + other, know, base + 2 * lines + other, room)
                        target = base - 3 * lines + other
                        if not contains(know, target, know, base + other):
                            if depth:
                                log_cell[logged] = target
                                copy(log_old, logged, know, target)
                                logged += 1
                            unite(know, target, know, base + other, room)
                        for lag in range(3):
                            clear(know, base + lag * lines + other)
                for at in range(graph.left_starts[number], graph.left_starts[number + 1]):
                    note = graph.left[at]
                    base = note * per_note + level * 3 * lines
                    for other in range(firsts[number], ends[number]):
                        add(notes, base + other, graph.places[other, begin + 1], graph.places[other, end], room, pair)
                        intersect(notes, base + other, notes, base + lines + other, room)
                        intersect(notes, base + other, notes, base + 2 * lines + other, room)
                        unite(notes, base - 3 * lines + other, notes, base + other, room)
                    note_depth[note] = level - 1
                level -= 1
                _move_on(graph, current, end, core)
        walks += 1
        if asking:
            break
        asking = not changed
    return Open(count, found_first, found_second, found_level, found_lag, walks)


@njit
def _move_on(graph: Graph, current: Ids, block: int, core: int) -> None:
    """Go to the start of a block, on one core or on all."""
    for line in range(len(current)):
        if core < 0 or graph.line_core[line] == core:
            current[line] = graph.places[line, block]


@njit
def _ask(
    graph: Graph,
    queries: Queries,
    know: Column,
    levels: int,
    level: int,
    line: int,
    around: Ints,
    current: Ids,
    apart: Column,
    aparts: int,
    access: int,
    count: int,
    limit: int,
    found_first: Ids,
    found_second: Ids,
    found_level: Ids,
    found_lag: Ids,
) -> int:
    """List the accesses that may conflict with one and are not claimed to be complete."""
    lines = len(graph.line_core)
    writes = queries.write[access]
    starts = queries.any_starts if writes else queries.write_starts
    group_line = queries.any_line if writes else queries.write_line
    group_of = queries.any_of if writes else queries.write_of
    positions = queries.any_position if writes else queries.write_position
    accesses = queries.any_access if writes else queries.write_access
    for at in range(queries.key_starts[access], queries.key_starts[access + 1]):
        key = queries.key[at]
        for group in range(starts[key], starts[key + 1]):
            other = group_line[group]
            if other == line:
                continue
            deepest = level  # the innermost level whose iterations the two lines share
            while deepest and 0 <= graph.loops[around[deepest], 3] != graph.line_core[other]:
                deepest -= 1
            for lev in range(deepest + 1):
                for lag in range(3 if lev else 1):
                    low, high = 0, int(current[other])
                    if lev:
                        low = int(graph.places[other, graph.loops[around[lev], 0]])
                    if lag:
                        high = int(graph.places[other, graph.loops[around[lev], 1]])
                    elif lev < deepest:
                        high = min(high, int(graph.places[other, graph.loops[around[lev + 1], 0]]))
                    if low >= high:
                        continue
                    cell = ((line * levels + lev) * 3 + lag) * lines + other
                    pos, k = low, 0
                    while pos < high:
                        while k < 4 and know[cell, 2 * k + 1] <= pos:
                            k += 1
                        stop = high
                        if k < 4:
                            if know[cell, 2 * k] <= pos:
                                pos = int(know[cell, 2 * k + 1])
                                continue
                            stop = min(high, int(know[cell, 2 * k]))
                        begin, end = group_of[group], group_of[group + 1]
                        while begin < end:
                            middle = (begin + end) >> 1
                            if positions[middle] < pos:
                                begin = middle + 1
                            else:
                                end = middle
                        if begin >= group_of[group + 1] or positions[begin] >= stop:
                            pos = stop
                            continue
                        here = int(positions[begin])
                        skip = -1
                        if lag == 0:
                            for f in range(aparts):
                                if apart[f, 0] == lev and (apart[f, 3] < 0 or graph.line_core[other] == apart[f, 3]):
                                    first, last = graph.places[other, apart[f, 1]], graph.places[other, apart[f, 2]]
                                    if first <= here < last:
                                        skip = int(last)
                        if skip >= 0:
                            pos = skip
                            continue
                        while begin < group_of[group + 1] and positions[begin] == here:
                            if count < limit:
                                found_first[count], found_second[count] = accesses[begin], access
                                found_level[count], found_lag[count] = lev, lag
                            count += 1
                            begin += 1
                        pos = here + 1
                        if count > limit:
                            return count
    return count
