"""Loops in the walk of `claims.py`: what is claimed at the start of an iteration, and what is left of it behind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.flow.graph import Graph
from haulout.checker.flow.intervals import add, assign, clear, clip, contains, copy, intersect, unite
from haulout.checker.flow.learning import Log, keep, with_room
from haulout.ir.schema import Column, Ints
from haulout.support.jit import njit


class Back(NamedTuple):
    """What is claimed at the start of an iteration: less after each walk."""

    starts: Ints
    cells: Column
    """Loop n has cells from `starts[n]` on, by (row, lag 1 or 2, active line)."""
    outer_starts: Ints
    outer: Column
    """Rows of semaphores forget: what those written in a loop claim of outer loops may fall, too."""
    edges: Column
    """By (carried edge, lag 1 or 2, line)."""
    active: Column
    actives: Ints
    """Lines that do something in each loop, and how many."""
    first: Ints
    last: Ints
    """Lines `first[n]:last[n]` run loop n."""


@njit
def _row(graph: Graph, number: int, at: int, last: int) -> int:
    """The row of claims of a loop's line or, behind its last line, of what its body writes."""
    if at < last:
        return at + int(graph.shift[number])
    return int(graph.written[graph.written_starts[number] + at - last])


@njit
def find_back(graph: Graph, levels: int) -> Back:
    """At first everything is claimed."""
    lines = len(graph.line_core)
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
    outer_back = np.empty((outer_starts[loops], 8), np.int32)
    for cell in range(len(outer_back)):
        assign(outer_back, cell, 0, 2147483646)
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

    return Back(back_starts, back, outer_starts, outer_back, edge_cells, active, actives, firsts, ends)


@njit
def enter_loop(
    graph: Graph, back: Back, know: Column, size: int, level: int, number: int, log: Log, room: Column
) -> Log:
    """Begin with a level that claims what the end of the body says; the log, grown."""
    lines, levels = len(graph.line_core), graph.depth + 1
    first, last, actives = back.first[number], back.last[number], back.actives[number]
    begin, end, trip = graph.loops[number, 0], graph.loops[number, 1], graph.loops[number, 2]
    written = graph.written_starts[number + 1] - graph.written_starts[number]
    cell = back.starts[number]
    need = written * level * 3 * lines
    log = with_room(log, need)
    for k in range(written):
        base = graph.written[graph.written_starts[number] + k] * levels * 3 * lines
        for m in range(level * 3 * lines):
            at = back.outer_starts[number] + k * levels * 3 * lines + m
            if not contains(back.outer, at, know, base + m):
                keep(log, base + m, know, base + m)
                intersect(know, base + m, back.outer, at, room)
    for turn in range(last - first + written):
        row = _row(graph, number, first + turn, last)
        for lag in range(1, 3):
            target = ((row * levels + level) * 3 + lag) * lines
            for k in range(actives):
                other = back.active[number, k]
                if trip == 0 or trip == 1:  # no iteration follows another
                    assign(know, target + other, graph.places[other, begin], graph.places[other, end])
                else:
                    copy(know, target + other, back.cells, cell)
                cell += 1
        for k in range(actives):
            clear(know, ((row * levels + level) * 3) * lines + back.active[number, k])
    return log


