"""Findings of a task graph as diagnostics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from haulout.checker.bytesets import ByteSet, common, normal, runs
from haulout.checker.tasks.atoms import Atoms
from haulout.checker.tasks.order import Order
from haulout.ir.schema import Column
from haulout.ir.task_graph import TaskGraph
from haulout.support.diagnostics import Diagnostic, Entity, Label, Severity, Span, Subject

FIRST = 10
"""Names in a list before `and N more`."""
MAX_RUNS = 1 << 16


def race(graph: TaskGraph, first: int, second: int) -> Diagnostic:
    """Two accesses (rows) of tasks without a path between them."""
    one, other = _task(graph, first), _task(graph, second)
    message = (
        f"{other} {_verb(graph, second)} {_bytes(graph, second)} and {one} {_verb(graph, first)} it, in either order"
    )
    edge = f"{one} -> {other}"
    notes = (_common(graph, first, second), f"no path of edges leads from {one} to {other}, or back")
    return Diagnostic(
        "task-race",
        Severity.ERROR,
        message,
        _labels(graph, first, second),
        notes,
        (f"{other} must wait for {one}: the missing edge is {edge}",),
        _subject(graph, first, second),
    )


def unfaithful(graph: TaskGraph, first: int, second: int) -> Diagnostic:
    """Two accesses (rows) of tasks whose path is against the order of submission."""
    one, other = _task(graph, first), _task(graph, second)
    message = (
        f"{other} {_verb(graph, second)} {_bytes(graph, second)} before {one} {_verb(graph, first)} it, and it was "
        "submitted later"
    )
    return Diagnostic(
        "unfaithful-order",
        Severity.ERROR,
        message,
        _labels(graph, first, second),
        (_common(graph, first, second), f"edges lead from {other} to {one}"),
        (f"reverse the path: {one} must come before {other}",),
        _subject(graph, first, second),
    )


def event_findings(graph: TaskGraph, order: Order) -> list[Diagnostic]:
    """Events that wait for too few triggers, or for too many, or for those of other files."""
    found = []
    tasks = len(graph.tasks)
    for event, missed in order.early.items():
        count, needed = int(order.counted[event]), int(graph.needed[event])
        name = f"event {graph.events[event]}"
        found.append(
            Diagnostic(
                "event-count",
                Severity.ERROR,
                f"{name} fires after {needed} of its {count} triggers",
                _file(graph),
                (f"it may not wait for {_list([graph.node(each) for each in missed])}", _waiting(graph, event)),
                (f"let it wait for {count} triggers",),
                _nodes(graph, "too few triggers", [tasks + event, *missed]),
            )
        )
    for event in order.never:
        count, needed = int(order.counted[event]), int(graph.needed[event])
        found.append(
            Diagnostic(
                "deadlock",
                Severity.ERROR,
                f"event {graph.events[event]} waits for {needed} triggers and has {count}: it never fires",
                _file(graph),
                (_waiting(graph, event),),
                (f"let it wait for {count} triggers, or let another task trigger it",),
                _nodes(graph, "too few tasks", [tasks + event]),
            )
        )
    if order.elsewhere:
        names = [f"event {graph.events[each]}" for each in order.elsewhere]
        found.append(
            Diagnostic(
                "unproved-task",
                Severity.WARNING,
                "other ranks trigger events, and their files are not read",
                _file(graph),
                (f"{_list(names)}: no task is known to end before what waits for them",),
                ("findings about tasks that wait for these events may be wrong",),
            )
        )
    return found


def cycle(graph: TaskGraph, nodes: Sequence[int]) -> Diagnostic:
    """Tasks that wait for each other."""
    names = [graph.node(each) for each in (*nodes, nodes[0])]
    return Diagnostic(
        "deadlock",
        Severity.ERROR,
        f"{graph.node(nodes[0])} waits for itself" if len(nodes) == 1 else "tasks wait for each other",
        _file(graph),
        (" -> ".join(names), "accesses are not compared before the cycle is broken"),
        ("remove one of these edges",),
        _nodes(graph, "cycle", nodes),
    )


def too_fine(graph: TaskGraph, atoms: Atoms) -> list[Diagnostic]:
    """Tensors whose accesses are not compared."""
    rows = np.flatnonzero(atoms.too_fine[atoms.of_access])
    names = [graph.tensors[each] for each in np.unique(graph.accesses.tensor[rows]).tolist()]
    if not names:
        return []
    return [
        Diagnostic(
            "unproved-task",
            Severity.WARNING,
            "tasks cut tensors into too many parts; accesses of these tensors are not compared",
            _file(graph),
            (_list(names),),
            ("check these tensors by hand, or use larger slices",),
        )
    ]


def rest(graph: TaskGraph, code: str, left: int) -> list[Diagnostic]:
    """A finding that counts those that are not reported one by one."""
    if left <= 0:
        return []
    message = f"{left} more pair{'s' if left != 1 else ''} of tasks"
    return [Diagnostic(code, Severity.ERROR, message, _file(graph), help=("correct those above first",))]


def implied(graph: TaskGraph, count: int) -> list[Diagnostic]:
    """A note that counts the races that disappear with those that are reported."""
    if not count:
        return []
    said = "pairs of tasks have" if count != 1 else "pair of tasks has"
    message = f"{count} more {said} no path; the missing edges above give one"
    return [Diagnostic("task-race", Severity.NOTE, message, _file(graph))]


def fix(graph: TaskGraph, edges: Sequence[tuple[str, str]], verified: bool) -> Diagnostic:
    """The edges that order all races."""
    message = f"{len(edges)} edges order all races" if len(edges) != 1 else "1 edge orders all races"
    if not verified:
        message = f"{len(edges)} edges order races; it is not proved that they order all"
    notes = tuple(f"{first} -> {second}" for first, second in edges)
    help_text = (
        "checked again with these edges: no race"
        if verified
        else "remove paths against the order of submission first"
    )
    return Diagnostic("missing-edges", Severity.NOTE, message, _file(graph), notes, (help_text,))


def redundant(graph: TaskGraph, order: Order, arcs: Column) -> list[Diagnostic]:
    """Edges that other paths imply."""
    if not len(arcs):
        return []
    shown = [
        f"{graph.node(a)} -> {graph.node(b)}"
        for a, b in zip(order.source[arcs[:FIRST]].tolist(), order.target[arcs[:FIRST]].tolist(), strict=True)
    ]
    more = f" and {len(arcs) - FIRST} more" if len(arcs) > FIRST else ""
    said = "edges" if len(arcs) != 1 else "edge"
    message = f"{len(arcs)} {said} of {len(order.source)} order{'s' if len(arcs) == 1 else ''} nothing"
    return [
        Diagnostic(
            "redundant-edge",
            Severity.NOTE,
            message,
            _file(graph),
            (", ".join(shown) + more,),
            ("other paths give the same order; the edges may be removed",),
        )
    ]


# -- parts ----------------------------------------------------------------------------------------------------------


def _task(graph: TaskGraph, row: int) -> str:
    return graph.node(int(graph.accesses.task[row]))


def _verb(graph: TaskGraph, row: int) -> str:
    return "writes" if graph.accesses.write[row] else "reads"


def _set(graph: TaskGraph, row: int, base: int) -> ByteSet:
    """The bytes of an access, from `base` on."""
    run, dims = graph.shapes[int(graph.accesses.shape[row])]
    return normal(int(graph.accesses.offset[row]) - base, run, dims)


def _bytes(graph: TaskGraph, row: int) -> str:
    """`tensor[first:last]`; the dims of a strided slice follow as `stride*count`."""
    tensor = int(graph.accesses.tensor[row])
    some = _set(graph, row, int(graph.base[tensor]))
    dims = "".join(f",{stride}*{count}" for stride, count in some.dims)
    return f"{graph.tensors[tensor]}[{some.offset}:{some.offset + some.run}{dims}]"


def _common(graph: TaskGraph, first: int, second: int) -> str:
    """The common bytes of two accesses, by their place in the tensor of the second."""
    tensor = int(graph.accesses.tensor[second])
    base = int(graph.base[tensor])
    sets = [_set(graph, each, base) for each in (first, second)]
    if max(each.max_runs for each in sets) > MAX_RUNS:
        return f"{graph.tensors[tensor]}: strided slices that overlap"
    low, high = common(runs(sets[0]), runs(sets[1]))
    shown = ", ".join(f"{a}:{b}" for a, b in zip(low[:3].tolist(), high[:3].tolist(), strict=True))
    more = f" and {len(low) - 3} more runs" if len(low) > 3 else ""
    return f"{graph.tensors[tensor]}: {int((high - low).sum())} bytes in common, {shown}{more}"


def _labels(graph: TaskGraph, first: int, second: int) -> tuple[Label, ...]:
    found = []
    for row in (second, first):
        argument = graph.labels[int(graph.accesses.label[row])]
        message = f"{_task(graph, row)}, {argument}: {_verb(graph, row)} {_bytes(graph, row)}"
        found.append(Label(message, Span(graph.name)))
    return tuple(found)


def _subject(graph: TaskGraph, first: int, second: int) -> Subject:
    write = graph.accesses.write
    kind = {(True, False): "read after write", (False, True): "write after read"}.get(
        (bool(write[first]), bool(write[second])), "write after write"
    )
    tasks = tuple(Entity(0, _task(graph, row), row=int(graph.accesses.task[row])) for row in (first, second))
    tensor = int(graph.accesses.tensor[second])
    return Subject(kind, instructions=tasks, locations=(Entity(0, graph.tensors[tensor], row=tensor),))


def _nodes(graph: TaskGraph, kind: str, nodes: Sequence[int]) -> Subject:
    return Subject(kind, instructions=tuple(Entity(0, graph.node(each), row=each) for each in nodes))


def _waiting(graph: TaskGraph, event: int) -> str:
    waits = graph.target[graph.source == len(graph.tasks) + event]
    if not len(waits):
        return "no task waits for it: the program does"
    return f"{_list([graph.node(each) for each in waits.tolist()])} wait{'s' if len(waits) == 1 else ''} for it"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - FIRST} more" if len(names) > FIRST else ""
    return ", ".join(names[:FIRST]) + more


def _file(graph: TaskGraph) -> tuple[Label, ...]:
    return (Label("this file", Span(graph.name)),)
