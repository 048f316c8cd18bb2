"""Files of task graphs: what is read, what is not known, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.checker.task_graphs import Graph, arg, dump
from tests.cli.command import haulout

from haulout import tasks
from haulout.frontends.tasks import is_task_graph
from haulout.support.diagnostics import HauloutError

WRITE = arg("OUTPUT_EXISTING", 0, 0, [4], [1])
SLICE: Graph = {"base_ptr": "x", "offset": 0, "dims": [4], "strides": [1], "data_type": 940}


def written(graph: Any, folder: Path, name: str = "graph.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(graph) if not isinstance(graph, str) else graph)
    return path


def kernel(**task: Any) -> Graph:
    plain = {"task_type": 120, "inputs": [SLICE], "outputs": None}
    return {"all_tasks": [{**plain, **task}], "all_events": [{"event_type": 900, "num_triggers": 1}]}


def warnings(graph: Graph, folder: Path) -> list[str]:
    return [each.message for each in tasks.load(written(graph, folder)).findings]


def test_columns_of_a_dump(tmp_path: Path) -> None:
    args = [[arg("INOUT", 0, 3, [2, 2], [6, 1])], [arg("INPUT", 1, 0, [4], [1]), arg("INPUT", 1, 0, [0], [1])]]
    graph = tasks.load(written(dump(args, [(0, 1), (0, 1)], [100, 200]), tmp_path))
    access = graph.accesses
    assert (graph.tasks, graph.form) == (["0", "1"], "dependency dump")
    assert list(zip(graph.source.tolist(), graph.target.tolist(), strict=True)) == [(0, 1)]
    assert access.task.tolist() == [0, 0, 1]
    assert access.write.tolist() == [False, True, False]
    assert access.offset.tolist() == [6, 6, 100]  # bytes from the lowest address
    assert [graph.shapes[each] for each in access.shape.tolist()][1:] == [(2, ((12, 2), (2, 2))), (2, ((2, 4),))]


def test_numbers_are_text_or_not(tmp_path: Path) -> None:
    graph = dump([[WRITE], [WRITE]], [(0, 1)], [1 << 62])
    for each in graph["tasks"]:
        each["task_id"] = int(each["task_id"])
    graph["edges"][0]["succ"] = "001"
    graph["tensors"][0]["tensor_id"] = 0
    assert tasks.check(written(graph, tmp_path)).ok


def test_a_tensor_is_made_by_the_task_that_an_edge_names(tmp_path: Path) -> None:
    graph = dump([[{"idx": 0, "type": "OUTPUT"}], [arg("INPUT", 0, 0, [4], [1])]], [(0, 1)], [0])
    assert warnings(graph, tmp_path) == ["tasks write new tensors, and no edge of source `creator` says which"]
    graph["edges"][0] |= {"source": "creator", "tensor_id": "0"}
    found = tasks.check(written(graph, tmp_path))
    assert found.ok and found.needed == 1
    graph["edges"][0]["flags"] = []
    assert [each.code for each in tasks.check(written(graph, tmp_path)).diagnostics] == ["task-race"]


@pytest.mark.parametrize(
    "change",
    [
        {"type": "SCRATCH"},
        {"dtype": "COMPLEX"},
        {"shape": None},
        {"strides": [1, 1]},
        {"tensor_id": "9"},
        {"shape": [-1]},
    ],
)
def test_an_argument_of_an_unknown_form_is_a_warning(change: Graph, tmp_path: Path) -> None:
    graph = dump([[{**WRITE, **change}]], [], [0])
    (found,) = tasks.load(written(graph, tmp_path)).findings
    assert found.code == "unproved-task"
    assert found.notes == ("1 in all: argument 0 of task 0",)


def test_an_edge_of_an_unknown_task_is_a_warning(tmp_path: Path) -> None:
    graph = dump([[WRITE]], [], [0])
    graph["edges"] = [{"pred": "8", "succ": "0"}]
    assert warnings(graph, tmp_path) == ["edges name tasks that are not in the file; they order nothing"]


def test_columns_of_a_kernel(tmp_path: Path) -> None:
    task: Graph = {"task_type": 120, "inputs": [SLICE], "outputs": [{**SLICE, "base_ptr": "y", "offset": 8}]}
    graph = tasks.load(
        written(
            {
                "all_tasks": [{**task, "trigger_event": 1}, {**task, "dependent_event": 1}, task],
                "all_events": [
                    {"event_type": 911, "num_triggers": 1},
                    {"event_type": 901, "num_triggers": 1, "first_task_id": 2, "last_task_id": 3},
                ],
            },
            tmp_path,
        )
    )
    arcs = set(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    assert arcs == {(0, 4), (4, 1), (4, 2)}
    assert (graph.tensors, graph.accesses.offset.tolist()) == (["x", "y"], [0, 8] * 3)
    assert graph.findings == []


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (kernel(task_type=116), "tasks of type 116 may access more than their arguments say"),
        (kernel(inputs=[{**SLICE, "data_type": 1}]), "arguments of a form that is not known"),
        (kernel(inputs=[{**SLICE, "dims": None}]), "arguments of a form that is not known"),
    ],
)
def test_what_a_kernel_does_not_say_is_a_warning(graph: Graph, message: str, tmp_path: Path) -> None:
    (found,) = warnings(graph, tmp_path)
    assert found.startswith(message)


def test_an_argument_that_is_not_given_is_none(tmp_path: Path) -> None:
    graph = tasks.load(written(kernel(inputs=[{**SLICE, "base_ptr": "nullptr", "data_type": 999}]), tmp_path))
    assert (len(graph.accesses), graph.findings) == (0, [])


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"tasks": [], "edges": 3}',
        '{"all_tasks": []}',
        json.dumps(kernel(trigger_event=7)),
        json.dumps(kernel(task_type="x")),
        json.dumps(dump([[WRITE]], [], [0]) | {"tasks": [{"task_id": 1}, {"task_id": "01"}]}),
        json.dumps(dump([[WRITE]], [], [0, 1 << 63])),
        json.dumps(dump([[WRITE]], [], [0]) | {"tasks": [{"task_id": "one"}]}),
        json.dumps({**kernel(), "all_events": [{"event_type": 901, "num_triggers": 1, "last_task_id": 5}]}),
        "[" * 100_000,
        '{"tasks": ' + "[" * 100_000,
    ],
)
def test_other_files_are_bad_input(text: str, tmp_path: Path) -> None:
    with pytest.raises(HauloutError) as raised:
        tasks.load(written(text, tmp_path))
    assert [each.code for each in raised.value.diagnostics] == ["bad-input"]


def test_graphs_are_known_by_content(tmp_path: Path) -> None:
    assert is_task_graph(written("\ufeff \n{}", tmp_path, "deps.txt"))
    assert not is_task_graph(written("{}", tmp_path, "program.bir"))
    assert not is_task_graph(written("[]", tmp_path))
    assert not is_task_graph(tmp_path)


def test_the_command(tmp_path: Path) -> None:
    path = str(written(dump([[WRITE], [WRITE]], [], [0]), tmp_path))
    said = haulout("check", path, "--fix")
    assert said.status == 1
    assert "note[missing-edges]: 1 edge orders all races" in said.stdout
    assert said.stdout.endswith(f"{path}: 2 tasks, 0 edges, 1 pairs that need an order: 1 finding\n")
    found = json.loads(haulout("check", path, "--format", "json").stdout)
    assert [each["code"] for each in found["diagnostics"]] == ["task-race"]
    assert haulout("check", str(written(dump([[WRITE]], [], [0]), tmp_path))).status == 0
    assert haulout("check", path, "--lnc", "2").status == 2


def test_fix_is_for_task_graphs() -> None:
    said = haulout("check", "examples/race/sum_race.bir", "--fix")
    assert said.status == 2
    assert "only a task graph" in said.stdout
