"""A schedule of a fused graph, as far as one exists: Kahn's algorithm, with semaphores; a cycle where none does.

Counts never fall, so an instruction that can run stays able to run until it does. Running whatever can run therefore
gets as far as any schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from haulout.checker.order.semaphores import Semaphores
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids, Ints
from haulout.support.jit import njit


def schedule_without(
    enter: Ids, leave: Ids, starts: Ints, successors: Ids, semaphores: Semaphores, blocked: Ids
) -> tuple[Ids, Ints]:
    """The nodes that can run when the `blocked` ones never do, in a possible order, and the counts that semaphores
    reach.
    """
    by_node = np.argsort(leave[semaphores.signal], kind="stable")
    by_value = np.lexsort((semaphores.value, semaphores.wait_for))
    return _scan_counted(
        starts,
        successors,
        np.searchsorted(leave[semaphores.signal[by_node]], np.arange(len(starts))),
        semaphores.signal_to[by_node],
        semaphores.amount[by_node],
        np.searchsorted(semaphores.wait_for[by_value], np.arange(len(semaphores.names) + 1)),
        enter[semaphores.wait[by_value]],
        semaphores.value[by_value],
        blocked,
    )


def shortest_cycle(root: int, following: Callable[[int], Iterable[int]]) -> list[int]:
    """The nodes of a shortest cycle through a node that is on one, from it on."""
    before = {root: NONE}
    queue = [root]
    for node in queue:
        for other in following(node):
            if other == root:
                path = [node]
                while before[path[-1]] != NONE:
                    path.append(before[path[-1]])
                return path[::-1]
            if other not in before:
                before[other] = node
                queue.append(other)
    raise AssertionError("the node is on no cycle")


@njit
def _scan_counted(
    starts: Ints,
    successors: Ids,
    signal_starts: Ints,
    signal_to: Ids,
    amount: Ints,
    wait_starts: Ints,
    wait_node: Ids,
    value: Ints,
    blocked: Ids,
) -> tuple[Ids, Ints]:
    """Kahn's algorithm, first come first served, with semaphores: nodes in order, and what the semaphores come to.

    The signals of a node are made when it is over; the waits of a semaphore stand with the smallest count first;
    what is blocked never runs.
    """
    nodes = len(starts) - 1
    missing = np.zeros(nodes, np.int32)
    for e in range(len(successors)):
        missing[successors[e]] += 1
    for k in range(len(wait_node)):
        missing[wait_node[k]] += 1
    for v in blocked:
        missing[v] += 1
    reached = np.zeros(len(wait_starts) - 1, np.int64)
    satisfied = wait_starts[:-1].copy()
    order = np.empty(nodes, np.int32)
    done = 0
    for v in range(nodes):
        if missing[v] == 0:
            order[done] = v
            done += 1
    at = 0
    while at < done:
        v = order[at]
        at += 1
        for k in range(signal_starts[v], signal_starts[v + 1]):
            s = signal_to[k]
            reached[s] += amount[k]
            while satisfied[s] < wait_starts[s + 1] and value[satisfied[s]] <= reached[s]:
                w = wait_node[satisfied[s]]
                satisfied[s] += 1
                missing[w] -= 1
                if missing[w] == 0:
                    order[done] = w
                    done += 1
        for e in range(starts[v], starts[v + 1]):
            w = successors[e]
            missing[w] -= 1
            if missing[w] == 0:
                order[done] = w
                done += 1
    return order[:done].copy(), reached
