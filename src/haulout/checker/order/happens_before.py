"""Happens-before, for a pair of accesses in constant time: clocks inside a core, bands between cores.

Inside a core the list is a topological order. The *clock* of an instruction gives for each engine the last
instruction on it that must be complete before this one starts (its own included): engine order, dependences, barriers
and branches, joined in one scan. `a` comes before `b` by these when `clock[b, engine of a] >= a`.

Every path that leaves a core goes through a rendezvous or a remote signal, so through a node of some *chain*: the
barriers of one engine and one set of participants, the arrivals of the `sendrecv`s of one queue, or the instructions
of one queue whose signals a wait of another core needs. (A wait for a signal further down the list of its own core is
treated as one of another core.) Nodes of a chain are in one order. `up` of a node is, for each chain, the last node
of it that reaches this one (-1: none), `down` the first that is reachable from it (`NEVER`: none); together they are
its *band*. `a` comes before `b` through another core when `down[a] <= up[b]` on some chain: the path goes down to the
chain and up from it. That is exact for any set of chains, because the bands are computed on the fused graph of all
cores, not core by core.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.columns import grouped
from haulout.checker.model import Model
from haulout.checker.order.barriers import Barriers
from haulout.checker.order.graph import Graph
from haulout.checker.order.semaphore_order import SemaphoreOrder
from haulout.checker.order.sendrecv import SendRecvs
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.support.jit import njit

NEVER = np.iinfo(np.int32).max
"""`down` of a node from which a chain is not reachable."""


class Order(NamedTuple):
    """What kernels need to order two accesses. Accesses, instructions and nodes have the numbers of `Model`,
    `Graph`.
    """

    core: Ids
    """Of each instruction."""
    column: Ids
    """Of each instruction: its engine, as a column of `clock`."""
    queue: Ids
    """Of each instruction."""
    clock: Column
    """int32 [instructions, engines]."""
    up: Column
    """int32 [nodes, chains]."""
    down: Column
    """int32 [nodes, chains]."""
    instruction: Ids
    """Of each access."""
    node: Ids
    """Of each access: where it happens."""
    time: Ints
    """Of each instruction: its position in the source (`source_order.py`); NONE: unknown."""

    def before(self, first: int, second: int) -> bool:
        """True if one access happens before another one of a different instruction."""
        i, j = self.instruction[first], self.instruction[second]
        if self.core[i] == self.core[j] and self.clock[j, self.column[i]] >= i:
            return True
        return bool(np.any(self.down[self.node[first]] <= self.up[self.node[second]]))

    def before_each(self, first: Ints, second: Ints) -> Bools:
        """The same for pairs of accesses."""
        i, j = self.instruction[first], self.instruction[second]
        found: Bools = (self.core[i] == self.core[j]) & (self.clock[j, self.column[i]] >= i)
        found |= (self.down[self.node[first]] <= self.up[self.node[second]]).any(axis=1)
        return found


def build_order(model: Model, graph: Graph, barriers: Barriers, sendrecvs: SendRecvs, time: Ints) -> Order:
    """Clocks and bands of an acyclic fused graph."""
    columns = int(model.column.max()) + 1 if len(model.column) else 0
    producer_starts, producer = _waits(model, graph)
    clock = _scan_clocks(
        model.core_starts, model.column, model.is_fence, model.is_branch, producer_starts, producer, columns
    )
    chain, index, chains = _chains(model, graph, barriers, sendrecvs)
    up, down = _scan_bands(graph.starts, graph.successors, graph.order, chain, index, chains)
    node = np.where(model.write, graph.leave[model.instruction], graph.enter[model.instruction]).astype(np.int32)
    return Order(model.core, model.column, model.queue, clock, up, down, model.instruction, node, time)


def _waits(model: Model, graph: Graph) -> tuple[Ints, Ids]:
    """What each instruction waits for earlier in the list of its own core: dependences and signals."""
    if graph.semaphore_order is None:
        return model.producer_starts, model.producer
    inside = np.flatnonzero(~_leaves_core(model, graph.semaphore_order))
    instruction = np.repeat(np.arange(len(model.rows), dtype=np.int32), np.diff(model.producer_starts))
    instruction = np.append(instruction, graph.semaphore_order.instruction[inside])
    producer = np.append(model.producer, graph.semaphore_order.producer[inside])
    starts, order = grouped(instruction, len(model.rows))
    return starts, producer[order].astype(np.int32)


def _leaves_core(model: Model, found: SemaphoreOrder) -> Bools:
    """Which semaphore edges clocks do not follow, because they leave the core or look ahead."""
    away: Bools = model.core[found.producer] != model.core[found.instruction]
    return away | (found.producer >= found.instruction) | found.arrival


def schedule_accesses(model: Model, graph: Graph) -> Ids:
    """All accesses in the order of one schedule, `graph.order`; the reads of an instruction come first."""
    split = graph.enter != graph.leave
    entered = np.full(graph.nodes, -1, np.int32)
    left = np.full(graph.nodes, -1, np.int32)
    entered[graph.enter] = np.arange(len(model.rows), dtype=np.int32)
    sendrecvs = np.flatnonzero(split).astype(np.int32)
    left[graph.leave[sendrecvs]] = sendrecvs
    return _scan_accesses(graph.order, entered, left, split, model.access_starts, model.write)


def _chains(model: Model, graph: Graph, barriers: Barriers, sendrecvs: SendRecvs) -> tuple[Ids, Ids, int]:
    """The chain of every node and its position there (-1: on none), and the number of chains."""
    chain, index = np.full(graph.nodes, -1, np.int32), np.full(graph.nodes, -1, np.int32)
    node = graph.enter[barriers.instruction]
    chain[node], index[node] = barriers.chain, barriers.index
    queues, which = np.unique(model.queue[sendrecvs.instruction], return_inverse=True)
    arrival = graph.enter[sendrecvs.instruction]
    chain[arrival] = barriers.chains + which
    # Any number that rises along the queue will do: the position among all `sendrecv`s.
    index[arrival] = np.arange(len(arrival))
    chains = barriers.chains + len(queues)
    if graph.semaphore_order is not None:
        # Arrivals are on a chain already, and so may be barriers.
        found = graph.semaphore_order
        signal = np.unique(found.producer[_leaves_core(model, found) & ~found.arrival])
        signal = signal[chain[graph.leave[signal]] < 0]
        queues, which = np.unique(model.queue[signal], return_inverse=True)
        chain[graph.leave[signal]], index[graph.leave[signal]] = chains + which, signal
        chains += len(queues)
    return chain, index, chains


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
    """For each instruction and engine, the last instruction of the engine that is complete when this one is."""
    clock = np.full((len(column), columns), -1, np.int32)
    floor = np.empty(columns, np.int32)  # what the newest fence or branch has waited for, including itself
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
    starts: Ints, successors: Ids, order: Ids, chain: Ids, index: Ids, chains: int
) -> tuple[Column, Column]:
    """`up` by one pass over the topological order, `down` by one pass back."""
    nodes = len(order)
    up = np.full((nodes, chains), -1, np.int32)
    down = np.full((nodes, chains), NEVER, np.int32)
    if chains == 0:
        return up, down
    for at in range(nodes):
        v = order[at]
        if chain[v] >= 0:
            up[v, chain[v]] = index[v]
        for e in range(starts[v], starts[v + 1]):
            w = successors[e]
            for k in range(chains):
                if up[v, k] > up[w, k]:
                    up[w, k] = up[v, k]
    for at in range(nodes - 1, -1, -1):
        v = order[at]
        for e in range(starts[v], starts[v + 1]):
            w = successors[e]
            for k in range(chains):
                if down[w, k] < down[v, k]:
                    down[v, k] = down[w, k]
        if chain[v] >= 0:
            down[v, chain[v]] = index[v]
    return up, down


@njit
def _scan_accesses(order: Ids, entered: Ids, left: Ids, split: Bools, access_starts: Ints, write: Bools) -> Ids:
    """Accesses node by node; a split instruction reads at its first node and writes at its second."""
    schedule = np.empty(len(write), np.int32)
    count = 0
    for at in range(len(order)):
        i = entered[order[at]]
        if i >= 0:
            for a in range(access_starts[i], access_starts[i + 1]):
                if not (split[i] and write[a]):
                    schedule[count] = a
                    count += 1
        i = left[order[at]]
        if i >= 0:
            for a in range(access_starts[i], access_starts[i + 1]):
                if write[a]:
                    schedule[count] = a
                    count += 1
    return schedule
