"""Faults of public reports, rebuilt: one change of a sound graph is found, and the proposed edges correct it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.task_graphs import dump, kernel
from tests.checker.task_graphs import Graph, arg
from tests.checker.task_graphs import dump as made

from haulout import tasks
from haulout.checker.tasks import TaskCheck
from haulout.checker.tasks.check import MAX_FINDINGS
from haulout.support.diagnostics import Diagnostic, Severity


def checked(graph: Graph, folder: Path) -> TaskCheck:
    path = folder / "graph.json"
    path.write_text(json.dumps(graph))
    return tasks.check(path, fix=True)


def serious(found: TaskCheck) -> list[Diagnostic]:
    return [each for each in found.diagnostics if each.severity > Severity.NOTE]


def run(offset: int, size: int, kind: str, tensor: int = 0) -> Graph:
    return arg(kind, tensor, offset, [size], [1])


@pytest.mark.parametrize("make", [dump, kernel])
def test_layers_are_sound_and_a_lost_wait_is_found(make: object, tmp_path: Path) -> None:
    assert callable(make)
    assert checked(make(48, 4, False), tmp_path).ok
    found = checked(make(48, 4, True), tmp_path)
    assert found.races and found.verified
    assert {each.code for each in serious(found)} == {"task-race"}


def test_a_missing_write_after_read_edge(tmp_path: Path) -> None:
    """A buffer of a ring is written again before the last of its readers has ended."""
    args = [
        [run(0, 8, "OUTPUT_EXISTING")],
        [run(0, 4, "INPUT"), run(0, 4, "OUTPUT_EXISTING", 1)],
        [run(4, 4, "INPUT"), run(4, 4, "OUTPUT_EXISTING", 1)],
        [run(0, 8, "OUTPUT_EXISTING")],
    ]
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert checked(made(args, edges, [0, 100]), tmp_path).ok
    found = checked(made(args, edges[:3], [0, 100]), tmp_path)
    (race,) = serious(found)
    assert race.message == "task 3 writes tensor 0[0:16] and task 2 reads it, in either order"
    assert race.subject is not None and race.subject.kind == "write after read"
    assert "tensor 0: 8 bytes in common, 8:16" in race.notes
    assert [label.message.split(":")[0] for label in race.labels] == ["task 3, argument 0", "task 2, argument 0"]
    assert race.help == ("task 3 must wait for task 2: the missing edge is task 2 -> task 3",)
    assert found.edges == [("task 2", "task 3")] and found.verified


def test_an_edge_that_only_retains_orders_nothing(tmp_path: Path) -> None:
    graph = made([[run(0, 4, "INOUT")], [run(0, 4, "INOUT")]], [(0, 1)], [0])
    assert checked(graph, tmp_path).ok
    graph["edges"][0]["flags"] = ["retain"]
    assert [each.code for each in serious(checked(graph, tmp_path))] == ["task-race"]


def test_a_path_against_the_order_of_submission(tmp_path: Path) -> None:
    (found,) = serious(checked(made([[run(0, 4, "INPUT")], [run(2, 4, "INOUT")]], [(1, 0)], [0]), tmp_path))
    assert found.code == "unfaithful-order"
    assert "tensor 0: 4 bytes in common, 4:8" in found.notes


def test_buffers_at_one_address_are_one_memory(tmp_path: Path) -> None:
    args = [[run(0, 4, "INPUT", 0)], [run(0, 4, "OUTPUT_EXISTING", 1)]]
    assert checked(made(args, [], [64, 72]), tmp_path).ok
    (race,) = serious(checked(made(args, [], [64, 70]), tmp_path))
    assert "tensor 1: 2 bytes in common, 0:2" in race.notes


def test_a_counter_that_waits_for_too_few(tmp_path: Path) -> None:
    graph = kernel(12, 4, False)
    graph["all_events"][0]["num_triggers"] = 3
    found = checked(graph, tmp_path)
    (count,) = [each for each in serious(found) if each.code == "event-count"]
    assert count.message == "event 0 fires after 3 of its 4 triggers"
    assert count.notes[0] == "it may not wait for task 0, task 1, task 2, task 3"
    graph["all_events"][0]["num_triggers"] = 4
    assert checked(graph, tmp_path).ok


def test_triggers_in_a_row_are_counted_from_the_first(tmp_path: Path) -> None:
    """Of three triggers that follow each other, the first two are enough: the waiter comes after two of the tasks."""
    args = [[run(0, 4, "OUTPUT_EXISTING", at)] for at in range(3)]
    args.append([run(0, 4, "INPUT", at) for at in range(3)])
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(made(args, [(0, 1), (1, 2)], [0, 100, 200])))
    plain = tasks.load(path)
    graph = replace(
        plain,
        events=["done"],
        needed=np.array([2]),
        ends=np.array([False]),
        remote=np.array([False]),
        source=np.append(plain.source, [0, 1, 2, 4]).astype(np.int32),
        target=np.append(plain.target, [4, 4, 4, 3]).astype(np.int32),
    )
    found = tasks.check(graph)
    assert [each.code for each in serious(found)] == ["event-count", "task-race"]
    assert serious(found)[0].notes[0] == "it may not wait for task 2"
    assert serious(found)[1].message.startswith("task 3 reads tensor 2")


def test_a_counter_that_waits_for_too_many(tmp_path: Path) -> None:
    graph = kernel(12, 4, False)
    graph["all_events"][1]["num_triggers"] = 5
    (found,) = serious(checked(graph, tmp_path))
    assert found.code == "deadlock"
    assert found.message == "event 1 waits for 5 triggers and has 4: it never fires"
    assert found.notes == ("task 8, task 9, task 10, task 11 wait for it",)


def test_a_cycle_is_shown(tmp_path: Path) -> None:
    args: list[list[Graph]] = [[] for _ in range(5)]
    (found,) = serious(checked(made(args, [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)], [0]), tmp_path))
    assert found.code == "deadlock"
    assert found.notes[0] == "task 1 -> task 2 -> task 3 -> task 1"


def test_events_of_other_ranks_are_not_proved(tmp_path: Path) -> None:
    graph = kernel(12, 4, False)
    graph["all_tasks"][5]["dependent_event"] |= 0x1E00000000000000
    found = checked(graph, tmp_path)
    assert "unproved-task" in {each.code for each in serious(found)}
    assert found.races


def test_a_fix_at_an_event_stands_for_many_pairs(tmp_path: Path) -> None:
    found = checked(kernel(48, 4, True), tmp_path)
    assert found.races == 16
    first = 4 * (48 // 4 // 2 // 4 * 4 + 2)  # the first task of the layer that does not wait
    assert sorted(found.edges) == [(f"event {first // 4 - 1}", f"task {each}") for each in range(first, first + 4)]
    assert found.verified


def test_findings_are_counted_when_there_are_many(tmp_path: Path) -> None:
    args = [[run(0, 4, "INPUT")] for _ in range(MAX_FINDINGS + 5)] + [[run(0, 4, "OUTPUT_EXISTING")]]
    found = checked(made(args, [], [0]), tmp_path)
    errors = serious(found)
    assert len(errors) == MAX_FINDINGS + 1
    assert errors[-1].message == "5 more pairs of tasks"
    assert len(found.edges) == MAX_FINDINGS + 5 and found.verified


def test_tensors_cut_too_finely_are_not_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dump(48, 4, False)
    assert checked(copy.deepcopy(graph), tmp_path).ok
    monkeypatch.setattr("haulout.checker.tasks.atoms.MAX_RUNS", 3)
    assert {each.code for each in serious(checked(graph, tmp_path))} == {"unproved-task"}
