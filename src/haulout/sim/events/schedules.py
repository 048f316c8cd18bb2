"""Schedules, orders of the events: one reference, random ones, and for each queue the order in which it is the
slowest.

A schedule gives every event a priority; of the events that are ready, the one of least priority happens next. `list`
prefers logical time, which in loops is iterations before `seq`; if the program has no `seq`, it is the position in
the core's list, core by core in turn. `slowest` (theory: P7) delays the events of one queue: everything that does not
depend on the queue's next instruction runs before it. So every unordered pair of events whose first member is on that
queue is executed in the reverse order. All queues in turn invert every unordered pair. The branches of a core are a
queue, too.

Semaphores only grow, so an event that is ready stays ready. The events that do not depend on the slow queue's next
instruction are the same set in every order, so the argument also holds with semaphores.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.schema import Ids, Ints
from haulout.sim.events.deadlock import explain_deadlock
from haulout.sim.events.graph import Counters, EventGraph
from haulout.sim.flow.code import QUEUES, line_text, parse_line
from haulout.sim.flow.trace import Trace
from haulout.support.diagnostics import bad_input
from haulout.support.jit import njit, plain_if_small


@dataclass(frozen=True, slots=True)
class ListOrder:
    """The reference: by `seq`, else round robin through the cores' lists."""

    def __str__(self) -> str:
        return "list"


@dataclass(frozen=True, slots=True)
class RandomOrder:
    """Priorities drawn from a seed."""

    seed: int = 0

    def __str__(self) -> str:
        return f"random:{self.seed}"


@dataclass(frozen=True, slots=True)
class Slowest:
    """One queue advances only when no other can."""

    core: int
    line: int
    """An engine, or `BRANCH`: the core's branches."""

    def __str__(self) -> str:
        return f"slowest:{self.core}:{line_text(self.line)}"


Schedule = ListOrder | RandomOrder | Slowest


def parse_schedule(text: str) -> Schedule:
    """`list`, `random`, `random:SEED` or `slowest:CORE:ENGINE`; `branch` is the line of a core's branches."""
    match text.split(":"):
        case ["list"]:
            return ListOrder()
        case ["random"]:
            return RandomOrder()
        case ["random", seed] if _is_number(seed):
            return RandomOrder(int(seed))
        case ["slowest", core, line] if _is_number(core) and (known := parse_line(line)) is not None:
            return Slowest(int(core), known)
    bad_input(f"unknown schedule '{text}'", help=["list, random, random:SEED or slowest:CORE:ENGINE"])


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 20


def adversarial_schedules(trace: Trace) -> list[Schedule]:
    """The reference, then every queue in use as the slowest: together they invert every unordered pair."""
    queues = np.unique(trace.core * QUEUES + trace.code.engine[trace.row])
    slowest = [Slowest(*divmod(queue, QUEUES)) for queue in queues.tolist()]
    return [ListOrder(), *(schedule for schedule in slowest if schedule.line != Engine.ALL)]


def event_order(trace: Trace, graph: EventGraph, schedule: Schedule) -> Ids:
    """All events in the order of the schedule. Raises `deadlock` with the reason when some cannot happen."""
    if isinstance(schedule, Slowest) and schedule.core >= trace.code.program.lnc:
        bad_input(f"schedule `{schedule}`: the program has no core {schedule.core}")
    order = possible_events(trace, graph, schedule)
    if len(order) < len(graph):
        explain_deadlock(trace, graph, order)
    return order


def possible_events(trace: Trace, graph: EventGraph, schedule: Schedule) -> Ids:
    """The events that can happen, in the order of the schedule."""
    priority = _priorities(trace, graph, schedule)
    with plain_if_small(_scan_order, len(graph) + len(graph.target)):
        return _scan_order(graph.starts, graph.target, graph.waits_for, priority, graph.counters)


def _priorities(trace: Trace, graph: EventGraph, schedule: Schedule) -> Ints:
    """A permutation of the events: the smaller, the sooner."""
    if isinstance(schedule, RandomOrder):
        generator = np.random.Generator(np.random.Philox(key=schedule.seed))
        return generator.permutation(len(graph)).astype(np.int64)
    core, visit = trace.core[graph.item], trace.visit[graph.item]
    position = trace.position[graph.item]
    seq = trace.code.seq[trace.row[graph.item]]
    if (seq == NONE).any():
        seq = position
    on_slow_queue = np.zeros(len(graph), np.bool_)
    if isinstance(schedule, Slowest):
        on_slow_queue = graph.queue == schedule.core * QUEUES + schedule.line
    order = np.lexsort((position, core, seq, visit, on_slow_queue))
    priority = np.empty(len(graph), np.int64)
    priority[order] = np.arange(len(graph))
    return priority


@njit
def _scan_order(starts: Ids, target: Ids, waits_for: Ids, priority: Ints, counters: Counters) -> Ids:
    """Topological order by least priority; shorter than the graph when not everything can happen."""
    events = len(priority)
    event_of = np.empty(events, np.int32)
    for event in range(events):
        event_of[priority[event]] = event
    left = waits_for.copy()
    value = counters.value.copy()
    reached = counters.begin[:-1].copy()
    for semaphore in range(len(value)):
        while reached[semaphore] < counters.begin[semaphore + 1]:
            if counters.threshold[reached[semaphore]] > value[semaphore]:
                break
            left[counters.event[reached[semaphore]]] -= 1
            reached[semaphore] += 1
    ready = [np.int64(0)]
    ready.pop()
    for event in range(events):
        if left[event] == 0:
            heapq.heappush(ready, priority[event])
    order = np.empty(events, np.int32)
    done = 0
    while len(ready) > 0:
        event = event_of[heapq.heappop(ready)]
        order[done] = event
        done += 1
        for edge in range(starts[event], starts[event + 1]):
            following = target[edge]
            left[following] -= 1
            if left[following] == 0:
                heapq.heappush(ready, priority[following])
        for addition in range(counters.starts[event], counters.starts[event + 1]):
            semaphore = counters.semaphore[addition]
            value[semaphore] += counters.amount[addition]
            while reached[semaphore] < counters.begin[semaphore + 1]:
                if counters.threshold[reached[semaphore]] > value[semaphore]:
                    break
                following = counters.event[reached[semaphore]]
                reached[semaphore] += 1
                left[following] -= 1
                if left[following] == 0:
                    heapq.heappush(ready, priority[following])
    return order[:done]
