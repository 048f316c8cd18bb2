"""Examples of what `haulout check` finds in task graphs."""

from __future__ import annotations

import json
from typing import Any

from haulout.report.examples.example import Example

CHECK = "haulout check graph.json"


def _dump(tasks: list[list[dict[str, Any]]], *edges: tuple[int, int]) -> str:
    """A dependency dump with one tensor of 64 bytes, a line a task."""
    lines = [json.dumps({"task_id": at, "args": args}) for at, args in enumerate(tasks)]
    joined = ",\n  ".join(lines)
    tensor = json.dumps({"tensor_id": 7, "buffer_addr": 4096, "dtype": "FLOAT32", "buffer_numel": 16})
    arcs = json.dumps([{"pred": a, "succ": b} for a, b in edges])
    return f'{{"tasks": [\n  {joined}],\n "tensors": [{tensor}],\n "edges": {arcs}}}\n'


def _whole(kind: str) -> list[dict[str, Any]]:
    return [{"type": kind, "tensor_id": 7, "dtype": "FLOAT32", "shape": [16]}]


def _kernel() -> str:
    """Two tasks trigger an event that waits for one of them."""
    sides = [("t0", 0), ("t0", 32)]
    tasks = [
        {"task_type": 120, "outputs": [_slice(name, offset)], "trigger_event": 0, "inputs": []}
        for name, offset in sides
    ]
    tasks.append({"task_type": 120, "inputs": [_slice("t1", 0)], "outputs": [], "dependent_event": 0})
    lines = ",\n  ".join(json.dumps(each) for each in tasks)
    return f'{{"all_tasks": [\n  {lines}],\n "all_events": [{{"event_type": 900, "num_triggers": 1}}]}}\n'


def _slice(name: str, offset: int) -> dict[str, Any]:
    return {"base_ptr": name, "offset": offset, "dims": [8], "strides": [1], "data_type": 950}


_RACE = _dump([_whole("INPUT"), _whole("OUTPUT_EXISTING")])

GRAPHS: dict[str, Example] = {
    "task-race": Example(
        {"graph.json": _RACE},
        CHECK,
        "error[task-race]: task 1 writes tensor 7[0:64] and task 0 reads it, in either order",
    ),
    "event-count": Example(
        {"graph.json": _kernel()}, CHECK, "error[event-count]: event 0 fires after 1 of its 2 triggers"
    ),
    "unproved-task": Example(
        {"graph.json": _dump([[{"type": "SCRATCH", "tensor_id": 7, "dtype": "FLOAT32", "shape": [16]}]])},
        CHECK,
        "warning[unproved-task]: arguments of a form that is not known: their bytes are not known, and they are not "
        "checked",
    ),
    "missing-edges": Example({"graph.json": _RACE}, f"{CHECK} --fix", "note[missing-edges]: 1 edge orders all races"),
    "redundant-edge": Example(
        {"graph.json": _dump([_whole("INOUT")] * 3, (0, 1), (1, 2), (0, 2))},
        CHECK,
        "note[redundant-edge]: 1 edge of 3 orders nothing",
    ),
}
"""By code."""
