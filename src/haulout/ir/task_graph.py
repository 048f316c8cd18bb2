"""A task graph as columns: tasks with slices of tensors, events that count, and the arcs between them.

Tasks are in the order of their submission, which is the source order. Nothing but arcs orders them: each is a line of
its own. Nodes are the tasks, followed by the events. An arc from a task to an event is a trigger when the task ends;
an arc from an event to a task is a wait until the event has had `needed` triggers.

    node      0 .. len(tasks) - 1      task
              len(tasks) ..            event
    access    task, label, tensor, write, storage, offset, shape      a slice that a task reads or writes
    shape     run, ((stride, count), ...)                             runs of bytes at offset + sum(stride * i)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic

Shape = tuple[int, tuple[tuple[int, int], ...]]
"""Bytes of a run, and (stride in bytes, count) of each dimension."""


@dataclass(slots=True)
class TaskAccesses:
    """The slices that tasks read or write; one that is read and written has two rows."""

    task: Ids
    label: Ids
    """Row in `TaskGraph.labels`: which argument of the task it is."""
    tensor: Ids
    write: Bools
    storage: Ids
    """Accesses of different storages have no byte in common."""
    offset: Ints
    """The first byte of the slice in its storage."""
    shape: Ids
    """Row in `TaskGraph.shapes`."""

    def __len__(self) -> int:
        return len(self.task)


@dataclass(slots=True)
class TaskGraph:
    """Tasks, events, arcs and accesses, with what the reader could not read."""

    name: str
    form: str
    """The form of the file, for a summary."""
    tasks: list[str]
    """The name of each task in the file."""
    events: list[str]
    needed: Ints
    """The number of triggers that each event waits for."""
    ends: Bools
    """Whether the program itself waits for an event, although no task does."""
    remote: Bools
    """Whether triggers of an event come from other files."""
    source: Ids
    target: Ids
    """Arcs between nodes, without repetitions of a wait; each trigger is an arc."""
    accesses: TaskAccesses
    labels: list[str]
    tensors: list[str]
    base: Ints
    """The byte of its storage where each tensor begins."""
    shapes: list[Shape]
    findings: list[Diagnostic] = field(default_factory=list)
    """What the reader could not read, as warnings: nothing is proved about it."""

    @property
    def nodes(self) -> int:
        """The number of tasks and events."""
        return len(self.tasks) + len(self.events)

    def node(self, node: int) -> str:
        """The name of a node."""
        tasks = len(self.tasks)
        return f"task {self.tasks[node]}" if node < tasks else f"event {self.events[node - tasks]}"


@dataclass(slots=True)
class AccessRows:
    """Rows of `TaskAccesses` that a reader collects, and the tables that they refer to."""

    task: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    tensor: list[int] = field(default_factory=list)
    write: list[bool] = field(default_factory=list)
    storage: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    shapes: dict[Shape, int] = field(default_factory=dict)

    def add(self, task: int, label: str, tensor: int, write: bool, storage: int, offset: int, shape: Shape) -> None:
        """Append one access; `offset` is a byte of the storage."""
        self.task.append(task)
        self.label.append(self.labels.setdefault(label, len(self.labels)))
        self.tensor.append(tensor)
        self.write.append(write)
        self.storage.append(storage)
        self.offset.append(offset)
        self.shape.append(self.shapes.setdefault(shape, len(self.shapes)))

    def columns(self) -> TaskAccesses:
        """The rows as columns."""
        return TaskAccesses(
            task=np.array(self.task, np.int32),
            label=np.array(self.label, np.int32),
            tensor=np.array(self.tensor, np.int32),
            write=np.array(self.write, bool),
            storage=np.array(self.storage, np.int32),
            offset=np.array(self.offset, np.int64),
            shape=np.array(self.shape, np.int32),
        )
