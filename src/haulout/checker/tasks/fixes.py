"""Edges that order all pairs without a path: few of them, though not always the fewest.

The pairs themselves are such edges. Where several pairs share a node after their first tasks, or before their last
ones, one edge at this node may do for all of them: the node with most pairs is taken first. Of what is chosen, the
transitive reduction is kept: an edge is dropped if there is another path in the graph with all edges. Edges that
would close a cycle are not chosen; the pair is then left out.
"""

from __future__ import annotations

import heapq

import numpy as np

from haulout.checker.columns import grouped, join_ranges
from haulout.checker.tasks.order import Order, topological
from haulout.ir.schema import Bools, Column, Ids, Ints

MAX_CANDIDATES = 4_000_000
"""Edges at neighbours of pairs; with more, only the pairs themselves are candidates."""


def irreducible(order: Order, first: Ids, second: Ids) -> Bools:
    """Which of the pairs without a path remain unordered when all others are ordered."""
    source, target = np.concatenate([order.source, first]), np.concatenate([order.target, second])
    whole = Order(source, target, topological(source, target, len(order.position)))
    reducible = whole.queries(first, second, through=True)
    return ~reducible


def fewest_edges(order: Order, first: Ids, second: Ids, *, shared: bool = True) -> tuple[Ids, Ids]:
    """Edges that together order the pairs of tasks, none of which has a path, without a cycle.

    Without `shared`, edges are between tasks of the pairs only.
    """
    nodes = len(order.position)
    chosen = _shared(order, first, second) if shared else (first[:0], second[:0])
    source, target = np.concatenate([order.source, chosen[0]]), np.concatenate([order.target, chosen[1]])
    position = topological(source, target, nodes)
    if len(chosen[0]) and (position < 0).any():
        # Edges at neighbours close a cycle together, though none does alone.
        chosen = (first[:0], second[:0])
        source, target, position = order.source, order.target, order.position
    left = ~Order(source, target, position).queries(first, second)
    left &= ~Order(source, target, position).queries(second, first)
    edge_from, edge_to = np.concatenate([chosen[0], first[left]]), np.concatenate([chosen[1], second[left]])
    while True:
        source = np.concatenate([order.source, edge_from])
        target = np.concatenate([order.target, edge_to])
        whole = Order(source, target, topological(source, target, nodes))
        closing = (whole.position[edge_from] < 0) & (whole.position[edge_to] < 0)
        if not closing.any():
            break
        edge_from, edge_to = edge_from[~closing], edge_to[~closing]
    kept = ~whole.queries(edge_from, edge_to, through=True)
    return edge_from[kept], edge_to[kept]


def _shared(order: Order, first: Ids, second: Ids) -> tuple[Ids, Ids]:
    """Edges at neighbours of the pairs that stand for two pairs or more, the most first."""
    nodes = len(order.position)
    needed = np.flatnonzero(irreducible(order, first, second))
    if len(needed) < 2:
        return first[:0], second[:0]
    edge_from, edge_to, pair = _candidates(order, first[needed], second[needed])
    key = edge_from.astype(np.int64) * nodes + edge_to
    keys, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    useful = np.flatnonzero(counts > 1)
    # An edge may not lead back: its end must have no path to its start.
    begin, end = (keys[useful] // nodes).astype(np.int32), (keys[useful] % nodes).astype(np.int32)
    useful = useful[~order.queries(end, begin) & (begin != end)]
    starts, rows = grouped(inverse, len(keys))
    covered = np.zeros(len(needed), bool)
    heap = [(-int(counts[each]), int(each)) for each in useful.tolist()]
    heapq.heapify(heap)
    chosen = []
    while heap:
        count, each = heapq.heappop(heap)
        pairs = pair[rows[starts[each] : starts[each + 1]]]
        now = int((~covered[pairs]).sum())
        if now < 2:
            continue
        if now < -count:
            heapq.heappush(heap, (-now, each))
            continue
        covered[pairs] = True
        chosen.append(each)
    return (keys[chosen] // nodes).astype(np.int32), (keys[chosen] % nodes).astype(np.int32)


def _candidates(order: Order, first: Ids, second: Ids) -> tuple[Ids, Ids, Ints]:
    """(from, to, pair): from nodes after the first task to the second, from the first to nodes before the second."""
    nodes = len(order.position)
    out_starts, out_rows = grouped(order.source, nodes)
    in_starts, in_rows = grouped(order.target, nodes)
    after, before = np.diff(out_starts)[first], np.diff(in_starts)[second]
    if int(after.sum() + before.sum()) > MAX_CANDIDATES:
        return first[:0], second[:0], np.zeros(0, np.int64)
    pair = np.arange(len(first))
    hubs = order.target[out_rows[join_ranges(out_starts[first], after)]]
    other = order.source[in_rows[join_ranges(in_starts[second], before)]]
    return (
        np.concatenate([hubs, np.repeat(first, before)]),
        np.concatenate([np.repeat(second, after), other]),
        np.concatenate([np.repeat(pair, after), np.repeat(pair, before)]),
    )


def redundant(order: Order, arcs: Column) -> Column:
    """The arcs (rows) that another path makes unnecessary."""
    nodes = len(order.position)
    several = np.bincount(order.source, minlength=nodes)[order.source[arcs]] > 1
    several &= np.bincount(order.target, minlength=nodes)[order.target[arcs]] > 1
    arcs = arcs[several]
    found: Column = arcs[order.queries(order.source[arcs], order.target[arcs], through=True)]
    return found
