"""The findings of a task graph.

1. Events and the order of the arcs (`order.py`); a cycle ends the check.
2. Bytes as atoms (`atoms.py`), and the pairs of tasks that need an order (`sweep.py`).
3. Paths between them (`reach.py`): a path against the order of submission is unfaithful, no path is a race.
4. Edges that order all races (`fixes.py`), checked again, and edges that order nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from haulout.checker.tasks import text
from haulout.checker.tasks.atoms import cut
from haulout.checker.tasks.fixes import fewest_edges, irreducible, redundant
from haulout.checker.tasks.order import Order, cycles, find_order
from haulout.checker.tasks.sweep import needed_pairs
from haulout.ir.schema import Ids
from haulout.ir.task_graph import TaskGraph
from haulout.support.diagnostics import Diagnostic, Severity

MAX_FINDINGS = 1000
"""Races, and unfaithful orders, that are reported one by one; a last finding counts the rest."""


@dataclass(slots=True)
class TaskCheck:
    """The findings of a task graph, and figures."""

    graph: TaskGraph
    diagnostics: list[Diagnostic] = field(default_factory=list)
    needed: int = 0
    """Pairs of tasks that need an order."""
    races: int = 0
    """Those without one. The findings are those that an order of all others would not order."""
    unfaithful: int = 0
    """Those with the wrong one."""
    stopped: bool = False
    """A cycle ended the check; accesses are not compared."""
    edges: list[tuple[str, str]] = field(default_factory=list)
    """With `fix`: edges that order all races, as names of tasks and events."""
    verified: bool = False
    """With `fix`: the graph with these edges has no race and no unfaithful order."""

    @property
    def ok(self) -> bool:
        """No error and no warning."""
        return not any(each.severity > Severity.NOTE for each in self.diagnostics)


def check_task_graph(graph: TaskGraph, *, fix: bool = False) -> TaskCheck:
    """Whether every conflicting pair of tasks is ordered as it was submitted; with `fix` also how to order it."""
    checked = TaskCheck(graph, list(graph.findings))
    found = checked.diagnostics
    order = find_order(graph)
    found += text.event_findings(graph, order)
    if order.has_cycle:
        found += [text.cycle(graph, each) for each in cycles(order)]
        checked.stopped = True
        return checked
    atoms = cut(graph)
    found += text.too_fine(graph, atoms)
    pairs = needed_pairs(graph, order, atoms)
    checked.needed = pairs.needed
    first, second = graph.accesses.task[pairs.first], graph.accesses.task[pairs.second]
    forward = order.position[first] < order.position[second]
    has_path = order.queries(np.where(forward, first, second), np.where(forward, second, first))

    wrong = np.flatnonzero(has_path & ~forward)
    checked.unfaithful = len(wrong)
    found += [text.unfaithful(graph, *each) for each in _rows(pairs.first, pairs.second, wrong[:MAX_FINDINGS])]
    found += text.rest(graph, "unfaithful-order", len(wrong) - MAX_FINDINGS)

    races = np.flatnonzero(~has_path)
    checked.races = len(races)
    kept = races[irreducible(order, first[races], second[races])]
    found += [text.race(graph, *each) for each in _rows(pairs.first, pairs.second, kept[:MAX_FINDINGS])]
    found += text.rest(graph, "task-race", len(kept) - MAX_FINDINGS)
    found += text.implied(graph, len(races) - len(kept))
    if fix and len(races):
        _fix(checked, order, first[races], second[races])
        found.append(text.fix(graph, checked.edges, checked.verified))
    # A task has one wait at most, and launches order nothing else: triggers and edges between tasks remain.
    unneeded = redundant(order, np.flatnonzero(order.source < len(graph.tasks)))
    found += text.redundant(graph, order, unneeded)
    return checked


def _fix(checked: TaskCheck, order: Order, first: Ids, second: Ids) -> None:
    """Choose edges and check the graph with them: edges at shared nodes, or else edges between the tasks."""
    graph = checked.graph
    for shared in (True, False):
        source, target = fewest_edges(order, first, second, shared=shared)
        names = zip(source.tolist(), target.tolist(), strict=True)
        checked.edges = [(graph.node(a), graph.node(b)) for a, b in names]
        again = check_task_graph(with_edges(graph, source, target))
        # With an unfaithful pair, chains of pairs do not cover all conflicts.
        checked.verified = again.races == 0 and again.unfaithful == 0 and not again.stopped
        if checked.verified:
            break


def with_edges(graph: TaskGraph, source: Ids, target: Ids) -> TaskGraph:
    """The graph with more arcs; an event waits for its additional triggers, too."""
    tasks = len(graph.tasks)
    into = target[target >= tasks] - tasks
    more = np.bincount(into, minlength=len(graph.events))
    return replace(
        graph,
        source=np.concatenate([graph.source, source]),
        target=np.concatenate([graph.target, target]),
        needed=graph.needed + more,
    )


def _rows(first: Ids, second: Ids, rows: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(first[rows].tolist(), second[rows].tolist(), strict=True))
