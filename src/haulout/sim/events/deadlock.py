"""Why a run hangs: a cycle of events that wait for each other, with a sentence for each wait, or a wait for a
semaphore that never reaches its count.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from haulout.ir.schema import Bools, Ids, Ints
from haulout.sim.events.graph import IN_FLIGHT, EventGraph, Why
from haulout.sim.flow.code import line_text
from haulout.sim.flow.trace import Trace
from haulout.support.diagnostics import Label, fail

_MAX_SIGNALS = 4
"""Signals that a message lists."""


class _Wait(NamedTuple):
    """One event waits for another; items distinguish the participants of a barrier."""

    waiter: int
    awaited: int
    event: int
    """The event that is awaited."""
    sentence: str


def explain_deadlock(trace: Trace, graph: EventGraph, done: Ids) -> NoReturn:
    """Raise `deadlock` with a cycle of the events that never became ready."""
    stuck = np.ones(len(graph), np.bool_)
    stuck[done] = False
    value = _sums(graph, ~stuck)
    _expect_enough(trace, graph, stuck)
    cycle = _Cycle(trace, graph, stuck, value).find()
    labels = []
    for number, wait in enumerate(cycle):
        partner = cycle[(number + 1) % len(cycle)].waiter
        sentence = wait.sentence
        if partner != wait.awaited:
            sentence += f", which forms a barrier with {_named(trace, partner)}"
        labels.append(Label(sentence, trace.code.label(int(trace.row[wait.waiter])).span))
    cores = sorted({int(trace.core[wait.waiter]) for wait in cycle})
    waits = "1 wait forms" if len(cycle) == 1 else f"{len(cycle)} waits form"
    fail(
        "deadlock",
        f"{'core' if len(cores) == 1 else 'cores'} {', '.join(map(str, cores))}: {waits} a cycle",
        *labels,
    )


def _sums(graph: EventGraph, happened: Bools) -> Ints:
    """The value of each semaphore after some events."""
    counters = graph.counters
    value = counters.value.copy()
    adds = np.repeat(happened, np.diff(counters.starts))
    np.add.at(value, counters.semaphore[adds], counters.amount[adds])
    return value


def _expect_enough(trace: Trace, graph: EventGraph, stuck: Bools) -> None:
    """Raise `deadlock` at the first wait for a semaphore that never reaches its count."""
    counters, semaphores = graph.counters, graph.semaphores
    total = _sums(graph, np.ones(len(graph), np.bool_))
    awaited = np.repeat(np.arange(len(semaphores)), np.diff(counters.begin))
    lacks = np.flatnonzero((counters.threshold > total[awaited]) & stuck[counters.event])
    for at in sorted(lacks.tolist(), key=lambda at: int(counters.event[at])):
        semaphore, waiter = int(awaited[at]), int(counters.waiter[at])
        if any(core in graph.unfinished for core in _signallers(trace, graph, semaphore)):
            continue
        code, row = trace.code, int(trace.row[waiter])
        where = code.iteration(row, trace.visits.around(int(trace.visit[waiter])))
        rows = trace.row[counters.signaller[counters.semaphore == semaphore]]
        signals, count = np.unique(rows, return_counts=True)
        fail(
            "deadlock",
            f"{code.named(row)}{where} deadlocks: {semaphores.named(semaphore)} reaches {total[semaphore]}, "
            f"expected {counters.threshold[at]}",
            code.label(row),
            *(
                code.label(each, f"{code.named(each)} adds to it" + (f", {times} times" if times > 1 else ""))
                for each, times in list(zip(signals.tolist(), count.tolist(), strict=True))[:_MAX_SIGNALS]
            ),
        )


def _signallers(trace: Trace, graph: EventGraph, semaphore: int) -> list[int]:
    """The cores whose code adds to a semaphore."""
    signals = graph.semaphores.signals
    found: list[int] = np.unique(trace.code.core[signals.row[signals.semaphore == semaphore]]).tolist()
    return found


class _Cycle:
    """The search for a cycle: from any stuck event to one that it waits for, and so on."""

    def __init__(self, trace: Trace, graph: EventGraph, stuck: Bools, value: Ints) -> None:
        self.trace, self.graph, self.stuck, self.value = trace, graph, stuck, value
        edges = np.flatnonzero(stuck[graph.source] & stuck[graph.target])
        # Without semaphores a stuck event waits for at least one stuck event; the first edge of each is enough.
        targets, first = np.unique(graph.target[edges], return_index=True)
        self.into: dict[int, int] = dict(zip(targets.tolist(), edges[first].tolist(), strict=True))

    def find(self) -> list[_Wait]:
        """Waits, each followed by one of the event that it waits for."""
        path: list[_Wait] = []
        entered: dict[int, int] = {}
        event = int(np.flatnonzero(self.stuck)[0])
        while event not in entered:
            entered[event] = len(path)
            path.append(self._wait(event))
            event = path[-1].event
        return path[entered[event] :]

    def _wait(self, event: int) -> _Wait:
        graph = self.graph
        if event not in self.into:
            return self._semaphore(event)
        edge = self.into[event]
        waiter, awaited = int(graph.target_item[edge]), int(graph.source_item[edge])
        sentence = _sentence(self.trace, Why(int(graph.why[edge])), waiter, awaited)
        return _Wait(waiter, awaited, int(graph.source[edge]), sentence)

    def _semaphore(self, event: int) -> _Wait:
        """A wait for a semaphore that is too small, and a signal that has not been sent."""
        graph, counters = self.graph, self.graph.counters
        awaited = np.repeat(np.arange(len(self.value)), np.diff(counters.begin))
        needs = (counters.event == event) & (counters.threshold > self.value[awaited])
        at = int(np.flatnonzero(needs)[0])
        semaphore, waiter = int(awaited[at]), int(counters.waiter[at])
        sentence = (
            f"{_named(self.trace, waiter)} waits for {graph.semaphores.named(semaphore)} to be at least "
            f"{counters.threshold[at]}; it is {self.value[semaphore]} until "
        )
        adders = np.repeat(np.arange(len(graph)), np.diff(counters.starts))
        coming = np.flatnonzero((counters.semaphore == semaphore) & self.stuck[adders])
        if len(coming):
            signaller, adder = int(counters.signaller[coming[0]]), int(adders[coming[0]])
            if graph.queue[adder] == IN_FLIGHT:
                adder = int(graph.source[self.into[adder]])
            return _Wait(waiter, signaller, adder, f"{sentence}{_named(self.trace, signaller)} is complete")
        core = next(each for each in _signallers(self.trace, graph, semaphore) if each in graph.unfinished)
        last = int(np.searchsorted(self.trace.core, core, "right")) - 1
        reached = int(np.flatnonzero((graph.item == last) & (graph.queue != IN_FLIGHT))[-1])
        return _Wait(
            waiter, last, reached, f"{sentence}core {core} reaches a signal after {_named(self.trace, last)}"
        )


def _sentence(trace: Trace, why: Why, waiter: int, awaited: int) -> str:
    subject, target = _named(trace, waiter), _named(trace, awaited)
    match why:
        case Why.DEPENDENCE:
            return f"{subject} depends on {target}"
        case Why.RENDEZVOUS:
            return f"{subject} waits for the arrival of {target}"
        case Why.BRANCH | Why.DELIVERY:
            return f"{subject} waits for {target}"
        case Why.ABSENT:
            return f"{subject} waits for core {trace.core[awaited]}, which is held up at {target}"
    line = int(trace.code.engine[trace.row[[waiter, awaited]]].min())
    return f"{subject} comes after {target} on line {line_text(line)}"


def _named(trace: Trace, item: int) -> str:
    return trace.code.named(int(trace.row[item]))
