"""Everything that can happen, and what must have happened before it: the event graph of one run.

An instruction is one event; it takes effect at one moment between its start and its completion, so the moment
alone matters. A barrier is one event shared by its participants. A `sendrecv` is two: it arrives (and reads
its source), and it completes (and writes its destination).

    line        an engine's instructions in list order; barriers on `all` stand in every line of their core
    dependence  a producer before its consumer
    meeting     both arrivals before either completion

Every order of the events that respects the edges is a possible run, and every possible run is such an order.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from haulout.ir.enums import LINES, NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Bytes, Ids
from haulout.ir.verify import instruction_label
from haulout.sim.rendezvous import barrier_groups, exchanges
from haulout.sim.trace import Trace
from haulout.support.diagnostics import bad_input


class Effect(enum.IntEnum):
    """What an event does to memory."""

    NOTHING = 0
    BOTH = 1
    READS = 2
    WRITES = 3


class Why(enum.IntEnum):
    """Why one event waits for another."""

    LINE = 0
    DEPENDENCE = 1
    MEETING = 2


@dataclass(frozen=True, slots=True)
class EventGraph:
    """Events as columns, edges between them sorted by source."""

    item: Ids
    """Item of the trace that the event belongs to; of a barrier, the one on the lowest core."""
    effect: Bytes
    queue: Ids
    """`core * LINES + engine`; NONE for a barrier, which belongs to several."""
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


def event_graph(program: Program, trace: Trace) -> EventGraph:
    """The events of a trace. Raises `barrier-mismatch` and `deadlock` where cores cannot meet."""
    if len(program.semaphores):
        row = int(program.semaphores.instruction[0])
        bad_input("simulating semaphores is not supported yet", instruction_label(program, row))
    meets = barrier_groups(program, trace)
    items = np.arange(len(trace), dtype=np.int32)
    is_barrier = np.isin(trace.instruction, program.barriers.instruction)
    is_exchange = np.isin(trace.instruction, program.meetings.instruction)
    # Events: one for each item that leads its group, in trace order; then a second one for each exchange.
    leads = meets == items
    begin = (np.cumsum(leads) - 1).astype(np.int32)[meets]
    end = begin.copy()
    end[is_exchange] = leads.sum() + np.arange(is_exchange.sum())
    engine = program.instructions.engine[trace.instruction].astype(np.int32)
    effect = np.full(len(trace), Effect.BOTH, np.uint8)
    effect[is_barrier] = Effect.NOTHING
    effect[is_exchange] = Effect.READS

    edges = _lines(trace, engine)
    edges.append(_dependences(program, trace))
    pairs = np.array(exchanges(program, trace), np.int32).reshape(-1, 2)
    own = items[is_exchange]
    source_item = np.concatenate([edge[0] for edge in edges] + [pairs[:, 1], own])
    target_item = np.concatenate([edge[1] for edge in edges] + [pairs[:, 0], own])
    counts = [sum(len(edge[0]) for edge in edges[:-1]), len(edges[-1][0]), len(pairs) + len(own)]
    why = np.repeat(np.array([Why.LINE, Why.DEPENDENCE, Why.MEETING], np.uint8), counts)
    # An exchange's arrival releases completions; everything else is released by, and holds up, whole instructions.
    meeting = why == Why.MEETING
    source = np.where(meeting, begin[source_item], end[source_item])
    target = np.where(meeting, end[target_item], begin[target_item])

    order = np.argsort(source, kind="stable")
    events = int(leads.sum() + is_exchange.sum())
    queue = np.where(is_barrier, NONE, trace.core * LINES + engine).astype(np.int32)
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


def _lines(trace: Trace, engine: Ids) -> list[tuple[Ids, Ids]]:
    """Neighbours on every line of every core."""
    edges = []
    for core in np.unique(trace.core).tolist():
        items = np.flatnonzero(trace.core == core).astype(np.int32)
        for line in np.unique(engine[items]).tolist():
            on_line = items[(engine[items] == line) | (engine[items] == Engine.ALL)]
            edges.append((on_line[:-1], on_line[1:]))
    return edges


def _dependences(program: Program, trace: Trace) -> tuple[Ids, Ids]:
    """Edges of `deps`; a carried dependence has no previous iteration to wait for."""
    item = np.full(len(program.instructions), NONE, np.int32)
    item[trace.instruction] = np.arange(len(trace), dtype=np.int32)
    rows = program.dependences
    consumer, producer = item[rows.instruction], item[rows.producer]
    runs = (consumer != NONE) & ~rows.carried
    for row in np.flatnonzero(runs & (producer == NONE))[:1].tolist():
        label = instruction_label(program, int(rows.instruction[row]))
        bad_input("it waits for an instruction that is never executed", label)
    return producer[runs], consumer[runs]
