"""Task graphs against a judge with explicit bytes and runs; and the faults that reports of such graphs name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.task_graphs import Graph, random_dump, random_kernel
from tests.checker.task_judge import Judged

from haulout import tasks
from haulout.checker.tasks.check import TaskCheck, with_edges
from haulout.support.diagnostics import Severity

seeds = st.integers(0, 1 << 32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


def checked(graph: Graph, folder: Path) -> TaskCheck:
    path = folder / "graph.json"
    path.write_text(json.dumps(graph))
    return tasks.check(path, fix=True)


def pairs(found: TaskCheck, code: str) -> set[tuple[int, int]]:
    errors = [each for each in found.diagnostics if each.code == code and each.severity is Severity.ERROR]
    subjects = [each.subject.instructions for each in errors if each.subject]
    assert len(subjects) == len(errors)
    return {(one.row, other.row) for one, other in subjects}


def codes(found: TaskCheck) -> set[str]:
    """Codes of what is wrong; a task that two events launch is a warning besides."""
    serious = {each.code for each in found.diagnostics if each.severity > Severity.NOTE}
    return serious - {"unproved-task"}


def agrees(graph: Graph, folder: Path) -> None:
    """The checker and the judge agree about a graph whose events wait for the triggers that they have."""
    judged, found = Judged(graph), checked(graph, folder)
    if not judged.all_start:
        assert "deadlock" in codes(found)
        return
    races, unfaithful = pairs(found, "task-race"), pairs(found, "unfaithful-order")
    assert races <= judged.races()
    assert unfaithful <= judged.unfaithful()
    assert bool(races | unfaithful) == bool(judged.races() | judged.unfaithful())
    assert bool(codes(found)) == bool(judged.races() or judged.unfaithful())
    if not judged.unfaithful() and races and is_forward(graph):
        assert found.verified
        assert len(found.edges) <= found.races


def is_forward(graph: Graph) -> bool:
    """Whether all edges follow the order of submission; only then there always is a fix."""
    return all(int(each["pred"]) < int(each["succ"]) for each in graph.get("edges", ()))


def repaired(graph: Graph, found: TaskCheck) -> Graph:
    """A dump with the edges that the checker proposes."""
    number = {f"task {each['task_id']}": each["task_id"] for each in graph["tasks"]}
    more = [{"pred": number[a], "succ": number[b], "flags": ["wait"]} for a, b in found.edges]
    return {**graph, "edges": [*graph["edges"], *more]}


@given(seeds)
def test_dumps_agree_with_the_judge(folder: Path, seed: int) -> None:
    agrees(random_dump(seed), folder)


@given(seeds)
def test_kernels_agree_with_the_judge(folder: Path, seed: int) -> None:
    agrees(random_kernel(seed, exact=True), folder)


@given(seeds)
def test_counters_are_judged_safely(folder: Path, seed: int) -> None:
    """Counters that do not fit: what has an order has one in every run."""
    graph = random_kernel(seed, exact=False)
    judged, found = Judged(graph), checked(graph, folder)
    if not judged.all_start:
        assert "deadlock" in codes(found)
    elif judged.races() or judged.unfaithful():
        assert codes(found) & {"task-race", "unfaithful-order"}
    assert pairs(found, "unfaithful-order") <= judged.unfaithful() or not judged.all_start


@given(seeds)
def test_edges_that_are_proposed_order_all_races(folder: Path, seed: int) -> None:
    graph = random_dump(seed)
    found = checked(graph, folder)
    if found.verified:
        assert Judged(repaired(graph, found)).races() == set()


@given(seeds)
def test_each_reported_race_needs_an_order(folder: Path, seed: int) -> None:
    """The reported pairs order all others, and none of them is ordered by the rest."""
    graph = random_dump(seed)
    found = checked(graph, folder)
    reported = sorted(pairs(found, "task-race"))
    if found.stopped or not is_forward(graph) or not reported:
        return
    edges = [{"pred": str(a), "succ": str(b)} for a, b in reported]
    assert Judged({**graph, "edges": [*graph["edges"], *edges]}).races() == set()
    for at, pair in enumerate(reported):
        rest = [*graph["edges"], *edges[:at], *edges[at + 1 :]]
        assert pair in Judged({**graph, "edges": rest}).races()


@given(seeds)
def test_redundant_edges_are_those_that_may_be_removed(folder: Path, seed: int) -> None:
    graph = random_dump(seed)
    found = checked(graph, folder)
    if found.stopped:
        return
    judged = Judged(graph)
    removable = 0
    for at, edge in enumerate(graph["edges"]):
        less = Judged({**graph, "edges": graph["edges"][:at] + graph["edges"][at + 1 :]})
        removable += less.before(int(edge["pred"]), int(edge["succ"]))
        assert judged.before(int(edge["pred"]), int(edge["succ"]))
    notes = [each.message for each in found.diagnostics if each.code == "redundant-edge"]
    assert [int(each.split()[0]) for each in notes] == ([removable] if removable else [])


def test_the_file_is_not_changed_by_edges(folder: Path) -> None:
    found = checked(random_kernel(3, exact=True), folder)
    before = found.graph.needed.copy()
    with_edges(found.graph, found.graph.source[:1], found.graph.target[:1])
    assert (found.graph.needed == before).all()
