"""Which form a file has, and its task graph."""

from __future__ import annotations

import gc
from pathlib import Path

import msgspec

from haulout.frontends.tasks.dependency_dump import Dump, Edge, Task, Tensor, from_dump
from haulout.frontends.tasks.mirage import MirageEvent, MirageGraph, MirageTask, from_mirage
from haulout.ir.task_graph import TaskGraph
from haulout.support.diagnostics import HauloutError, Label, Span, bad_input
from haulout.support.files import read_bytes, read_start

OTHER_SUFFIXES = (".bir", ".hlo", ".npz", ".py")


class _File(msgspec.Struct, gc=False):
    """The keys of both forms, which tell them apart."""

    tasks: list[Task] | None = None
    edges: list[Edge] | None = None
    tensors: list[Tensor] = []
    all_tasks: list[MirageTask] | None = None
    all_events: list[MirageEvent] | None = None


def is_task_graph(path: str | Path) -> bool:
    """Whether a file is a JSON object and not a program: by its first byte that is not white space."""
    place = Path(path)
    if place.suffix in OTHER_SUFFIXES:
        return False
    try:
        return read_start(place, 4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    except HauloutError:
        return False  # its reader says why


def read_task_graph(path: str | Path) -> TaskGraph:
    """The task graph of a file. Raises `bad-input`."""
    name = str(path)
    found = _decode(read_bytes(Path(path)).removeprefix(b"\xef\xbb\xbf"), name)
    if found.all_tasks is not None and found.all_events is not None:
        return from_mirage(MirageGraph(found.all_tasks, found.all_events), name)
    if found.tasks is not None and found.edges is not None:
        return from_dump(Dump(found.tasks, found.edges, found.tensors), name)
    bad_input(
        "the JSON object is not a task graph",
        Label("this file", Span(name)),
        help=["a task graph has `tasks` and `edges`, or `all_tasks` and `all_events`; see docs/task-graphs.md"],
    )


def _decode(data: bytes, name: str) -> _File:
    # Millions of lists are made, and none of them is garbage.
    collects = gc.isenabled()
    gc.disable()
    try:
        return msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, RecursionError) as error:  # a ValidationError is one; it names the place
        bad_input(f"not a task graph: {error}", Label("this file", Span(name)))
    finally:
        if collects:
            gc.enable()
