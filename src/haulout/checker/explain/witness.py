"""A schedule in which two unordered accesses may both happen next: the evidence for a race.

What has become possible stays possible until it happens. So of two accesses that nothing orders neither needs the
other, and everything that one of them needs can be done without the other: both then are free to start. The
*witness* is what the two need, in the order of a schedule, and nothing else.

What each instruction needs is the fused graph going back from it. A wait for a semaphore that several queues signal
does not say which signals it needs; those are taken that come first in a schedule without the two.

What the bytes hold then: in that schedule, the last of the writes of them, or what was there at the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    """Finds the witnesses of one model; what they have in common is computed when the first is asked for."""

    def __init__(self, model: Model, graph: Graph, order: Order) -> None:
        self.model, self.graph, self.order = model, graph, order
        self._needs: tuple[Ints, Ids, Ints] | None = None
        self._members: tuple[Ints, Ids] | None = None

    def find(self, first: int, second: int) -> Witness:
        """What two unordered accesses need, in the order of a schedule."""
        begin, before, rank = self._back()
        targets = np.array([self.order.node[first], self.order.node[second]], np.int32)
        if self.graph.counting is not None:
            rank = self._rank_without(targets)
        needed = _scan_needed(begin, before, *self._counts(rank), targets)
        needed[targets] = False
        nodes = np.flatnonzero(needed).astype(np.int32)
        return Witness(nodes[np.argsort(rank[nodes], kind="stable")], first, second)

    def _rank_without(self, blocked: Ids) -> Ints:
        """The place of each node in a schedule in which some never run; those that cannot run then stand last."""
        graph = self.graph
        schedule, _ = schedule_without(
            graph.enter, graph.leave, graph.starts, graph.successors, graph.counts, blocked
        )
        rank = np.full(graph.nodes, len(schedule), np.int64)
        rank[schedule] = np.arange(len(schedule))
        return rank

    def _counts(self, rank: Ints) -> tuple[Ints, Ids, Ints, Ints, Ids, Ints]:
        """Waits by node; signals by semaphore, in the order of a schedule."""
        graph, counts = self.graph, self.graph.counts
        waiting, making = graph.enter[counts.wait], graph.leave[counts.signal]
        by, then = np.argsort(waiting, kind="stable"), np.lexsort((rank[making], counts.signal_to))
        return (
            np.searchsorted(waiting[by], np.arange(graph.nodes + 1)),
            counts.wait_for[by],
            counts.value[by],
            np.searchsorted(counts.signal_to[then], np.arange(len(counts.names) + 1)),
            making[then],
            counts.amount[then],
        )

    def _back(self) -> tuple[Ints, Ids, Ints]:
        """Predecessors as adjacency lists, and the place of each node in the schedule."""
        if self._needs is None:
            graph = self.graph
            source = np.repeat(np.arange(graph.nodes, dtype=np.int32), np.diff(graph.starts))
            by = np.argsort(graph.successors, kind="stable")
            begin = np.searchsorted(graph.successors[by], np.arange(graph.nodes + 1))
            rank = np.empty(graph.nodes, np.int64)
            rank[graph.order] = np.arange(len(graph.order))
            self._needs = begin, source[by], rank
        return self._needs

    def members(self, node: int) -> list[int]:
        """The instructions that start at a node, or, where none does, the one that is complete there."""
        if self._members is None:
            by = np.argsort(self.graph.enter, kind="stable").astype(np.int32)
            self._members = np.searchsorted(self.graph.enter[by], np.arange(self.graph.nodes + 1)), by
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
    """All nodes from which a target is reachable, targets included. Node v waits for the counts of rows
    `wait_starts[v]:wait_starts[v + 1]`; the signals of each semaphore stand in the order of a schedule, so the first
    that reach the count are what it needs.
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
