"""Happens-before, for a pair of accesses in constant time: clocks inside a core, bands between cores.

Inside a core the list is a topological order, and an instruction's *clock* says for each engine the last instruction
on it that must be complete before this one starts (its own included): engine order, dependences, barriers and
branches, joined in one scan. `a` comes before `b` by these when `clock[b, engine of a] >= a`.

Every path that leaves a core runs through a rendezvous or a remote signal, so through a node of some *line*: the
barriers of one engine and one set of participants, the arrivals of the `sendrecv`s of one queue, or the instructions
of one queue that a wait of another core is behind. (A wait for a signal further down the list of its own core is
taken for one of another core.) Nodes of a line are in one order. `up` of a node is, for each line, the last node of
it that reaches this one (-1: none), `down` the first that is reachable from it (`NEVER`: none); together they are its
*band*. `a` comes before `b` through another core when `down[a] <= up[b]` on some line: the path goes down to the line
and up from it. That is exact for any set of lines, because the bands are computed on the fused graph of all cores,
not core by core.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.barriers import Barriers
from haulout.checker.order.graph import Graph
from haulout.checker.order.semaphore_counts import Counting
from haulout.checker.order.sendrecv import Meetings
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.support.jit import njit

NEVER = np.iinfo(np.int32).max
"""`down` of a node from which a line is not reachable."""


class Order(NamedTuple):
    """What kernels need to order two accesses; numbers of accesses, instructions and nodes as in `Model`, `Graph`."""

    core: Ids
    """Of each instruction."""
    column: Ids
    """Of each instruction: its engine, as a column of `clock`."""
    queue: Ids
    """Of each instruction."""
    clock: Column
    """int32 [instructions, engines]."""
    up: Column
    """int32 [nodes, lines]."""
    down: Column
    """int32 [nodes, lines]."""
    instruction: Ids
    """Of each access."""
    node: Ids
    """Of each access: where it happens."""
    time: Ints
    """Of each instruction: where the source has it (`faithful.py`), NONE: nowhere."""

    def before(self, first: int, second: int) -> bool:
        """Whether one access happens before another, of two different instructions."""
        i, j = self.instruction[first], self.instruction[second]
        if self.core[i] == self.core[j] and self.clock[j, self.column[i]] >= i:
            return True
        return bool(np.any(self.down[self.node[first]] <= self.up[self.node[second]]))


def build_order(model: Model, graph: Graph, barriers: Barriers, meetings: Meetings, time: Ints) -> Order:
    """Clocks and bands of an acyclic fused graph."""
    columns = int(model.column.max()) + 1 if len(model.column) else 0
    producer_starts, producer = _waits(model, graph)
    clock = _scan_clocks(
        model.core_starts, model.column, model.is_fence, model.is_branch, producer_starts, producer, columns
    )
    line, index, lines = _lines(model, graph, barriers, meetings)
    up, down = _scan_bands(graph.starts, graph.successors, graph.order, line, index, lines)
    node = np.where(model.write, graph.leave[model.instruction], graph.enter[model.instruction]).astype(np.int32)
    return Order(model.core, model.column, model.queue, clock, up, down, model.instruction, node, time)


def _waits(model: Model, graph: Graph) -> tuple[Ints, Ids]:
    """What each instruction waits for on its own core, further up in the list: dependences, and by semaphores."""
    if graph.counting is None:
        return model.producer_starts, model.producer
    inside = np.flatnonzero(~_leads_away(model, graph.counting))
    instruction = np.repeat(np.arange(len(model.rows), dtype=np.int32), np.diff(model.producer_starts))
    instruction = np.append(instruction, graph.counting.instruction[inside])
    producer = np.append(model.producer, graph.counting.producer[inside])
    order = np.argsort(instruction, kind="stable")
    starts = np.searchsorted(instruction[order], np.arange(len(model.rows) + 1)).astype(np.int64)
    return starts, producer[order].astype(np.int32)


def _leads_away(model: Model, counting: Counting) -> Bools:
    """Of the edges of semaphores: those that clocks do not follow, because they leave the core or look ahead."""
    away: Bools = model.core[counting.producer] != model.core[counting.instruction]
    return away | (counting.producer >= counting.instruction) | counting.arrival


def events(model: Model, graph: Graph) -> Ids:
    """All accesses in the order of one schedule: `graph.order`, inside an instruction the reads first."""
    split = graph.enter != graph.leave
    entered = np.full(graph.nodes, -1, np.int32)
    left = np.full(graph.nodes, -1, np.int32)
    entered[graph.enter] = np.arange(len(model.rows), dtype=np.int32)
    meetings = np.flatnonzero(split).astype(np.int32)
    left[graph.leave[meetings]] = meetings
    return _scan_events(graph.order, entered, left, split, model.access_starts, model.write)


def _lines(model: Model, graph: Graph, barriers: Barriers, meetings: Meetings) -> tuple[Ids, Ids, int]:
    """Line and place on it of every node (-1: on none), and how many lines there are."""
    line, index = np.full(graph.nodes, -1, np.int32), np.full(graph.nodes, -1, np.int32)
    node = graph.enter[barriers.instruction]
    line[node], index[node] = barriers.line, barriers.index
    queues, which = np.unique(model.queue[meetings.instruction], return_inverse=True)
    arrival = graph.enter[meetings.instruction]
    line[arrival] = barriers.lines + which
    # Any number that rises along the queue will do: the place among all meetings.
    index[arrival] = np.arange(len(arrival))
    lines = barriers.lines + len(queues)
    if graph.counting is not None:
        # Arrivals have a line already, and so may barriers.
        counting = graph.counting
        signal = np.unique(counting.producer[_leads_away(model, counting) & ~counting.arrival])
        signal = signal[line[graph.leave[signal]] < 0]
        queues, which = np.unique(model.queue[signal], return_inverse=True)
        line[graph.leave[signal]], index[graph.leave[signal]] = lines + which, signal
        lines += len(queues)
    return line, index, lines


@njit
def _scan_clocks(
    core_starts: Ints,
    column: Ids,
    fence: Bools,
    branch: Bools,
    producer_starts: Ints,
    producer: Ids,
    columns: int,
) -> Column:
    """For each instruction and engine, the last instruction on it that is complete when this one is."""
    clock = np.full((len(column), columns), -1, np.int32)
    floor = np.empty(columns, np.int32)  # what the newest fence or branch has waited for, itself included
    last = np.empty(columns, np.int32)  # the newest instruction of each engine
    for core in range(len(core_starts) - 1):
        floor[:] = -1
        last[:] = -1
        for i in range(core_starts[core], core_starts[core + 1]):
            own = column[i]
            if fence[i]:
                last[own] = i
                for e in range(columns):
                    floor[e] = last[e]
                    clock[i, e] = last[e]
                continue
            previous = last[own]
            if previous >= 0:
                for e in range(columns):
                    clock[i, e] = max(floor[e], clock[previous, e])
            else:
                for e in range(columns):
                    clock[i, e] = floor[e]
            for k in range(producer_starts[i], producer_starts[i + 1]):
                j = producer[k]
                for e in range(columns):
                    if clock[j, e] > clock[i, e]:
                        clock[i, e] = clock[j, e]
            clock[i, own] = i
            last[own] = i
            if branch[i]:
                for e in range(columns):
                    floor[e] = clock[i, e]
    return clock


@njit
def _scan_bands(
    starts: Ints, successors: Ids, order: Ids, line: Ids, index: Ids, lines: int
) -> tuple[Column, Column]:
    """`up` by one pass over the topological order, `down` by one pass back."""
    nodes = len(order)
    up = np.full((nodes, lines), -1, np.int32)
    down = np.full((nodes, lines), NEVER, np.int32)
    if lines == 0:
        return up, down
    for at in range(nodes):
        v = order[at]
        if line[v] >= 0:
            up[v, line[v]] = index[v]
        for e in range(starts[v], starts[v + 1]):
            w = successors[e]
            for k in range(lines):
                if up[v, k] > up[w, k]:
                    up[w, k] = up[v, k]
    for at in range(nodes - 1, -1, -1):
        v = order[at]
        for e in range(starts[v], starts[v + 1]):
            w = successors[e]
            for k in range(lines):
                if down[w, k] < down[v, k]:
                    down[v, k] = down[w, k]
        if line[v] >= 0:
            down[v, line[v]] = index[v]
    return up, down


@njit
def _scan_events(order: Ids, entered: Ids, left: Ids, split: Bools, access_starts: Ints, write: Bools) -> Ids:
    """Accesses node by node; a split instruction reads at its first node and writes at its second."""
    events = np.empty(len(write), np.int32)
    count = 0
    for at in range(len(order)):
        i = entered[order[at]]
        if i >= 0:
            for a in range(access_starts[i], access_starts[i + 1]):
                if not (split[i] and write[a]):
                    events[count] = a
                    count += 1
        i = left[order[at]]
        if i >= 0:
            for a in range(access_starts[i], access_starts[i + 1]):
                if write[a]:
                    events[count] = a
                    count += 1
    return events
