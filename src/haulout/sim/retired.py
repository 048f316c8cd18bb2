"""Which pending sections are complete, so that the rest can be planned without them.

A core's part in a visit is *retired* when all its events have happened, its signals to other cores have arrived, and
all earlier visits of the core are retired. Cores that wait for each other retire together, because the k-th barrier
of one core belongs to the k-th one of the others. Later plans treat what is retired as complete: dependences on it
hold, and its signals are in their tally.

A core that runs ahead of a waiting one retires its visits on the way, so few sections pend.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.schema import Bools, Ids
from haulout.sim.events.graph import IN_FLIGHT, Why
from haulout.sim.plan import Plan


def find_retired(plan: Plan, happened: Ids) -> Bools:
    """[core, visit]: whether the core's part in the visit is retired after some events of a plan. The part of a core
    that does not take part is retired together with its earlier visits.
    """
    trace, graph = plan.trace, plan.graph
    has_happened = np.zeros(len(graph), np.bool_)
    has_happened[happened] = True
    complete = has_happened[graph.completes]
    in_flight = np.flatnonzero((graph.queue == IN_FLIGHT) & ~has_happened)
    complete[graph.item[in_flight]] = False
    cores, visits = trace.first.shape
    # The first visit of each core that is not retired.
    reached = np.full(cores, visits)
    np.minimum.at(reached, trace.core[~complete], trace.visit[~complete])
    one, other = _partners(plan)
    while True:
        retired = trace.visit < reached[trace.core]
        left = retired[one] & ~retired[other]
        if not left.any():
            return np.arange(visits) < reached[:, None]
        np.minimum.at(reached, trace.core[one[left]], trace.visit[one[left]])


def _partners(plan: Plan) -> tuple[Ids, Ids]:
    """Items of a rendezvous, each with its partners."""
    graph = plan.graph
    lead = graph.item[graph.completes]
    members = np.flatnonzero(lead != np.arange(len(lead)))
    waits = graph.why == Why.RENDEZVOUS
    one = np.concatenate([members, graph.source_item[waits]])
    other = np.concatenate([lead[members], graph.target_item[waits]])
    return np.append(one, other), np.append(other, one)
