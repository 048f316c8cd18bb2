"""The order that arcs give: events that count, a topological order, cycles.

An event that waits for all its triggers orders each of them before its waits. One that waits for fewer orders a
trigger only if the others, without those that come after it, are too few to fire the event. One with fewer triggers
than it waits for never fires.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from haulout.checker.columns import grouped
from haulout.checker.order.schedule import schedule_without, shortest_cycle
from haulout.checker.order.semaphores import no_semaphores
from haulout.checker.tasks.reach import queried
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.task_graph import TaskGraph

MAX_OVERFULL = 2000
"""Of an event with more triggers than this, and more than it waits for, none is sure."""


@dataclass(slots=True)
class Order:
    """Arcs between nodes, without those that are not sure, and a topological order of them."""

    source: Ids
    target: Ids
    position: Ids
    """The place of each node in the topological order; -1 for nodes on or after a cycle."""
    early: dict[int, list[int]] = field(default_factory=dict)
    """Event -> the tasks that it may not wait for."""
    never: list[int] = field(default_factory=list)
    """Events that never fire."""
    elsewhere: list[int] = field(default_factory=list)
    """Events whose triggers come from other files; no task is known to come before their waits."""
    counted: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The triggers of each event."""

    @property
    def has_cycle(self) -> bool:
        """Whether there are nodes without a position."""
        return bool((self.position < 0).any())

    def queries(self, first: Ids, second: Ids, *, through: bool = False) -> Bools:
        """Whether there is a path between each pair of nodes; see `reach.queried`."""
        return queried(self.source, self.target, self.position, first, second, through=through)


def find_order(graph: TaskGraph) -> Order:
    """The order of a task graph."""
    tasks = len(graph.tasks)
    is_trigger = graph.target >= tasks
    event = graph.target[is_trigger] - tasks
    counted = np.bincount(event, minlength=len(graph.events))
    waited = np.bincount(graph.source[graph.source >= tasks] - tasks, minlength=len(graph.events)) > 0
    waited |= graph.ends
    never = np.flatnonzero((counted < graph.needed) & waited & ~graph.remote)
    elsewhere = np.flatnonzero(graph.remote & waited)
    overfull = (counted > graph.needed) & waited & ~graph.remote
    unsure = np.zeros(len(graph.source), bool)
    unsure[is_trigger] = (overfull | graph.remote)[event]
    order = _sorted(graph.source[~unsure], graph.target[~unsure], graph.nodes)
    order.never, order.elsewhere, order.counted = never.tolist(), elsewhere.tolist(), counted
    if not overfull.any():
        return order
    sure_source, sure_target = [], []
    early: dict[int, list[int]] = {}
    for each in np.flatnonzero(overfull).tolist():
        triggers = graph.source[graph.target == tasks + each]
        sure = _sure(order, triggers, int(graph.needed[each]))
        sure_source.append(triggers[sure])
        sure_target.append(np.full(int(sure.sum()), tasks + each, np.int32))
        early[each] = triggers[~sure].tolist()
    source = np.concatenate([order.source, *sure_source])
    target = np.concatenate([order.target, *sure_target])
    found = _sorted(source, target, graph.nodes)
    found.never, found.elsewhere, found.counted, found.early = order.never, order.elsewhere, counted, early
    return found


def _sure(order: Order, triggers: Ids, needed: int) -> Bools:
    """The triggers without which an event cannot fire: the rest that may come before them is too small."""
    size = len(triggers)
    if needed == 0 or size > MAX_OVERFULL or order.has_cycle:
        return np.zeros(size, bool)
    left, right = np.repeat(triggers, size), np.tile(triggers, size)
    different = left != right
    later = np.zeros(size * size, bool)
    later[different] = order.queries(left[different], right[different])
    without = size - 1 - later.reshape(size, size).sum(axis=1)
    sure: Bools = without < needed
    return sure


def _sorted(source: Ids, target: Ids, nodes: int) -> Order:
    return Order(source, target, topological(source, target, nodes))


def topological(source: Ids, target: Ids, nodes: int) -> Ids:
    """A topological order, as the position of each node; -1 for nodes on or after a cycle."""
    starts, rows = grouped(source, nodes)
    each, nothing = np.arange(nodes, dtype=np.int32), np.zeros(0, np.int32)
    order, _ = schedule_without(each, each, starts, target[rows], no_semaphores(), nothing)
    position = np.full(nodes, NONE, np.int32)
    position[order] = np.arange(len(order))
    return position


def cycles(order: Order) -> list[list[int]]:
    """A short cycle of each strongly connected component, from its lowest node."""
    nodes = len(order.position)
    inside = (order.position[order.source] < 0) & (order.position[order.target] < 0)
    source, target = order.source[inside], order.target[inside]
    matrix = csr_array((np.ones(len(source), np.int8), (source, target)), shape=(nodes, nodes))
    _, component = connected_components(matrix, connection="strong")
    kept = component[source] == component[target]
    source, target = source[kept], target[kept]
    starts, rows = grouped(source, nodes)
    following = target[rows]
    found = []
    _, first = np.unique(component[source], return_index=True)
    for each in first.tolist():
        root = int(np.flatnonzero(component == component[source[each]])[0])
        found.append(shortest_cycle(root, lambda node: following[starts[node] : starts[node + 1]].tolist()))
    return sorted(found)
