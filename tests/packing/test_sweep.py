"""Sweeps: a row for each problem, in order, equal on every scheduler; what needs Dask is skipped without it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.command import haulout

from haulout.packing import Problem, Solution, SweepRow, solve, sweep
from haulout.packing.csvio import read_csv
from haulout.support.diagnostics import HauloutError

_PINNED = "id,lower,upper,size,offset\nb1,0,4,64,128\nb2,2,6,64,\n"


def _problems(count: int) -> list[Problem]:
    rng = np.random.default_rng(7)
    found = []
    for n in rng.integers(2, 30, count).tolist():
        lower = rng.integers(0, 40, n)
        found.append(Problem.of(lower, lower + rng.integers(1, 20, n), rng.integers(1, 2000, n), 64))
    return found


def _folder(place: Path) -> Path:
    """Two problems, one of them in a folder; a file that is none; a hidden file."""
    (place / "inner").mkdir(parents=True)
    (place / "inner" / "z.csv").write_text("id,lower,upper,size\nx,0,4,100\ny,2,6,28\n")
    (place / "b.csv").write_text(_PINNED)
    (place / "c.csv").write_text("id,lower,upper,size\nx,0,4,many\n")
    (place / ".hidden").write_text("x")
    return place


def _seen(rows: list[SweepRow]) -> list[object]:
    """All that a row has, as plain values."""
    return [
        (row.name, row.ids, row.diagnostics, None if row.solution is None else _plain(row.solution)) for row in rows
    ]


def _plain(solution: Solution) -> tuple[object, ...]:
    return (
        solution.offset.tolist(), solution.pool.tolist(), solution.peak, solution.lower_bound, solution.status,
        solution.capacity, solution.method, solution.work, solution.pools,
    )  # fmt: skip


def test_one_process_gives_what_solve_gives() -> None:
    problems = _problems(12)
    rows = sweep(problems)
    assert [row.name for row in rows] == [f"problem {at}" for at in range(12)]
    for row, problem in zip(rows, problems, strict=True):
        assert row.solution is not None and _plain(row.solution) == _plain(solve(problem))
    assert sweep([]) == []


def test_a_folder_is_its_files_by_path_and_a_bad_one_has_its_finding(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "all")
    pinned, bad, inner = sweep(folder)
    assert [row.name for row in (pinned, bad, inner)] == [
        str(folder / name) for name in ("b.csv", "c.csv", "inner/z.csv")
    ]
    assert pinned.ids == ("b1", "b2") and pinned.solution is not None and pinned.solution.offset[0] == 128
    assert bad.solution is None and [each.code for each in bad.diagnostics] == ["bad-input"]
    assert bad.diagnostics[0].span is not None and bad.diagnostics[0].span.line == 2
    assert inner.solution is not None and inner.solution.peak == 128


def test_a_file_that_is_not_there_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(_PINNED)
    absent, there = sweep([tmp_path / "none.csv", str(tmp_path / "a.csv")])
    assert absent.solution is None and absent.diagnostics[0].code == "bad-input"
    assert there.solution is not None


def test_a_file_is_solved_as_by_the_command(tmp_path: Path) -> None:
    file, out = tmp_path / "a.csv", tmp_path / "out.csv"
    file.write_text(_PINNED)
    assert haulout("plan", str(file), "-o", str(out)).status == 0
    [row] = sweep([file])
    offset = read_csv(out).offset
    assert row.solution is not None and offset is not None
    assert row.solution.offset.tolist() == offset.tolist()


def test_reuse_penalties_are_lowered_below_the_capacity(tmp_path: Path) -> None:
    buffers = [
        {
            "id": number,
            "name": f"b{number}",
            "size": 64,
            "alignment": 64,
            "live_intervals": [{"lower": number, "upper": number + 1}],
            "allowed_pools": [0],
        }
        for number in range(2)
    ]
    pools = [{"id": 0, "name": "L1", "capacity": 128, "reserved_ranges": []}]
    lists = ("colocations", "separations", "temporal_exclusions", "pinned_allocations")
    rules: dict[str, list[str]] = {name: [] for name in lists}
    costs = {"reuse_penalties": [{"first": 0, "second": 1, "cost": 40, "reason": "generic"}]}
    problem = {"pools": pools, "buffers": buffers, "constraints": rules, "cost_model": costs}
    document = {"schema_version": 1, "profile": "p", "instance": "i", "metadata": {}, "problem": problem}
    file = tmp_path / "a.json"
    file.write_text(json.dumps(document))
    [row] = sweep([file])
    assert row.solution is not None and sorted(row.solution.offset.tolist()) == [0, 64]


def test_options_are_those_of_solve() -> None:
    problem = Problem.of([0, 0, 2], [2, 4, 4], [64, 128, 64])
    [above] = sweep([problem], capacity=191)
    assert above.solution is not None and above.solution.status == "infeasible" and not above.diagnostics
    [built] = sweep([problem], effort=0.0)
    assert built.solution is not None and "squeaky wheel turns" not in built.solution.work


def test_a_problem_that_is_not_valid_ends_only_its_row() -> None:
    overlapping = Problem.of([0, 0], [2, 2], [64, 64], pinned=[0, 32])
    wrong, right = sweep([overlapping, *_problems(1)])
    assert wrong.solution is None and wrong.diagnostics[0].code == "bad-input" and right.solution is not None


@pytest.mark.parametrize(
    "options",
    [
        {"effort": -1.0},
        {"capacity": -1},
        {"time_limit": -1.0},
        {"scheduler": "cluster"},
        {"scheduler": "threads", "client": object()},
    ],
)
def test_bad_options_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(HauloutError, match="bad-input"):
        sweep(_problems(1), **options)


def test_bad_problems_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(HauloutError, match="folder"):
        sweep(tmp_path / "none")
    with pytest.raises(HauloutError, match="problem 1 is of type int"):
        sweep([*_problems(1), 3])  # type: ignore[list-item]


def test_ctrl_c_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """`solve` returns its best placement then; the sweep must not go on with the next problem."""
    asked = []

    def interrupted(problem: Problem, **options: Any) -> Solution:
        asked.append(problem)
        solution = solve(problem)
        object.__setattr__(solution, "interrupted", True)
        return solution

    monkeypatch.setattr("haulout.packing.sweeps.solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(_problems(3))
    assert len(asked) == 1


def test_the_bar_is_on_stderr_of_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(_problems(5))
    assert capsys.readouterr() == ("", "")  # no terminal
    monkeypatch.setenv("FORCE_COLOR", "1")
    sweep(_problems(5), progress=False)
    assert capsys.readouterr() == ("", "")
    sweep(_problems(5))
    out, err = capsys.readouterr()
    assert out == "" and "5/5" in err


@pytest.mark.parametrize("options", [{"scheduler": "threads"}, {"scheduler": "processes"}, {"client": object()}])
def test_without_dask_a_finding_names_the_extra(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(HauloutError, match=r"haulout\[dask\]"):
        sweep(_problems(1), **options)


@pytest.fixture
def mixed(tmp_path: Path) -> list[str | Path | Problem]:
    """Problems and files, one of which cannot be read, in an order that is not sorted."""
    folder = _folder(tmp_path / "all")
    return [*_problems(8), folder / "inner" / "z.csv", str(folder / "c.csv"), *_problems(3), folder / "b.csv"]


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize("most", [1_000, 3])
def test_local_schedulers_give_equal_rows(
    scheduler: Any, most: int, mixed: list[str | Path | Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask")
    monkeypatch.setattr("haulout.packing.sweeps._MAX_BATCHES", most)
    assert _seen(sweep(mixed, scheduler=scheduler)) == _seen(sweep(mixed))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as found:
        yield found


def test_a_client_gives_equal_rows(client: Any, mixed: list[str | Path | Problem]) -> None:
    assert _seen(sweep(mixed, client=client)) == _seen(sweep(mixed))


@pytest.mark.parametrize("way", ["threads", "client"])
def test_the_bar_counts_problems_of_dask(
    way: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("dask")
    options = {"client": request.getfixturevalue("client")} if way == "client" else {"scheduler": way}
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("haulout.packing.sweeps._MAX_BATCHES", 3)
    sweep(_problems(7), **options)
    assert "7/7" in capsys.readouterr().err


def test_a_defect_ends_the_sweep_on_a_client(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Solution:
        raise ZeroDivisionError

    monkeypatch.setattr("haulout.packing.sweeps.solve", broken)  # the workers are threads of this process
    with pytest.raises(ZeroDivisionError):
        sweep(_problems(3), client=client)
