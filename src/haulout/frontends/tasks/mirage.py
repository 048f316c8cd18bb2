"""Task graphs of Mirage's persistent kernels (`task_graph_rank0.json`): tasks, slices, and event counters.

    all_tasks     task_type, inputs, outputs: [{base_ptr, offset, dims, strides, data_type}], trigger_event,
                  dependent_event
    all_events    event_type, num_triggers, first_task_id, last_task_id

A task triggers its event when it ends. It starts when its dependent event has had `num_triggers` triggers and when an
event of a launching type, whose range has it, has fired. The position of a task in the file is its number, and the
order of the file is the source order: operations are written after those that they depend on.

The number of an event is in the low 32 bits of its id, the rank above it. An id with the tag of NVSHMEM is triggered
by other ranks, and their files are not read.

Offsets count bytes, dims and strides elements. Tensors of different names share no byte. Some types of tasks access
more than their arguments say, such as pages of a cache: those that are not in `PLAIN` are a warning.
"""

from __future__ import annotations

import msgspec
import numpy as np

from haulout.frontends.tasks.common import LIMIT, slice_shape, unproved
from haulout.ir.schema import Ids
from haulout.ir.task_graph import AccessRows, TaskGraph
from haulout.support.diagnostics import Diagnostic, Label, Span, bad_input

NO_EVENT = 0x7FFF_FFFF_FFFF_FFFE
TAG = 0x1E00_0000_0000_0000
ELEMENT_BYTES = {
    **dict.fromkeys([920, 925, 926, 930, 935, 936], 1),
    **dict.fromkeys([940, 941, 945, 946], 2),
    **dict.fromkeys([950, 955, 956], 4),
    **dict.fromkeys([960, 965, 966], 8),
}
"""Bytes of each `data_type`; those of 4 bits are written with one byte an element."""
BOOKKEEPING = {0, 10}
"""The types that end and begin a graph; they access nothing."""
PLAIN = {101, 102, 105, 107, 108, 110, 118, 119, 120, 121}
PLAIN |= {151, 152, 154, 155, 156, 157, 158, 159, 160}
PLAIN |= {252, 253, 256, 259, 262, 275, 276, 277, 281}
"""Types that read their inputs, write their outputs, and access nothing else: embedding, norms, linear, activation,
the part of an argmax, quantization, addition."""
LAUNCHING = {901, 902, 903}
LAUNCHED_AGAIN = 903
END_OF_GRAPH = 910
WITHOUT_TASKS = {900, 911, 999}
MAX_ARCS = 20_000_000


class Slice(msgspec.Struct, gc=False):
    """A slice of a tensor."""

    base_ptr: str | None = None
    offset: int | None = None
    dims: list[int] | None = None
    strides: list[int] | None = None
    data_type: int | None = None


class MirageTask(msgspec.Struct, gc=False):
    """A task."""

    task_type: int
    trigger_event: int = NO_EVENT
    dependent_event: int = NO_EVENT
    inputs: list[Slice] | None = None
    outputs: list[Slice] | None = None


class MirageEvent(msgspec.Struct, gc=False):
    """An event."""

    event_type: int
    num_triggers: int
    first_task_id: int = 0
    last_task_id: int = 0


class MirageGraph(msgspec.Struct, gc=False):
    """The file."""

    all_tasks: list[MirageTask]
    all_events: list[MirageEvent]


def from_mirage(graph: MirageGraph, file: str) -> TaskGraph:
    """The task graph of a file. Raises `bad-input`."""
    findings: list[Diagnostic] = []
    rows = AccessRows()
    storages: dict[str, int] = {}
    strange: list[str] = []
    types: dict[int, list[str]] = {}
    for task, each in enumerate(graph.all_tasks):
        if each.task_type not in PLAIN and each.task_type not in BOOKKEEPING:
            types.setdefault(each.task_type, []).append(f"task {task}")
        for side, slices in (("input", each.inputs), ("output", each.outputs)):
            for at, one in enumerate(slices or ()):
                if one.base_ptr == "nullptr":
                    continue  # an argument that is not given
                if not _add(rows, storages, task, f"{side} {at}", one, side == "output"):
                    strange.append(f"{side} {at} of task {task}")
    if strange:
        message = "arguments of a form that is not known: their bytes are not known, and they are not checked"
        findings.append(unproved(message, strange, file, "give base_ptr, offset, dims, strides and data_type"))
    for kind, names in types.items():
        message = f"tasks of type {kind} may access more than their arguments say"
        findings.append(unproved(message, names, file, "check by hand what these tasks access besides them"))
    source, target, remote = _arcs(graph, file, findings)
    ends = [each.event_type == END_OF_GRAPH for each in graph.all_events]
    return TaskGraph(
        name=file,
        form="persistent kernel",
        tasks=[str(task) for task in range(len(graph.all_tasks))],
        events=[str(event) for event in range(len(graph.all_events))],
        needed=np.array([_needed(each) for each in graph.all_events], np.int64),
        ends=np.array(ends, bool),
        remote=remote,
        source=source,
        target=target,
        accesses=rows.columns(),
        labels=list(rows.labels),
        tensors=list(storages),
        base=np.zeros(len(storages), np.int64),
        shapes=list(rows.shapes),
        findings=findings,
    )


