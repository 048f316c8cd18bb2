"""Random task graphs, and layers of a model, as the objects of their files."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.checker.task_judge import NONE

Graph = dict[str, Any]


def slice_of(rng: Random, rows: int, columns: int) -> tuple[int, list[int], list[int]]:
    """(offset, shape, strides) of a part of a matrix: rows, columns, a tile, a run, or every second row."""
    top, left = rng.randrange(rows), rng.randrange(columns)
    height, width = rng.randint(1, rows - top), rng.randint(1, columns - left)
    match rng.randrange(5):
        case 0:
            return top * columns, [height * columns], [1]
        case 1:
            return left, [rows, width], [columns, 1]
        case 2:
            return top * columns + left, [height, width], [columns, 1]
        case 3:
            start = top * columns + left
            return start, [rng.randint(1, rows * columns - start)], [1]
    return top * columns + left, [(height + 1) // 2, 1, width], [2 * columns, 1, 1]


def dump(tasks: list[list[dict[str, Any]]], edges: list[tuple[int, int]], addresses: list[int]) -> Graph:
    """The dump of tasks with arguments, numbered from 0."""
    return {
        "tasks": [{"task_id": str(at), "scope": "auto", "args": args} for at, args in enumerate(tasks)],
        "tensors": [
            {"tensor_id": str(at), "buffer_addr": str(each), "version": 0, "dtype": "INT16", "buffer_numel": "24"}
            for at, each in enumerate(addresses)
        ],
        "edges": [{"pred": str(a), "succ": str(b), "source": "explicit", "flags": ["wait"]} for a, b in edges],
    }


def arg(kind: str, tensor: int, offset: int, shape: list[int], strides: list[int], dtype: str = "INT16") -> Graph:
    """An argument of a task."""
    return {
        "type": kind,
        "tensor_id": str(tensor),
        "dtype": dtype,
        "shape": shape,
        "start_offset": str(offset),
        "strides": strides,
    }


def random_dump(seed: int) -> Graph:
    """Up to nine tasks on two or three matrices, two of which may share bytes."""
    rng = Random(seed)
    count = rng.randint(2, 9)
    addresses = [1000, rng.choice([1000, 1024, 1048, 5000]), 9000][: rng.randint(1, 3)]
    tasks = []
    for _ in range(count):
        args = []
        for _ in range(rng.randint(0, 3)):
            kind = rng.choice(["INPUT", "INPUT", "INOUT", "OUTPUT_EXISTING"])
            dtype = rng.choice(["INT16", "INT16", "INT8"])
            args.append(arg(kind, rng.randrange(len(addresses)), *slice_of(rng, 4, 6), dtype))
        tasks.append(args)
    density = rng.choice([0.1, 0.3, 0.6, 1.0])
    edges = [(a, b) for b in range(count) for a in range(b) if rng.random() < density]
    if rng.random() < 0.25:
        edges += [(b, a) for b in range(count) for a in range(b) if rng.random() < 0.06]
    return dump(tasks, edges, addresses)


def random_kernel(seed: int, *, exact: bool) -> Graph:
    """Up to nine tasks and four events; with `exact` each event waits for the triggers that it has."""
    rng = Random(seed)
    count, events = rng.randint(2, 9), rng.randint(1, 4)
    tasks = []
    for task in range(count):
        sides: dict[str, list[dict[str, Any]]] = {"inputs": [], "outputs": []}
        for _ in range(rng.randint(0, 3)):
            offset, dims, strides = slice_of(rng, 4, 6)
            side = rng.choice(["inputs", "outputs"])
            sides[side].append(
                {
                    "base_ptr": rng.choice("xy"),
                    "offset": offset * 2,
                    "dims": dims,
                    "strides": strides,
                    "data_type": 940,
                }
            )
        level = task * (events + 1) // count
        tasks.append(
            {
                "task_type": 120,
                **sides,
                "trigger_event": level if level < events and rng.random() < 0.9 else NONE,
                "dependent_event": level - 1 if level > 0 and rng.random() < 0.9 else NONE,
            }
        )
    made = []
    for event in range(events):
        triggers = sum(each["trigger_event"] == event for each in tasks)
        needed = triggers if exact else max(triggers + rng.choice([-2, -1, 0, 0, 1]), 0)
        launches = rng.random() < 0.3
        first = rng.randint(0, count)
        # An event launches tasks after those that trigger it.
        first = max([first, *(at + 1 for at, each in enumerate(tasks) if each["trigger_event"] == event)])
        last = rng.randint(first, count)
        made.append(
            {
                "event_type": 901 if launches else 900,
                "num_triggers": needed,
                "first_task_id": first,
                "last_task_id": last,
            }
        )
    return {"all_tasks": tasks, "all_events": made, "first_tasks": [0]}
