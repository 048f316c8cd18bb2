"""What is over among sections that pend: the rest can be planned without it.

A core's part in a visit is over when everything in it has happened, its signals to others have arrived, and the
same is true of all that it came to before. Whoever meets somebody is over together with those that it meets, since
the k-th barrier of one core belongs to the k-th one of the others. What is planned later takes it for complete:
dependences on it hold, and what it added to semaphores is in their tally.

A core that runs ahead of one that waits is over as it goes, so that what pends stays small.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.schema import Bools, Ids
from haulout.sim.events.graph import IN_FLIGHT, Why
from haulout.sim.plan import Plan


def settled(plan: Plan, happened: Ids) -> Bools:
    """[core, visit]: whose part in which visit is over, after some events of a plan. A core that takes no part in a
    visit counts as over with what it did before.
    """
    trace, graph = plan.trace, plan.graph
    has_happened = np.zeros(len(graph), np.bool_)
    has_happened[happened] = True
    complete = has_happened[graph.completes]
    in_flight = np.flatnonzero((graph.queue == IN_FLIGHT) & ~has_happened)
    complete[graph.item[in_flight]] = False
    cores, visits = trace.first.shape
    # The first visit of each core that is not over.
    reached = np.full(cores, visits)
    np.minimum.at(reached, trace.core[~complete], trace.visit[~complete])
    one, other = _partners(plan)
    while True:
        over = trace.visit < reached[trace.core]
        left = over[one] & ~over[other]
        if not left.any():
            return np.arange(visits) < reached[:, None]
        np.minimum.at(reached, trace.core[one[left]], trace.visit[one[left]])


def _partners(plan: Plan) -> tuple[Ids, Ids]:
    """Items that meet, each with those that it meets."""
    graph = plan.graph
    lead = graph.item[graph.completes]
    members = np.flatnonzero(lead != np.arange(len(lead)))
    meets = graph.why == Why.MEETING
    one = np.concatenate([members, graph.source_item[meets]])
    other = np.concatenate([lead[members], graph.target_item[meets]])
    return np.append(one, other), np.append(other, one)
