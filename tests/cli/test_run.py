"""`haulout run`: what goes where, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import HLO, haulout

VALUES = HLO.with_suffix(".npz")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    assert haulout("compile", HLO, "-q", "-o", folder).status == 0
    return folder / "program.bir"


def test_outputs_are_compared_with_those_of_jax(program: Path) -> None:
    result = haulout("run", program, "--inputs", VALUES, "--expect", VALUES)
    assert result.status == 0, result
    assert "outputs as expected" in result.stdout
    assert "run 0: " in result.stderr
    assert "median" not in result.stderr


def test_what_it_writes_is_what_the_simulator_writes(program: Path, tmp_path: Path) -> None:
    run, simulated = tmp_path / "run.npz", tmp_path / "simulated.npz"
    assert haulout("run", program, "--seed", "3", "-q", "-o", run).status == 0
    assert haulout("simulate", program, "--seed", "3", "-q", "-o", simulated).status == 0
    assert run.read_bytes() == simulated.read_bytes()
    assert haulout("run", program, "--seed", "4", "--expect", run, "-q").status == 1


def test_every_run_is_timed(program: Path) -> None:
    result = haulout("run", program, "--repeat", "3")
    lines = result.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["run 0", "run 1", "run 2"]
    assert lines[3].startswith("least ")
    assert "median" in lines[3]
    assert haulout("run", program, "--repeat", "3", "-q").stderr == ""


def test_a_trace_is_written(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert haulout("run", program, "-q", "--trace", path).status == 0
    assert json.loads(path.read_text())["traceEvents"]


@pytest.mark.parametrize(
    "words", [("--repeat", "0"), ("--seed", "-1"), ("--inputs", "missing.npz"), ("--expect", "missing.npz")]
)
def test_what_cannot_be_done_is_bad_input(program: Path, words: tuple[str, ...]) -> None:
    assert haulout("run", program, *words).status == 2


def test_a_program_that_is_not_compiled_is_bad_input() -> None:
    result = haulout("run", HLO)
    assert result.status == 2
    assert "haulout compile" in result.stdout + result.stderr


def test_a_dropped_barrier_is_a_finding(program: Path, tmp_path: Path) -> None:
    lines = program.read_text().splitlines(keepends=True)
    last = max(at for at, line in enumerate(lines) if "core_barrier" in line)
    broken = tmp_path / "broken.bir"
    broken.write_text("".join(lines[:last] + lines[last + 1 :]))
    result = haulout("run", broken, "-q")
    assert result.status == 1
    assert "error[deadlock]" in result.stdout


def test_a_thread_a_queue_gives_the_same_bytes(program: Path, tmp_path: Path) -> None:
    run, simulated = tmp_path / "run.npz", tmp_path / "simulated.npz"
    trace = tmp_path / "trace.json"
    assert haulout("run", program, "--queues", "-q", "-o", run, "--trace", trace).status == 0
    assert haulout("simulate", program, "-q", "-o", simulated).status == 0
    assert run.read_bytes() == simulated.read_bytes()
    events = json.loads(trace.read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert len(names) > 2


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_a_missing_input_is_an_error_and_not_drawn(command: str, program: Path, tmp_path: Path) -> None:
    with np.load(VALUES) as values:
        given = {name: value for name, value in values.items() if name.startswith("in/")}
    missing = next(iter(given)).rpartition("/")[2]
    some = {name: value for name, value in given.items() if name.rpartition("/")[2] != missing}
    assert some
    np.savez(tmp_path / "some.npz", **some)
    result = haulout(command, program, "--inputs", tmp_path / "some.npz")
    assert result.status == 2
    assert "missing input" in result.stdout + result.stderr
    assert "Without --inputs, all inputs are drawn" in " ".join(haulout(command, "--help").stdout.split())