def _needed(event: MirageEvent) -> int:
    """The triggers that an event waits for. The one that completes the count launches tasks, so there must be one."""
    launches = event.event_type in LAUNCHING and event.first_task_id < event.last_task_id
    return min(max(event.num_triggers, int(launches)), LIMIT)


def _add(rows: AccessRows, storages: dict[str, int], task: int, label: str, one: Slice, write: bool) -> bool:
    """Add the access of a slice; False if its bytes are not known."""
    size = ELEMENT_BYTES.get(one.data_type or 0)
    if one.base_ptr is None or one.offset is None or one.dims is None or one.strides is None or size is None:
        return False
    if 0 in one.dims:
        return True
    shape = slice_shape(one.dims, one.strides, size)
    if shape is None or not 0 <= one.offset < LIMIT:
        return False
    storage = storages.setdefault(one.base_ptr, len(storages))
    rows.add(task, label, storage, write, storage, one.offset, shape)
    return True


def _arcs(graph: MirageGraph, file: str, findings: list[Diagnostic]) -> tuple[Ids, Ids, np.ndarray]:
    """Arcs of triggers, waits and launches, and the events that other ranks trigger."""
    tasks, events = len(graph.all_tasks), len(graph.all_events)
    remote = np.zeros(events, bool)
    rank = next((each.trigger_event >> 32 for each in graph.all_tasks if each.task_type == 10), 0)
    triggers: list[tuple[int, int]] = []
    waits: list[tuple[int, int]] = []
    for task, each in enumerate(graph.all_tasks):
        for number, is_wait in ((each.trigger_event, False), (each.dependent_event, True)):
            if number == NO_EVENT:
                continue
            event = number & 0xFFFF_FFFF
            if not 0 <= number < 1 << 62 or event >= events:
                bad_input(
                    f"task {task} names event {event}, and there are {events}",
                    Label("this file", Span(file)),
                )
            tagged = (number & TAG) == TAG
            remote[event] |= tagged
            if is_wait:
                waits.append((tasks + event, task))
            elif (number & ~TAG) >> 32 == rank and not tagged:
                triggers.append((task, tasks + event))
    launched = np.zeros(tasks + 1, np.int64)
    size = 0
    sources, targets = [], []
    for event, one in enumerate(graph.all_events):
        if one.event_type not in LAUNCHING:
            if one.event_type not in WITHOUT_TASKS and one.event_type != END_OF_GRAPH:
                message = f"event {event} has type {one.event_type}, which is not known; it launches no tasks"
                findings.append(unproved(message, [f"event {event}"], file, "see docs/task-graphs.md for the types"))
            continue
        if not 0 <= one.first_task_id <= one.last_task_id <= tasks:
            bad_input(
                f"event {event} launches tasks {one.first_task_id} to {one.last_task_id}, and there are {tasks}",
                Label("this file", Span(file)),
            )
        size += one.last_task_id - one.first_task_id
        if size > MAX_ARCS:
            bad_input("events launch more tasks than can be read", Label("this file", Span(file)))
        launched[one.first_task_id] += 1
        launched[one.last_task_id] -= 1
        targets.append(np.arange(one.first_task_id, one.last_task_id, dtype=np.int32))
        sources.append(np.full(one.last_task_id - one.first_task_id, tasks + event, np.int32))
    twice = np.flatnonzero(np.cumsum(launched)[:tasks] > 1)
    if len(twice):
        message = "several events launch a task: it runs more than once, and is checked as if it ran once"
        findings.append(unproved(message, [f"task {each}" for each in twice.tolist()], file, "launch each task once"))
    pairs = np.array(triggers + waits, np.int32).reshape(-1, 2)
    source = np.concatenate([pairs[:, 0], *sources]).astype(np.int32)
    target = np.concatenate([pairs[:, 1], *targets]).astype(np.int32)
    return source, target, remote
