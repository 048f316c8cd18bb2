"""A judge of task graphs: explicit bytes, and runs in which one task never ends.

`without` runs everything that can run while one task does not end. A task that starts in such a run is not ordered
after it. This is exact for counters, because more triggers never stop a task from starting.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

Graph = dict[str, Any]
SIZES = {"FLOAT32": 4, "INT16": 2, "INT8": 1}
MIRAGE_SIZES = {950: 4, 940: 2, 935: 1}
NONE = 0x7FFFFFFFFFFFFFFE


def bytes_of(offset: int, shape: list[int], strides: list[int], size: int) -> set[int]:
    """The bytes of a slice; offset and strides in elements."""
    found = set()
    for index in product(*(range(each) for each in shape)):
        at = offset + sum(i * stride for i, stride in zip(index, strides, strict=True))
        found |= set(range(at * size, (at + 1) * size))
    return found


class Judged:
    """The order and the bytes of the tasks of a file."""

    def __init__(self, graph: Graph) -> None:
        self.reads: list[set[tuple[str, int]]] = []
        self.writes: list[set[tuple[str, int]]] = []
        self.waits: list[list[tuple[str, int]]] = []  # ("task", n) or ("event", n)
        self.triggers: list[list[int]] = []
        self.needed: list[int] = []
        (self._mirage if "all_tasks" in graph else self._dump)(graph)
        tasks = range(len(self.reads))
        self.starting = {task: self.run(task) for task in tasks}
        self.all_start = self.run(-1) == set(tasks)

    def _dump(self, graph: Graph) -> None:
        base = {each["tensor_id"]: int(each["buffer_addr"]) for each in graph["tensors"]}
        number = {each["task_id"]: at for at, each in enumerate(graph["tasks"])}
        for task in graph["tasks"]:
            reads: set[tuple[str, int]] = set()
            writes: set[tuple[str, int]] = set()
            for arg in task["args"]:
                size = SIZES[arg["dtype"]]
                found = bytes_of(int(arg["start_offset"]), arg["shape"], arg["strides"], size)
                place = {("memory", base[arg["tensor_id"]] + each) for each in found}
                reads |= place if arg["type"] in ("INPUT", "INOUT") else set()
                writes |= place if arg["type"] in ("OUTPUT_EXISTING", "INOUT") else set()
            self.reads.append(reads)
            self.writes.append(writes)
            self.waits.append([])
            self.triggers.append([])
        for edge in graph["edges"]:
            self.waits[number[edge["succ"]]].append(("task", number[edge["pred"]]))

    def _mirage(self, graph: Graph) -> None:
        # The trigger that completes the count makes an event launch tasks.
        for each in graph["all_events"]:
            launches = each["event_type"] != 900 and each["first_task_id"] < each["last_task_id"]
            self.needed.append(max(each["num_triggers"], int(launches)))
        for number, task in enumerate(graph["all_tasks"]):
            sides = []
            for key in ("inputs", "outputs"):
                found: set[tuple[str, int]] = set()
                for each in task[key]:
                    size = MIRAGE_SIZES[each["data_type"]]
                    some = bytes_of(0, each["dims"], each["strides"], size)
                    found |= {(each["base_ptr"], each["offset"] + byte) for byte in some}
                sides.append(found)
            self.reads.append(sides[0])
            self.writes.append(sides[1])
            waits = [("event", task["dependent_event"])] if task["dependent_event"] != NONE else []
            for event, one in enumerate(graph["all_events"]):
                if one["event_type"] in (901, 902, 903) and one["first_task_id"] <= number < one["last_task_id"]:
                    waits.append(("event", event))
            self.waits.append(waits)
            self.triggers.append([task["trigger_event"]] if task["trigger_event"] != NONE else [])

    def run(self, stopped: int) -> set[int]:
        """The tasks that start while one does not end."""
        started: set[int] = set()
        while True:
            ended = started - {stopped}
            counts = [sum(event in self.triggers[task] for task in ended) for event in range(len(self.needed))]
            ready = {
                task
                for task, waits in enumerate(self.waits)
                if all(at in ended if kind == "task" else counts[at] >= self.needed[at] for kind, at in waits)
            }
            if ready <= started:
                return started
            started |= ready

    def before(self, first: int, second: int) -> bool:
        """Whether a task ends before another starts, in every run."""
        return second not in self.starting[first]

    def conflicts(self) -> Iterator[tuple[int, int]]:
        """All pairs of tasks with a common byte that one of them writes."""
        for second in range(len(self.reads)):
            for first in range(second):
                one, other = self.writes[first], self.writes[second]
                if one & (other | self.reads[second]) or other & self.reads[first]:
                    yield first, second

    def races(self) -> set[tuple[int, int]]:
        """Conflicting pairs without an order."""
        return {(a, b) for a, b in self.conflicts() if not self.before(a, b) and not self.before(b, a)}

    def unfaithful(self) -> set[tuple[int, int]]:
        """Conflicting pairs with an order against that of the file."""
        return {(a, b) for a, b in self.conflicts() if self.before(b, a)}
