"""The event graph of one run: everything that can happen, and what must have happened before it.

An instruction is one event. It takes effect at one moment between its start and its completion, so only that moment
matters. A barrier is one event of all its participants. A `sendrecv` is two events: it arrives (and reads its
source), and it completes (and writes its destination). A branch, at the end of a loop's header or of a fork, is one
event that reads `cond`. A signal to another core is an event of its own, its delivery, after its instruction.

    line        the instructions of an engine in list order; barriers on `all` are on every line of their core
    dependence  a producer before its consumer
    branch      a branch before everything after it on its core
    rendezvous  both arrivals before either completion
    semaphore   no edge: an event adds to some semaphores, and waits until some are large enough

The possible runs are exactly the orders of the events that respect the edges and the semaphores.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.schema import Bools, Bytes, Ids, Ints
from haulout.sim.events.rendezvous import Absent, barrier_groups, exchanges, senders
from haulout.sim.events.semaphores import Counting, Semaphores, Tally, count_trace
from haulout.sim.events.waits import Waits, dependences
from haulout.sim.flow.code import BRANCH, QUEUES
from haulout.sim.flow.trace import Trace

IN_FLIGHT = -2
"""The queue of a delivery: none, since only its signal orders it."""


class Effect(enum.IntEnum):
    """What an event does to memory."""

    NOTHING = 0
    BOTH = 1
    READS = 2
    WRITES = 3
    BRANCHES = 4


class Why(enum.IntEnum):
    """Why one event waits for another."""

    LINE = 0
    DEPENDENCE = 1
    BRANCH = 2
    RENDEZVOUS = 3
    DELIVERY = 4
    ABSENT = 5


class Counters(NamedTuple):
    """What events do to semaphores."""

    starts: Ids
    """Additions of event v: rows `starts[v]:starts[v + 1]` of the next three."""
    semaphore: Ids
    amount: Ints
    signaller: Ids
    """The item that adds."""
    begin: Ids
    """Waits for semaphore s by threshold: rows `begin[s]:begin[s + 1]` of the next three."""
    threshold: Ints
    event: Ids
    """The event that waits."""
    waiter: Ids
    """Its item."""
    value: Ints
    """Of each semaphore, before the first event."""


@dataclass(frozen=True, slots=True)
class EventGraph:
    """Events as columns, edges between them sorted by source."""

    item: Ids
    """Item of the trace that the event belongs to; of a barrier, the one on the lowest core."""
    effect: Bytes
    queue: Ids
    """`core * QUEUES + line`; NONE for a barrier, which belongs to several; `IN_FLIGHT` for a delivery."""
    source: Ids
    """Edges: the event waited for."""
    target: Ids
    """Edges: the event that waits."""
    source_item: Ids
    """Edges: the items of the trace that they come from; these distinguish the participants of a barrier."""
    target_item: Ids
    why: Bytes
    starts: Ids
    """Edges out of event v: rows `starts[v]:starts[v + 1]`."""
    waits_for: Ids
    """Number of edges into each event, of waits for semaphores, and of partners that are absent."""
    counters: Counters
    semaphores: Semaphores
    """The semaphores that `counters` counts, for messages."""
    completes: Ids
    """Of each item of the trace: the event that completes it, except for its deliveries."""
    unfinished: frozenset[int]
    """Cores that may execute more than these events."""
    senders: dict[int, int]
    """For each item of the trace that receives: the item whose data it receives."""

    def __len__(self) -> int:
        return len(self.item)


def event_graph(
    trace: Trace, waits: Waits, semaphores: Semaphores, tally: Tally, unfinished: Collection[int] = ()
) -> EventGraph:
    """The events of a trace that starts with a state of the semaphores; `unfinished` cores may execute more.

    Raises `barrier-mismatch`, and `deadlock` for a `sendrecv` without partner.
    """
    code, program = trace.code, trace.code.program
    counting = count_trace(trace, semaphores, tally)
    lead, absent = barrier_groups(trace, unfinished)
    pairs, alone = exchanges(trace, unfinished)
    items = np.arange(len(trace), dtype=np.int32)
    is_barrier = _rows_of(len(code), program.barriers.instruction)[trace.row]
    is_exchange = _rows_of(len(code), program.meetings.instruction)[trace.row]
    # Events: one for each item that leads its group, in trace order; then a second one for each exchange; deliveries.
    leads = lead == items
    begin = (np.cumsum(leads) - 1).astype(np.int32)[lead]
    end = begin.copy()
    end[is_exchange] = leads.sum() + np.arange(is_exchange.sum())
    line = code.engine[trace.row]
    effect = np.full(len(trace), Effect.BOTH, np.uint8)
    effect[is_barrier | code.is_nop[trace.row]] = Effect.NOTHING
    effect[is_exchange] = Effect.READS
    effect[line == BRANCH] = Effect.BRANCHES

    partners = np.array(pairs, np.int32).reshape(-1, 2)
    own = items[is_exchange]
    sent = counting.item[counting.remote]
    missing = _absent_edges(trace, [*absent, *alone])
    edges = [
        *((Why.LINE, *edge) for edge in _lines(trace, line)),
        (Why.DEPENDENCE, *dependences(trace, waits)),
        *((Why.BRANCH, *edge) for edge in _after_branches(trace, line)),
        (Why.RENDEZVOUS, np.append(partners[:, 1], own), np.append(partners[:, 0], own)),
        (Why.DELIVERY, sent, sent),
        (Why.ABSENT, *missing),
    ]
    why = np.repeat(np.array([edge[0] for edge in edges], np.uint8), [len(edge[1]) for edge in edges])
    source_item = np.concatenate([edge[1] for edge in edges])
    target_item = np.concatenate([edge[2] for edge in edges])
    # The arrival of an exchange releases completions; other edges are between whole instructions.
    is_rendezvous = why == Why.RENDEZVOUS
    source = np.where(is_rendezvous, begin[source_item], end[source_item])
    # An item that waits for an absent partner cannot complete.
    target = np.where(is_rendezvous | (why == Why.ABSENT), end[target_item], begin[target_item])
    begun = int(leads.sum() + is_exchange.sum())
    events = begun + len(sent)
    delivered = begun + np.arange(len(sent), dtype=np.int32)
    target[why == Why.DELIVERY] = delivered

    order = np.argsort(source, kind="stable")
    waits_for = np.bincount(target, minlength=events).astype(np.int32)
    np.add.at(waits_for, [end[each.item] for each in (*absent, *alone)], 1)
    np.add.at(waits_for, begin[counting.waiter], 1)
    adds = end[counting.item]
    adds[counting.remote] = delivered
    queue = np.where(is_barrier, NONE, trace.core * QUEUES + line).astype(np.int32)
    return EventGraph(
        item=np.concatenate([items[leads], own, sent]),
        effect=np.concatenate([effect[leads], _filled(own, Effect.WRITES), _filled(sent, Effect.NOTHING)]),
        queue=np.concatenate([queue[leads], queue[own], np.full(len(sent), IN_FLIGHT, np.int32)]),
        source=source[order].astype(np.int32),
        target=target[order].astype(np.int32),
        source_item=source_item[order],
        target_item=target_item[order],
        why=why[order],
        starts=np.searchsorted(source[order], np.arange(events + 1)).astype(np.int32),
        waits_for=waits_for,
        counters=_counters(counting, adds, begin[counting.waiter], events),
        semaphores=semaphores,
        completes=end,
        unfinished=frozenset(unfinished),
        senders=senders(trace, pairs),
    )


def _counters(counting: Counting, adds: Ids, waits: Ids, events: int) -> Counters:
    by_event = np.argsort(adds, kind="stable")
    by_need = np.lexsort((counting.threshold, counting.awaited))
    semaphores = np.arange(len(counting.tally.value) + 1)
    return Counters(
        np.searchsorted(adds[by_event], np.arange(events + 1)).astype(np.int32),
        counting.semaphore[by_event],
        counting.amount[by_event],
        counting.item[by_event],
        np.searchsorted(counting.awaited[by_need], semaphores).astype(np.int32),
        counting.threshold[by_need],
        waits[by_need],
        counting.waiter[by_need],
        counting.tally.value,
    )


def _absent_edges(trace: Trace, absent: list[Absent]) -> tuple[Ids, Ids]:
    """The last item of each core with an absent partner, and the item that waits for the partner."""
    ends = np.searchsorted(trace.core, [each.core for each in absent], "right") - 1
    items = np.array([each.item for each in absent], np.int32)
    there = ends >= 0
    there[there] = trace.core[ends[there]] == np.array([each.core for each in absent], np.int32)[there]
    return ends[there].astype(np.int32), items[there]


def _filled(items: Ids, effect: Effect) -> Bytes:
    return np.full(len(items), effect, np.uint8)


def _rows_of(rows: int, chosen: Ids) -> Bools:
    mask = np.zeros(rows, np.bool_)
    mask[chosen] = True
    return mask


def _each_line(trace: Trace, line: Ids) -> Iterator[tuple[int, Ids]]:
    """Every line of every core with its items; barriers on `all` are on each of them."""
    bounds = np.searchsorted(trace.core, np.arange(trace.first.shape[0] + 1)).tolist()
    for begin, end in pairwise(bounds):
        own = line[begin:end]
        for each in np.unique(own).tolist():
            yield each, (begin + np.flatnonzero((own == each) | (own == Engine.ALL))).astype(np.int32)


def _lines(trace: Trace, line: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Neighbouring items on every line of every core."""
    for _, items in _each_line(trace, line):
        yield items[:-1], items[1:]


def _after_branches(trace: Trace, line: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Each branch with the first item after it on every line of its core."""
    is_branch = line == BRANCH
    if not is_branch.any():
        return
    latest = np.maximum.accumulate(np.where(is_branch, np.arange(len(trace), dtype=np.int32), NONE))
    for each, items in _each_line(trace, line):
        if each != BRANCH and len(items):
            branch = latest[items]
            # Branches of the previous core do not count, nor those that the previous item of the line waits for.
            before = np.append(np.searchsorted(trace.core, trace.core[items[0]]) - 1, items[:-1])
            is_first = branch > before
            yield branch[is_first], items[is_first]
