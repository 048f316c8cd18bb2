"""Which form a file has, and its task graph."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from haulout.frontends.tasks.dependency_dump import Dump, from_dump
from haulout.frontends.tasks.mirage import MirageGraph, from_mirage
from haulout.ir.task_graph import TaskGraph
from haulout.support.diagnostics import Label, Span, bad_input
from haulout.support.files import read_bytes

T = TypeVar("T")
OTHER_SUFFIXES = (".bir", ".hlo", ".npz", ".py")


class _Keys(msgspec.Struct):
    """The keys that tell the forms apart; values are not decoded."""

    tasks: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    edges: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    all_tasks: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def is_task_graph(path: str | Path) -> bool:
    """Whether a file is a JSON object and not a program: by its first byte that is not white space."""
    place = Path(path)
    if place.suffix in OTHER_SUFFIXES:
        return False
    try:
        if not place.is_file():
            return False
        with place.open("rb") as file:
            return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    except (OSError, ValueError):
        return False


def read_task_graph(path: str | Path) -> TaskGraph:
    """The task graph of a file. Raises `bad-input`."""
    data = read_bytes(Path(path)).removeprefix(b"\xef\xbb\xbf")
    name = str(path)
    keys = _decode(data, _Keys, name)
    if keys.all_tasks is not msgspec.UNSET:
        return from_mirage(_decode(data, MirageGraph, name), name)
    if keys.tasks is not msgspec.UNSET and keys.edges is not msgspec.UNSET:
        return from_dump(_decode(data, Dump, name), name)
    bad_input(
        "the JSON object is not a task graph",
        Label("this file", Span(name)),
        help=["a task graph has `tasks` and `edges`, or `all_tasks` and `all_events`; see docs/task-graphs.md"],
    )


def _decode(data: bytes, kind: type[T], name: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:  # a ValidationError is one; it names the place
        bad_input(f"not a task graph: {error}", Label("this file", Span(name)))
