"""Task graphs of megakernels and runtimes: is every conflicting pair of tasks ordered as it was submitted?

from haulout import tasks
checked = tasks.check("deps.json", fix=True)
checked.diagnostics, checked.edges
"""

from __future__ import annotations

from pathlib import Path

from haulout.checker.tasks import TaskCheck, check_task_graph
from haulout.frontends.tasks import read_task_graph
from haulout.ir.task_graph import TaskGraph

__all__ = ["TaskCheck", "TaskGraph", "check", "load"]


def load(path: str | Path) -> TaskGraph:
    """The task graph of a JSON file. Raises `HauloutError`."""
    return read_task_graph(path)


def check(source: str | Path | TaskGraph, *, fix: bool = False) -> TaskCheck:
    """The findings of a task graph; with `fix` also few edges that order all races, checked again.

    Raises `HauloutError` for a file that is not a task graph.
    """
    return check_task_graph(source if isinstance(source, TaskGraph) else read_task_graph(source), fix=fix)
