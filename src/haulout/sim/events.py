"""Everything that can happen, and what must have happened before it: the event graph of one run.

An instruction is one event; it takes effect at one moment between its start and its completion, so the moment
alone matters. A barrier is one event shared by its participants. A `sendrecv` is two: it arrives (and reads
its source), and it completes (and writes its destination). A branch, at the end of a loop's header, is one event
that reads `cond`.

    line        an engine's instructions in list order; barriers on `all` stand in every line of their core
    dependence  a producer before its consumer
    branch      a branch before everything behind it on its core
    meeting     both arrivals before either completion

Every order of the events that respects the edges is a possible run, and every possible run is such an order.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.schema import Bools, Bytes, Ids
from haulout.sim.code import BRANCH, QUEUES
from haulout.sim.rendezvous import barrier_groups, exchanges
from haulout.sim.trace import Trace
from haulout.sim.waits import Waits, dependences


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
    MEETING = 3


@dataclass(frozen=True, slots=True)
class EventGraph:
    """Events as columns, edges between them sorted by source."""

    item: Ids
    """Item of the trace that the event belongs to; of a barrier, the one on the lowest core."""
    effect: Bytes
    queue: Ids
    """`core * QUEUES + line`; NONE for a barrier, which belongs to several."""
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
    """Number of edges into each event."""

    def __len__(self) -> int:
        return len(self.item)


def event_graph(trace: Trace, waits: Waits) -> EventGraph:
    """The events of a trace. Raises `barrier-mismatch` and `deadlock` where cores cannot meet."""
    code, program = trace.code, trace.code.program
    meets = barrier_groups(trace)
    items = np.arange(len(trace), dtype=np.int32)
    is_barrier = _rows_of(len(code), program.barriers.instruction)[trace.row]
    is_exchange = _rows_of(len(code), program.meetings.instruction)[trace.row]
    # Events: one for each item that leads its group, in trace order; then a second one for each exchange.
    leads = meets == items
    begin = (np.cumsum(leads) - 1).astype(np.int32)[meets]
    end = begin.copy()
    end[is_exchange] = leads.sum() + np.arange(is_exchange.sum())
    line = code.engine[trace.row]
    effect = np.full(len(trace), Effect.BOTH, np.uint8)
    effect[is_barrier | code.is_nop[trace.row]] = Effect.NOTHING
    effect[is_exchange] = Effect.READS
    effect[line == BRANCH] = Effect.BRANCHES

    pairs = np.array(exchanges(trace), np.int32).reshape(-1, 2)
    own = items[is_exchange]
    edges = [
        *((Why.LINE, *edge) for edge in _lines(trace, line)),
        (Why.DEPENDENCE, *dependences(trace, waits)),
        *((Why.BRANCH, *edge) for edge in _behind_branches(trace, line)),
        (Why.MEETING, np.append(pairs[:, 1], own), np.append(pairs[:, 0], own)),
    ]
    why = np.repeat(np.array([edge[0] for edge in edges], np.uint8), [len(edge[1]) for edge in edges])
    source_item = np.concatenate([edge[1] for edge in edges])
    target_item = np.concatenate([edge[2] for edge in edges])
    # An exchange's arrival releases completions; everything else is released by, and holds up, whole instructions.
    meeting = why == Why.MEETING
    source = np.where(meeting, begin[source_item], end[source_item])
    target = np.where(meeting, end[target_item], begin[target_item])

    order = np.argsort(source, kind="stable")
    events = int(leads.sum() + is_exchange.sum())
    queue = np.where(is_barrier, NONE, trace.core * QUEUES + line).astype(np.int32)
    return EventGraph(
        item=np.concatenate([items[leads], own]),
        effect=np.concatenate([effect[leads], np.full(len(own), Effect.WRITES, np.uint8)]),
        queue=np.concatenate([queue[leads], queue[own]]),
        source=source[order].astype(np.int32),
        target=target[order].astype(np.int32),
        source_item=source_item[order],
        target_item=target_item[order],
        why=why[order],
        starts=np.searchsorted(source[order], np.arange(events + 1)).astype(np.int32),
        waits_for=np.bincount(target, minlength=events).astype(np.int32),
    )


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
