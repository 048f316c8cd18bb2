"""The timeline of what a simulated run executes: every iteration, the arms that its inputs choose.

The events of the run (`sim/events/graph.py`) in program order; each starts when all that it waits for is complete,
and takes what the target says of its instruction. A wait for a semaphore ends with the signals that satisfy it in
program order. So this is a run of the machine model without the assumptions of the estimate about loops.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.durations import F64, durations
from haulout.ir.enums import NONE
from haulout.ir.labels import block_name
from haulout.ir.program import Program
from haulout.ir.schema import Ids, Ints
from haulout.report.timeline import Flow, Slice, live_bytes, trace_text
from haulout.sim.events.graph import EventGraph
from haulout.sim.events.schedules import ListOrder, event_order
from haulout.sim.inputs import Values
from haulout.sim.plan import Plan, plan_visits, prepare
from haulout.sim.run import run_reference
from haulout.support.jit import njit, plain_if_small
from haulout.target.model import Target


def simulated_trace(program: Program, target: Target, inputs: Values | None = None, *, seed: int = 0) -> str:
    """The timeline as JSON; `inputs` and `seed` as in `haulout.sim.simulate`, whose errors it raises."""
    prepared = prepare(program)
    visits, _ = run_reference(prepared, inputs, seed=seed)
    plan = plan_visits(prepared, visits)
    graph, run = plan.graph, _Run(plan, target)
    order = event_order(plan.trace, graph, ListOrder())
    with plain_if_small(_scan_times, len(graph) + len(graph.target)):
        arrived, end = _scan_times(order, _columns(graph), run.cost, len(plan.trace))
    slices, flows = run.slices(arrived, end), run.flows(arrived, end)
    return trace_text(program.name, program.lnc, slices, flows, run.live(arrived, end))


class _Columns(NamedTuple):
    """The graph for the kernel."""

    starts: Ids
    target: Ids
    target_item: Ids
    add_starts: Ids
    semaphore: Ids
    semaphores: int
    wait_starts: Ints
    awaited: Ids
    """Event v waits for semaphores `awaited[wait_starts[v]:wait_starts[v + 1]]`."""


def _columns(graph: EventGraph) -> _Columns:
    use = graph.counters
    count = len(use.begin) - 1
    awaited = np.repeat(np.arange(count, dtype=np.int32), np.diff(use.begin))
    order = np.argsort(use.event, kind="stable")
    waits = np.searchsorted(use.event[order], np.arange(len(graph) + 1)).astype(np.int64)
    adds = use.starts, use.semaphore, count
    return _Columns(graph.starts, graph.target, graph.target_item, *adds, waits, awaited[order])


@njit
def _scan_times(order: Ids, x: _Columns, cost: F64, items: int) -> tuple[F64, F64]:
    """When each item can start, and when each event is complete."""
    arrived, end = np.zeros(items), np.zeros(len(cost))
    start, signalled = np.zeros(len(cost)), np.zeros(x.semaphores)
    for event in order:
        for k in range(x.wait_starts[event], x.wait_starts[event + 1]):
            start[event] = max(start[event], signalled[x.awaited[k]])
        end[event] = start[event] + cost[event]
        for k in range(x.add_starts[event], x.add_starts[event + 1]):
            signalled[x.semaphore[k]] = max(signalled[x.semaphore[k]], end[event])
        for k in range(x.starts[event], x.starts[event + 1]):
            other, item = x.target[k], x.target_item[k]
            start[other] = max(start[other], end[event])
            arrived[item] = max(arrived[item], end[event])
    return arrived, end


class _Run:
    """What was executed, and what it costs."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan, self.program = plan, plan.trace.code.program
        graph, trace, program = plan.graph, plan.trace, self.program
        rows = np.append(durations(program, target), np.full(len(program.blocks), target.branch_us))
        self.exchanges = np.flatnonzero(np.isin(trace.row, program.meetings.instruction))
        self.members = np.flatnonzero(np.isin(trace.row, program.barriers.instruction))
        self.waits = np.zeros(len(trace), bool)
        """Items that may have to wait for another core."""
        self.waits[self.exchanges] = self.waits[self.members] = True
        self.cost: F64 = rows[trace.row[graph.item]]
        """Microseconds of each event. Of the two of an exchange the first takes nothing."""
        self.cost[np.isin(graph.item, self.exchanges)] = 0.0
        self.cost[graph.completes[self.exchanges]] = target.sendrecv_us
        events, size = np.unique(graph.completes[self.members], return_counts=True)
        self.cost[events] = [target.barrier(count) for count in size.tolist()]

    def _moments(self, arrived: F64, end: F64) -> tuple[F64, F64]:
        """When each item begins, or begins to wait, and when it is complete."""
        event = self.plan.graph.completes
        return np.where(self.waits, arrived, end[event] - self.cost[event]), end[event]

    def live(self, arrived: F64, end: F64) -> list[tuple[float, int]]:
        """The counter of live DRAM; what is used in several iterations lives from the first use to the last."""
        rows = self.plan.trace.row
        count = max(len(self.program.instructions), int(rows.max(initial=-1)) + 1)
        first, last = np.full(count, np.inf), np.full(count, -1.0)
        begin, stop = self._moments(arrived, end)
        np.minimum.at(first, rows, begin)
        np.maximum.at(last, rows, stop)
        return live_bytes(self.program, first, last, float(end.max(initial=0.0)))

    def slices(self, arrived: F64, end: F64) -> list[Slice]:
        """A slice for each item that takes time."""
        trace, program, strings = self.plan.trace, self.program, self.program.strings
        begin, stop = self._moments(arrived, end)
        columns = trace.row, trace.core, trace.code.engine[trace.row], begin, stop, self.waits
        found = []
        for row, core, line, start, stop, wait in zip(*(column.tolist() for column in columns), strict=True):
            if start == stop and not wait:
                continue
            if row >= len(program.instructions):
                name = block_name(program, row - len(program.instructions))
                found.append(Slice(core, line, name, "branch", start, stop, {}))
                continue
            args = {"opcode": strings[int(program.instructions.opcode[row])]}
            kind = "wait" if wait else "instruction"
            found.append(Slice(core, line, program.instruction_name(row), kind, start, stop, args))
        return found

    def flows(self, arrived: F64, end: F64) -> list[Flow]:
        """From the participant of a barrier that comes last to the others; from a sender to its receiver."""
        trace, graph = self.plan.trace, self.plan.graph
        line = trace.code.engine[trace.row]
        pairs = []
        event = graph.completes[self.members]
        order = np.argsort(event, kind="stable")
        for items in np.split(self.members[order], np.flatnonzero(np.diff(event[order])) + 1):
            last = max(items.tolist(), key=arrived.__getitem__, default=NONE)
            pairs += [("barrier", last, item) for item in items.tolist() if item != last]
        pairs += [("sendrecv", sender, receiver) for receiver, sender in sorted(graph.senders.items())]

        def place(item: int, time: float) -> tuple[int, int, float]:
            return int(trace.core[item]), int(line[item]), time

        return [
            Flow(name, place(one, float(arrived[one])), place(other, float(end[graph.completes[other]])))
            for name, one, other in pairs
        ]
