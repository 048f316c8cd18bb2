"""`-` is stdin for every command that reads a file, whatever it is; a pipe is read once, however many look at it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.command import FIXED, HLO, RACE

from haulout import api
from haulout.cli.common import INPUT
from haulout.cli.main import main
from haulout.ir.store import save_program
from haulout.support.files import STDIN

NPZ = HLO.with_suffix(".npz")
PROBLEM = b"id,lower,upper,size\nx,0,4,64\ny,2,6,128\nz,4,8,64\n"
GRAPH = b'{"tasks": [], "edges": []}'


def piped(*arguments: str | Path, data: bytes) -> Any:
    result = CliRunner().invoke(main, [str(each) for each in arguments], input=data)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    assert piped("compile", HLO, "-q", "-o", folder, data=b"").exit_code == 0
    return folder / "program.bir"


COMMANDS = {
    "check": ["check", "-"],
    "compile": ["compile", "-", "-q", "-o", "out"],
    "opt": ["opt", "-", "-q", "--passes", ""],
    "map": ["map", "-", "-o", "-"],
    "trace": ["trace", "-"],
    "simulate": ["simulate", "-", "-q"],
    "run": ["run", "-", "-q", "-o", "out.npz"],
    "explain-split": ["explain-split", "-"],
    "compare": ["compare", "-", str(HLO)],
    "reduce": ["reduce", "-", "--code", "cross-core-race"],
    "plan": ["plan", "-", "-q", "-o", "-"],
}


def test_every_command_that_reads_a_file_takes_stdin() -> None:
    context = main.make_context("haulout", [], resilient_parsing=True)
    reads = {
        name
        for name in main.list_commands(context)
        if any(each.param_type_name == "argument" for each in main.get_command(context, name).params)  # type: ignore[union-attr]
    }
    assert reads - {"explain"} == set(COMMANDS)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        assert all(each.type is INPUT for each in command.params if each.param_type_name == "argument")
        for each in command.params:
            if each.name in ("inputs", "expect", "args_file"):
                assert each.type is INPUT


@pytest.mark.parametrize("name", COMMANDS)
def test_stdin_is_as_good_as_the_file(
    name: str, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = {"reduce": RACE, "plan": tmp_path / "problem.csv"}.get(name, compiled)
    (tmp_path / "problem.csv").write_bytes(PROBLEM)
    by_name = piped(
        *(str(file) if each == "-" and at == 1 else each for at, each in enumerate(COMMANDS[name])), data=b""
    )
    files = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    by_stdin = piped(*COMMANDS[name], data=file.read_bytes())
    assert by_name.exit_code == by_stdin.exit_code == 0
    assert by_stdin.stdout == by_name.stdout
    for path, data in files.items():
        if path.suffix not in (".json", ".npz"):  # which have times
            assert path.read_bytes() == data


def test_what_stdin_has_is_known_by_its_contents(compiled: Path, tmp_path: Path) -> None:
    assert "2 cores, 10 instructions" in piped("check", "-", data=HLO.read_bytes()).stdout
    save_program(api.load(FIXED), tmp_path / "fixed.npz")
    assert piped("check", "-", data=(tmp_path / "fixed.npz").read_bytes()).stdout.endswith(": clean\n")
    assert "0 tasks" in piped("check", "-", data=GRAPH).stdout
    assert "3 buffers" in piped("plan", "-", "-q", data=PROBLEM).stdout
    assert piped("opt", "-", "-q", data=b"# passes: no-such\n" + FIXED.read_bytes()).exit_code == 2
    placed = piped("plan", "-", "-q", "-o", "-", data=PROBLEM).stdout
    assert piped("map", "-", "-o", "-", data=placed.encode()).stdout.startswith("<!doctype html>")
    assert piped("simulate", compiled, "--inputs", "-", "--expect", NPZ, "-q", data=NPZ.read_bytes()).exit_code == 0


def test_places_in_stdin() -> None:
    lines = piped("check", "-", data=RACE.read_bytes()).stdout.splitlines()
    at = next(at for at, line in enumerate(lines) if f"--> {STDIN}:" in line)
    assert "%sum" in lines[at + 1] and "^" in lines[at + 2]


def test_what_cannot_be_read_is_refused() -> None:
    twice = piped("compare", "-", "-", data=RACE.read_bytes())
    assert twice.exit_code == 2 and "stdin can be read once" in twice.stderr
    assert piped("run", "-", "--inputs", "-", data=RACE.read_bytes()).exit_code == 2
    for data in (b"", b"\xff", b"nonsense\n", b"\x00" * 100, b"PK\x03\x04"):
        result = piped("check", "-", data=data)
        assert result.exit_code == 2 and f"{STDIN}" in result.stdout


def test_a_closed_stdin() -> None:
    closed = subprocess.run(
        [sys.executable, "-m", "haulout", "check", "-"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.close(0),
    )
    assert closed.returncode == 2 and "cannot read <stdin>: it is closed" in closed.stdout
    assert closed.stderr == ""


def test_a_file_of_the_name_of_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a command holds stdin: Python callers open the file of that name."""
    monkeypatch.chdir(tmp_path)
    Path("-").write_bytes(FIXED.read_bytes())
    Path(STDIN).write_bytes(FIXED.read_bytes())
    assert api.load("-").lnc == api.load(STDIN).lnc == 2
    assert piped("check", "./-", data=b"").exit_code == 0


def test_a_pipe(tmp_path: Path) -> None:
    """Several readers look at a file: what kind it is, whether it has a pipeline, its lines for a finding."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for command, file, status in (("check", RACE, 1), ("check", HLO, 1), ("opt", FIXED, 0)):
        writer = threading.Thread(target=pipe.write_bytes, args=(file.read_bytes(),))
        writer.start()
        result = piped(command, pipe, data=b"")
        writer.join()
        assert result.exit_code == status, result.output
        assert "not " not in result.stderr
