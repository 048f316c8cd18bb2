"""How far a fused graph with semaphores comes: Kahn's algorithm, with counts.

Counts never fall, so what can run stays able to until it does: doing whatever can be done comes as far as any
schedule.
"""

from __future__ import annotations

import numpy as np

from haulout.checker.order.semaphores import Counts
from haulout.ir.schema import Ids, Ints
from haulout.support.jit import njit


def schedule_without(
    enter: Ids, leave: Ids, starts: Ints, successors: Ids, counts: Counts, blocked: Ids
) -> tuple[Ids, Ints]:
    """The nodes that can run when some never do, in an order in which they can, and what the semaphores come to."""
    by_node = np.argsort(leave[counts.signal], kind="stable")
    by_value = np.lexsort((counts.value, counts.wait_for))
    return _scan_counted(
        starts,
        successors,
        np.searchsorted(leave[counts.signal[by_node]], np.arange(len(starts))),
        counts.signal_to[by_node],
        counts.amount[by_node],
        np.searchsorted(counts.wait_for[by_value], np.arange(len(counts.names) + 1)),
        enter[counts.wait[by_value]],
        counts.value[by_value],
        blocked,
    )


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
    """Kahn's algorithm, first come first served, with counts: nodes in order, and what the semaphores come to.

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
