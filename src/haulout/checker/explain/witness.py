"""A schedule in which two unordered accesses may both happen next: the evidence for a race.

What has become possible stays possible until it happens. So neither of two unordered accesses needs the other, and
everything that one of them needs can be done without the other: both are then free to start. The *witness* is exactly
what the two need, in the order of a schedule.

The needs of an instruction are found by walking the fused graph back from it. A wait for a semaphore that several
queues signal does not determine its signals; the first ones in a schedule without the two are taken.

The bytes are then those of the last write in that schedule, or the initial ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker.columns import grouped, positions
from haulout.checker.model import Model
from haulout.checker.order.graph import Graph
from haulout.checker.order.happens_before import Order
from haulout.checker.order.schedule import schedule_without
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.jit import njit


@dataclass(frozen=True, slots=True)
class Witness:
    """Nodes of the fused graph in the order of a schedule; after them both accesses can happen, in either order."""

    nodes: Ids
    first: int
    second: int


class Witnesses:
    """Finds the witnesses of one model; their common data is computed for the first one."""

    def __init__(self, model: Model, graph: Graph, order: Order) -> None:
        self.model, self.graph, self.order = model, graph, order
        self._needs: tuple[Ints, Ids, Ids] | None = None
        self._members: tuple[Ints, Ints] | None = None

    def find(self, first: int, second: int) -> Witness:
        """What two unordered accesses need, in the order of a schedule."""
        begin, before, rank = self._back()
        targets = np.array([self.order.node[first], self.order.node[second]], np.int32)
        if self.graph.semaphore_order is not None:
            rank = self._rank_without(targets)
        needed = _scan_needed(begin, before, *self._semaphores(rank), targets)
        needed[targets] = False
        nodes = np.flatnonzero(needed).astype(np.int32)
        return Witness(nodes[np.argsort(rank[nodes], kind="stable")], first, second)

    def _rank_without(self, blocked: Ids) -> Ids:
        """The position of each node in a schedule in which some never run; nodes that cannot run come last."""
        graph = self.graph
        schedule, _ = schedule_without(
            graph.enter, graph.leave, graph.starts, graph.successors, graph.semaphores, blocked
        )
        return positions(schedule, graph.nodes)

    def _semaphores(self, rank: Ids) -> tuple[Ints, Ids, Ints, Ints, Ids, Ints]:
        """Waits by node; signals by semaphore, in the order of a schedule."""
        graph, semaphores = self.graph, self.graph.semaphores
        waiting, making = graph.enter[semaphores.wait], graph.leave[semaphores.signal]
        by, then = np.argsort(waiting, kind="stable"), np.lexsort((rank[making], semaphores.signal_to))
        return (
            np.searchsorted(waiting[by], np.arange(graph.nodes + 1)),
            semaphores.wait_for[by],
            semaphores.value[by],
            np.searchsorted(semaphores.signal_to[then], np.arange(len(semaphores.names) + 1)),
            making[then],
            semaphores.amount[then],
        )

    def _back(self) -> tuple[Ints, Ids, Ids]:
        """Predecessors as adjacency lists, and the place of each node in the schedule."""
        if self._needs is None:
            graph = self.graph
            source = np.repeat(np.arange(graph.nodes, dtype=np.int32), np.diff(graph.starts))
            begin, by = grouped(graph.successors, graph.nodes)
            self._needs = begin, source[by], positions(graph.order, graph.nodes)
        return self._needs

    def members(self, node: int) -> list[int]:
        """The instructions that start at a node, or else the one that is complete there."""
        if self._members is None:
            self._members = grouped(self.graph.enter, self.graph.nodes)
        starts, by = self._members
        found: list[int] = by[starts[node] : starts[node + 1]].tolist()
        return found or np.flatnonzero(self.graph.leave == node).tolist()


@njit
def _scan_needed(
    begin: Ints,
    before: Ids,
    wait_starts: Ints,
    wait_for: Ids,
    value: Ints,
    signal_starts: Ints,
    signal_node: Ids,
    amount: Ints,
    targets: Ids,
) -> Bools:
    """All nodes from which a target is reachable, including targets. Node v waits for the counts of rows
    `wait_starts[v]:wait_starts[v + 1]`. The signals of each semaphore are in schedule order, and a wait needs the
    first ones that reach its count.
    """
    nodes = len(begin) - 1
    needed = np.zeros(nodes, np.bool_)
    stack = np.empty(nodes, np.int32)
    taken = signal_starts[:-1].copy()
    sums = np.zeros(len(taken), np.int64)
    top = 0
    for v in targets:
        if not needed[v]:
            needed[v] = True
            stack[top] = v
            top += 1
    while top > 0:
        top -= 1
        v = stack[top]
        for e in range(begin[v], begin[v + 1]):
            u = before[e]
            if not needed[u]:
                needed[u] = True
                stack[top] = u
                top += 1
        for w in range(wait_starts[v], wait_starts[v + 1]):
            s = wait_for[w]
            while sums[s] < value[w] and taken[s] < signal_starts[s + 1]:
                u = signal_node[taken[s]]
                sums[s] += amount[taken[s]]
                taken[s] += 1
                if not needed[u]:
                    needed[u] = True
                    stack[top] = u
                    top += 1
    return needed
