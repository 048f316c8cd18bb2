"""How lines learn in the walk of `claims.py`: cells are added to others, and what changes is logged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.flow.graph import Graph
from haulout.checker.flow.intervals import add, clear, contains, copy, equal, intersect, is_empty, unite
from haulout.ir.schema import Column, Ids, Ints
from haulout.support.jit import njit


class Log(NamedTuple):
    """Cells that were changed, and what they were before."""

    cell: Ints
    old: Column
    size: Ints
    """One number: how many."""


class Here(NamedTuple):
    """Where the walk is, and what is known there."""

    know: Column
    around: Ints
    """Level -> number of the loop."""
    current: Ids
    """Position of the next event of each line."""
    later: Column
    """While both arms of a fork are walked in parts: what of the first arms is still to come."""
    apart: Column
    """The arms that cannot run along with the current one: level, first block, end block, core."""


class Found(NamedTuple):
    """Pairs that are not claimed to be ordered, as `Open` has them."""

    first: Ids
    second: Ids
    level: Ids
    lag: Ids
    total: Ints
    """One number: how many, also of those that there is no room for."""


@njit
def new_log() -> Log:
    """Without a change."""
    return Log(np.empty(1024, np.int64), np.empty((1024, 8), np.int32), np.zeros(1, np.int64))


@njit
def new_found(limit: int) -> Found:
    """Room for so many pairs."""
    ids = np.empty((4, limit), np.int32)
    return Found(ids[0], ids[1], ids[2], ids[3], np.zeros(1, np.int64))


@njit
def grown(table: Column, need: int) -> Column:
    """The table with room for so many rows."""
    if need <= table.shape[0]:
        return table
    more = np.empty((max(2 * table.shape[0], need), table.shape[1]), table.dtype)
    more[: table.shape[0]] = table
    return more


@njit
def with_room(log: Log, need: int) -> Log:
    """The log with room for so many changes more."""
    need += log.size[0]
    if need <= len(log.cell):
        return log
    cell = np.empty(max(2 * len(log.cell), need), np.int64)
    cell[: len(log.cell)] = log.cell
    return Log(cell, grown(log.old, len(cell)), log.size)


@njit
def keep(log: Log, cell: int, table: Column, row: int) -> None:
    """Log what a cell was: a row of a table."""
    log.cell[log.size[0]] = cell
    copy(log.old, log.size[0], table, row)
    log.size[0] += 1


@njit
def copy_row(table: Column, to: int, source: Column, at: int, count: int) -> None:
    """Assign `count` cells."""
    for k in range(count):
        copy(table, to + k, source, at + k)


@njit
def learn(know: Column, to: int, source: Column, at: int, count: int, log: Log, logs: bool, room: Column) -> None:
    """Add `count` cells to others."""
    for k in range(count):
        if not is_empty(source, at + k) and not contains(know, to + k, source, at + k):
            if logs:
                keep(log, to + k, know, to + k)
            unite(know, to + k, source, at + k, room)


@njit
def tell(know: Column, to: int, source: Column, at: int, count: int, log: Log, logs: bool) -> None:
    """Replace `count` cells with others."""
    for k in range(count):
        if not equal(know, to + k, source, at + k):
            if logs:
                keep(log, to + k, know, to + k)
            copy(know, to + k, source, at + k)


@njit
def meet_all(graph: Graph, know: Column, size: int, span: int, meet: int, log: Log, logs: bool, room: Column) -> None:
    """All that meet learn what any of them knows."""
    one = np.empty((1, 8), np.int32)
    begin, end = graph.meet_starts[meet], graph.meet_starts[meet + 1]
    for at in range(span):
        clear(one, 0)
        for k in range(begin, end):
            cell = graph.meet_lines[k] * size + at
            if not contains(one, 0, know, cell):
                unite(one, 0, know, cell, room)
        if is_empty(one, 0):
            continue
        for k in range(begin, end):
            tell(know, graph.meet_lines[k] * size + at, one, 0, 1, log, logs)


@njit
def meet_apart(
    graph: Graph, know: Column, size: int, level: int, meet: int, log: Log, logs: bool, room: Column
) -> None:
    """The same in both arms of a fork: of itself a core knows in which it is, of another one what holds in both."""
    lines, cores, fork = len(graph.line_core), len(graph.core_lines) - 1, graph.meet_fork[meet]
    own = np.empty((2 * cores, 8), np.int32)
    told = np.empty((cores, 8), np.int32)
    pair = np.empty((1, 8), np.int32)
    one = np.empty((1, 8), np.int32)
    begin, end = graph.meet_starts[meet], graph.meet_starts[meet + 1]
    first, middle, join = graph.forks[fork, 0], graph.forks[fork, 1], graph.forks[fork, 2]
    for at in range(3 * (level + 1) * lines):
        other = at % lines
        for k in range(2 * cores):
            clear(own, k)
        for k in range(begin, end):
            row = graph.meet_lines[k]
            unite(own, 2 * graph.row_core[row] + (row >= lines), know, row * size + at, room)
        for core in range(cores):
            copy(told, core, own, 2 * core)
            copy(one, 0, own, 2 * core + 1)
            if at // lines == 3 * level and graph.line_core[other] == core:
                places = graph.places[other]
                add(told, core, places[middle], places[join], room, pair)
                add(one, 0, places[first], places[middle], room, pair)
            intersect(told, core, one, 0, room)
        for k in range(begin, end):
            row = graph.meet_lines[k]
            copy(one, 0, own, 2 * graph.row_core[row] + (row >= lines))
            for core in range(cores):
                if core != graph.row_core[row]:
                    unite(one, 0, told, core, room)
            tell(know, row * size + at, one, 0, 1, log, logs)
