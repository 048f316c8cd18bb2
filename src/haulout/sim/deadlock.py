"""Why a run cannot go on: a cycle of events that wait for each other, told as a sentence a wait."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from haulout.ir.schema import Ids
from haulout.sim.code import line_text
from haulout.sim.events import EventGraph, Why
from haulout.sim.trace import Trace
from haulout.support.diagnostics import Label, fail


def explain_deadlock(trace: Trace, graph: EventGraph, done: Ids) -> NoReturn:
    """Raise `deadlock` with the cycle that the events which never became ready contain."""
    cycle = _cycle(graph, done)
    labels = []
    for number, edge in enumerate(cycle):
        waiter, awaited = int(graph.target_item[edge]), int(graph.source_item[edge])
        meets = int(graph.target_item[cycle[(number + 1) % len(cycle)]])
        sentence = _sentence(trace, Why(int(graph.why[edge])), waiter, awaited)
        if meets != awaited:
            sentence += f", which meets {_named(trace, meets)}"
        labels.append(Label(sentence, trace.code.label(int(trace.row[waiter])).span))
    cores = sorted({int(trace.core[graph.target_item[edge]]) for edge in cycle})
    fail(
        "deadlock",
        f"{'core' if len(cores) == 1 else 'cores'} {', '.join(map(str, cores))}: "
        f"{len(cycle)} waits form a cycle, so that nothing can go on",
        *labels,
    )


def _cycle(graph: EventGraph, done: Ids) -> list[int]:
    """Edges of a cycle, each followed by one that leads into its source: from waiter to awaited and on."""
    stuck = np.ones(len(graph), np.bool_)
    stuck[done] = False
    edges = np.flatnonzero(stuck[graph.source] & stuck[graph.target])
    # A stuck event waits for at least one stuck event; the first edge of each is enough to run into a cycle.
    targets, first = np.unique(graph.target[edges], return_index=True)
    into = dict(zip(targets.tolist(), edges[first].tolist(), strict=True))
    path: list[int] = []
    entered: dict[int, int] = {}
    event = int(np.flatnonzero(stuck)[0])
    while event not in entered:
        entered[event] = len(path)
        path.append(into[event])
        event = int(graph.source[into[event]])
    return path[entered[event] :]


def _sentence(trace: Trace, why: Why, waiter: int, awaited: int) -> str:
    subject, target = _named(trace, waiter), _named(trace, awaited)
    if why is Why.DEPENDENCE:
        return f"{subject} depends on {target}"
    if why is Why.MEETING:
        return f"{subject} waits for the arrival of {target}"
    if why is Why.BRANCH:
        return f"{subject} waits for {target}"
    line = int(trace.code.engine[trace.row[[waiter, awaited]]].min())
    return f"{subject} stands behind {target} on line {line_text(line)}"


def _named(trace: Trace, item: int) -> str:
    return trace.code.named(int(trace.row[item]))
