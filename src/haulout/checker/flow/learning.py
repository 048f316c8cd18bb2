"""How lines learn in the walk of `claims.py`: cells are added to others, and what changes is logged."""

from __future__ import annotations

import numpy as np

from haulout.checker.flow.graph import Graph
from haulout.checker.flow.intervals import add, clear, contains, copy, equal, intersect, is_empty, unite
from haulout.ir.schema import Column, Ints
from haulout.support.jit import njit


@njit
def grown(table: Column, need: int) -> Column:
    """The table with room for so many rows."""
    if need <= table.shape[0]:
        return table
    more = np.empty((max(2 * table.shape[0], need), table.shape[1]), table.dtype)
    more[: table.shape[0]] = table
    return more


@njit
def grown_ids(column: Ints, need: int) -> Ints:
    """The column with room for so many rows."""
    if need <= len(column):
        return column
    more = np.empty(max(2 * len(column), need), column.dtype)
    more[: len(column)] = column
    return more


@njit
def copy_row(table: Column, to: int, source: Column, at: int, count: int) -> None:
    """Assign `count` cells."""
    for k in range(count):
        copy(table, to + k, source, at + k)


@njit
def learn(
    know: Column,
    to: int,
    source: Column,
    at: int,
    count: int,
    logs: bool,
    log_cell: Ints,
    log_old: Column,
    logged: int,
    room: Column,
) -> int:
    """Add `count` cells to others."""
    for k in range(count):
        if not is_empty(source, at + k) and not contains(know, to + k, source, at + k):
            if logs:
                log_cell[logged] = to + k
                copy(log_old, logged, know, to + k)
                logged += 1
            unite(know, to + k, source, at + k, room)
    return logged


@njit
def tell(
    know: Column,
    to: int,
    source: Column,
    at: int,
    count: int,
    logs: bool,
    log_cell: Ints,
    log_old: Column,
    logged: int,
) -> int:
    """Replace `count` cells with others."""
    for k in range(count):
        if not equal(know, to + k, source, at + k):
            if logs:
                log_cell[logged] = to + k
                copy(log_old, logged, know, to + k)
                logged += 1
            copy(know, to + k, source, at + k)
    return logged


@njit
def meet_all(
    graph: Graph,
    know: Column,
    size: int,
    span: int,
    meet: int,
    logs: bool,
    log_cell: Ints,
    log_old: Column,
    logged: int,
    room: Column,
) -> int:
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
            logged = tell(know, graph.meet_lines[k] * size + at, one, 0, 1, logs, log_cell, log_old, logged)
    return logged


@njit
def meet_apart(
    graph: Graph,
    know: Column,
    size: int,
    level: int,
    meet: int,
    logs: bool,
    log_cell: Ints,
    log_old: Column,
    logged: int,
    room: Column,
) -> int:
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
            logged = tell(know, row * size + at, one, 0, 1, logs, log_cell, log_old, logged)
    return logged
