"""Everything that can happen, and what must have happened before it: the event graph of one run.

An instruction is one event; it takes effect at one moment between its start and its completion, so the moment
alone matters. A barrier is one event shared by its participants. A `sendrecv` is two: it arrives (and reads
its source), and it completes (and writes its destination). A branch, at the end of a loop's header or of a fork, is
one event that reads `cond`. A signal to another core is an event of its own, its delivery, behind its instruction.

    line        an engine's instructions in list order; barriers on `all` stand in every line of their core
    dependence  a producer before its consumer
    branch      a branch before everything behind it on its core
    meeting     both arrivals before either completion
    semaphore   no edge: an event adds to some, and waits until some are large enough

Every order of the events that respects the edges and the semaphores is a possible run, and every possible run is such
an order.
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
"""The queue of a delivery: none, so that nothing but its signal orders it."""


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
    """Whose item it is."""
    begin: Ids
    """Waits for semaphore s, the least first: rows `begin[s]:begin[s + 1]` of the next three."""
    threshold: Ints
    event: Ids
    """That waits."""
    waiter: Ids
    """Its item."""
    value: Ints
    """Of each semaphore, when the first event happens."""


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
    """Edges: on whose behalf, as items of the trace; they tell a barrier's participants apart."""
    target_item: Ids
    why: Bytes
    starts: Ids
    """Edges out of event v: rows `starts[v]:starts[v + 1]`."""
    waits_for: Ids
    """Number of edges into each event, of waits for semaphores, and of partners that are absent."""
    counters: Counters
    semaphores: Semaphores
    """What the counters are, for messages."""
    completes: Ids
    """Of each item of the trace: the event with which it is complete, but for its deliveries."""
    going_on: frozenset[int]
    """Cores that may come to more than these events."""
    senders: dict[int, int]
    """For each item of the trace that receives: the item whose data it receives."""

    def __len__(self) -> int:
        return len(self.item)


def event_graph(
    trace: Trace, waits: Waits, semaphores: Semaphores, tally: Tally, going_on: Collection[int] = ()
) -> EventGraph:
    """The events of a trace from some state of the semaphores on; cores that are `going_on` may come to more.

    Raises `barrier-mismatch` and `deadlock` where cores cannot meet.
    """
    code, program = trace.code, trace.code.program
    counting = count_trace(trace, semaphores, tally)
    meets, absent = barrier_groups(trace, going_on)
    pairs, alone = exchanges(trace, going_on)
    items = np.arange(len(trace), dtype=np.int32)
    is_barrier = _rows_of(len(code), program.barriers.instruction)[trace.row]
    is_exchange = _rows_of(len(code), program.meetings.instruction)[trace.row]
    # Events: one for each item that leads its group, in trace order; then a second one for each exchange; deliveries.
    leads = meets == items
    begin = (np.cumsum(leads) - 1).astype(np.int32)[meets]
    end = begin.copy()
    end[is_exchange] = leads.sum() + np.arange(is_exchange.sum())
    line = code.engine[trace.row]
    effect = np.full(len(trace), Effect.BOTH, np.uint8)
    effect[is_barrier | code.is_nop[trace.row]] = Effect.NOTHING
    effect[is_exchange] = Effect.READS
    effect[line == BRANCH] = Effect.BRANCHES

    meeting_pairs = np.array(pairs, np.int32).reshape(-1, 2)
    own = items[is_exchange]
    sent = counting.item[counting.remote]
    missing = _absent_edges(trace, [*absent, *alone])
    edges = [
        *((Why.LINE, *edge) for edge in _lines(trace, line)),
        (Why.DEPENDENCE, *dependences(trace, waits)),
        *((Why.BRANCH, *edge) for edge in _behind_branches(trace, line)),
        (Why.RENDEZVOUS, np.append(meeting_pairs[:, 1], own), np.append(meeting_pairs[:, 0], own)),
        (Why.DELIVERY, sent, sent),
        (Why.ABSENT, *missing),
    ]
    why = np.repeat(np.array([edge[0] for edge in edges], np.uint8), [len(edge[1]) for edge in edges])
    source_item = np.concatenate([edge[1] for edge in edges])
    target_item = np.concatenate([edge[2] for edge in edges])
    # An exchange's arrival releases completions; everything else is released by, and holds up, whole instructions.
    meeting = why == Why.RENDEZVOUS
    source = np.where(meeting, begin[source_item], end[source_item])
    # Who waits for a partner that is absent is held up where it would meet it.
    target = np.where(meeting | (why == Why.ABSENT), end[target_item], begin[target_item])
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
        going_on=frozenset(going_on),
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
    """The last item of a core that may still come to a partner, and who waits for it."""
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
    """Every line of every core with its items; barriers on `all` stand in each of them."""
    bounds = np.searchsorted(trace.core, np.arange(trace.first.shape[0] + 1)).tolist()
    for begin, end in pairwise(bounds):
        own = line[begin:end]
        for each in np.unique(own).tolist():
            yield each, (begin + np.flatnonzero((own == each) | (own == Engine.ALL))).astype(np.int32)


def _lines(trace: Trace, line: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Neighbours on every line of every core."""
    for _, items in _each_line(trace, line):
        yield items[:-1], items[1:]


def _behind_branches(trace: Trace, line: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Each branch with the first item behind it on every line of its core."""
    is_branch = line == BRANCH
    if not is_branch.any():
        return
    newest = np.maximum.accumulate(np.where(is_branch, np.arange(len(trace), dtype=np.int32), NONE))
    for each, items in _each_line(trace, line):
        if each != BRANCH and len(items):
            branch = newest[items]
            # Those of the core before do not count; nor does one that the item before on the line waits for.
            before = np.append(np.searchsorted(trace.core, trace.core[items[0]]) - 1, items[:-1])
            behind = branch > before
            yield branch[behind], items[behind]