@njit
def end_body(
    graph: Graph,
    back: Back,
    know: Column,
    notes: Column,
    note_depth: Ints,
    size: int,
    level: int,
    number: int,
    log: Log,
    since: int,
    give_up: bool,
    room: Column,
) -> tuple[Log, bool]:
    """Go on to the header's last run, with changes logged `since` the loop began; the log, grown, and whether the
    next walk has to claim less.
    """
    changed = False
    one, two, pair = np.empty((1, 8), np.int32), np.empty((1, 8), np.int32), np.empty((1, 8), np.int32)
    outer_end = np.empty((0, 8), np.int32)
    lines, levels = len(graph.line_core), graph.depth + 1
    first, last, actives = back.first[number], back.last[number], back.actives[number]
    begin, end, trip = graph.loops[number, 0], graph.loops[number, 1], graph.loops[number, 2]
    written = graph.written_starts[number + 1] - graph.written_starts[number]
    for at in range(graph.edge_starts[number], graph.edge_starts[number + 1]):
        edge = graph.edge[at]
        if graph.edge_void[edge]:
            continue
        note = graph.edge_note[edge]
        source = note * size + level * 3 * lines
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
                if not contains(new, 0, back.edges, cell):
                    changed = True
                    intersect(back.edges, cell, new, 0, room)
                    if give_up:
                        clear(back.edges, cell)
    cell = back.starts[number]
    for k in range(written):
        base = graph.written[graph.written_starts[number] + k] * levels * 3 * lines
        for m in range(level * 3 * lines):
            at = back.outer_starts[number] + k * levels * 3 * lines + m
            if not contains(know, base + m, back.outer, at):
                changed = True
                intersect(back.outer, at, know, base + m, room)
                if give_up:
                    clear(back.outer, at)
    for turn in range(last - first + written):
        row = _row(graph, number, first + turn, last)
        base = ((row * levels + level) * 3) * lines
        for k in range(actives):
            other = back.active[number, k]
            copy(one, 0, know, base + other)
            copy(two, 0, know, base + lines + other)
            intersect(two, 0, know, base + 2 * lines + other, room)
            if trip == 1:
                assign(two, 0, graph.places[other, begin], graph.places[other, end])
            for lag in range(2):
                at = cell + lag * actives + k
                new = one if lag == 0 else two
                if not contains(new, 0, back.cells, at):
                    changed = True
                    intersect(back.cells, at, new, 0, room)
                    if give_up:
                        clear(back.cells, at)
                if trip == 0:
                    assign(new, 0, graph.places[other, begin], graph.places[other, end])
                copy(know, base + (lag + 1) * lines + other, new, 0)
            clear(know, base + other)
        cell += 2 * actives
    if trip <= 0:  # it may not run: outer claims are those of before
        if trip < 0 and written:
            outer_end = np.empty((written * level * 3 * lines, 8), np.int32)
            for k in range(written):
                base = graph.written[graph.written_starts[number] + k] * levels * 3 * lines
                for m in range(level * 3 * lines):
                    copy(outer_end, k * level * 3 * lines + m, know, base + m)
        for k in range(log.size[0] - 1, since - 1, -1):
            cell = log.cell[k]
            if (cell // (3 * lines)) % levels < level:
                copy(know, cell, log.old, k)
        log.size[0] = since
        if trip < 0 and written:
            log = with_room(log, written * level * 3 * lines)
            for k in range(written):
                base = graph.written[graph.written_starts[number] + k] * levels * 3 * lines
                for m in range(level * 3 * lines):
                    at = k * level * 3 * lines + m
                    if not contains(outer_end, at, know, base + m):
                        keep(log, base + m, know, base + m)
                        intersect(know, base + m, outer_end, at, room)
    return log, changed


@njit
def leave_loop(
    graph: Graph,
    back: Back,
    know: Column,
    notes: Column,
    note_depth: Ints,
    size: int,
    level: int,
    number: int,
    log: Log,
    logs: bool,
    room: Column,
) -> Log:
    """Make one claim of all iterations; the log, grown."""
    pair = np.empty((1, 8), np.int32)
    lines, levels = len(graph.line_core), graph.depth + 1
    first, last, actives = back.first[number], back.last[number], back.actives[number]
    begin, end = graph.loops[number, 0], graph.loops[number, 1]
    written = graph.written_starts[number + 1] - graph.written_starts[number]
    need = (last - first + written) * actives
    log = with_room(log, need)
    for turn in range(last - first + written):
        row = _row(graph, number, first + turn, last)
        base = ((row * levels + level) * 3) * lines
        for k in range(actives):
            other = back.active[number, k]
            add(know, base + other, graph.places[other, begin + 1], graph.places[other, end], room, pair)
            intersect(know, base + other, know, base + lines + other, room)
            intersect(know, base + other, know, base + 2 * lines + other, room)
            target = base - 3 * lines + other
            if not contains(know, target, know, base + other):
                if logs:
                    keep(log, target, know, target)
                unite(know, target, know, base + other, room)
            for lag in range(3):
                clear(know, base + lag * lines + other)
    for at in range(graph.left_starts[number], graph.left_starts[number + 1]):
        note = graph.left[at]
        base = note * size + level * 3 * lines
        for other in range(first, last):
            add(notes, base + other, graph.places[other, begin + 1], graph.places[other, end], room, pair)
            intersect(notes, base + other, notes, base + lines + other, room)
            intersect(notes, base + other, notes, base + 2 * lines + other, room)
            unite(notes, base - 3 * lines + other, notes, base + other, room)
        note_depth[note] = level - 1
    return log
