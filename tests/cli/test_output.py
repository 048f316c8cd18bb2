"""`-o` of every command: where it leads, and that stdout carries either a result or what is said about it."""

from __future__ import annotations

import io
import json
import re
import stat
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.cli.command import FIXED, RACE, haulout

from haulout.cli.main import main
from haulout.ir.text import parse_bir, print_bir

PROBLEM = "id,lower,upper,size\nx,0,4,64\ny,2,6,128\n"


@pytest.fixture
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Command -> its arguments without `-o`; opt and simulate have something to say besides."""
    folder = tmp_path_factory.mktemp("sources")
    untimed = folder / "untimed.bir"
    untimed.write_text(re.sub(r" seq=\d+", "", FIXED.read_text()))
    problem, placed = folder / "p.csv", folder / "placed.csv"
    problem.write_text(PROBLEM)
    assert haulout("plan", problem, "-q", "-o", placed).status == 0
    compiled = folder / "compiled"
    assert haulout("compile", FIXED, "-q", "-o", compiled).status == 0
    assert haulout("simulate", compiled / "program.bir", "-q", "-o", compiled / "outputs.npz").status == 0
    return {
        "opt": ["opt", "-q", str(untimed)],
        "reduce": ["reduce", str(RACE), "--code", "cross-core-race"],
        "simulate": ["simulate", "-q", str(RACE), "--schedule", "all"],
        "run": ["run", "-q", str(compiled / "program.bir"), "--expect", str(compiled / "outputs.npz")],
        "plan": ["plan", "-q", str(problem)],
        "map": ["map", str(placed)],
    }


COMMANDS = ["opt", "reduce", "run", "simulate", "plan", "map"]


def run(arguments: list[str], output: str | Path) -> tuple[int, bytes, str]:
    """Status, stdout and stderr."""
    result = CliRunner().invoke(main, [*arguments, "-o", str(output)])
    return result.exit_code, result.stdout_bytes, result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_stdout_gets_what_a_file_gets_and_nothing_else(
    command: str, sources: dict[str, list[str]], tmp_path: Path
) -> None:
    status, said, _ = run(sources[command], tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    again, stdout, stderr = run(sources[command], "-")
    assert (again, stdout) == (status, data)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file"]
    if command != "map":  # it says the name of the file
        assert said.decode() in stderr


def test_findings_are_on_stderr_when_a_program_is_on_stdout(sources: dict[str, list[str]], tmp_path: Path) -> None:
    for more in ([], ["-o", "-"]):
        outcome = haulout(*sources["opt"], *more)
        assert outcome.status == 0
        assert print_bir(parse_bir(outcome.stdout)) == outcome.stdout
        assert "note[kept-fences]" in outcome.stderr
    outcome = haulout(*sources["opt"], "-o", tmp_path / "x.bir")
    assert "note[kept-fences]" in outcome.stdout
    assert outcome.stderr == ""


def test_outputs_of_a_run_on_stdout(sources: dict[str, list[str]]) -> None:
    status, stdout, stderr = run([*sources["simulate"], "--format", "json"], "-")
    assert status == 1
    with np.load(io.BytesIO(stdout)) as arrays:
        assert arrays.files
    assert {each["code"] for each in json.loads(stderr)["diagnostics"]} == {"cross-core-race"}


@pytest.mark.parametrize("command", ["opt", "reduce"])
def test_an_error_leaves_stdout_empty(command: str, tmp_path: Path) -> None:
    """`haulout opt broken.bir > program.bir` does not make the message a program."""
    more = ["--code", "deadlock"] if command == "reduce" else []
    outcome = haulout(command, tmp_path / "missing.bir", *more)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[bad-input]: cannot read ")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_and_a_link_stay_what_they_are(command: str, sources: dict[str, list[str]], tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_text("before")
    (tmp_path / "file").chmod(0o640)
    statuses = {run(sources[command], each)[0] for each in ("/dev/null", tmp_path / "null", tmp_path / "link")}
    assert len(statuses) == 1
    assert stat.S_ISCHR(Path("/dev/null").lstat().st_mode)
    assert (tmp_path / "null").is_symlink() and (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == run(sources[command], "-")[1]
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    status, stdout, stderr = run(sources[command], "/dev/full")
    assert status == 2
    assert "cannot write /dev/full: No space left on device" in stdout.decode() + stderr
    assert stat.S_ISCHR(Path("/dev/full").lstat().st_mode)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "link", "null"]


def test_compile_writes_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = haulout("compile", FIXED, "-q", "-o", "-")
    assert outcome.status == 2
    assert "three files, not stdout" in outcome.stdout + outcome.stderr
    assert list(tmp_path.iterdir()) == []
    assert haulout("compile", FIXED, "-q", "-o", "./-").status == 0
    assert sorted(each.name for each in (tmp_path / "-").iterdir()) == ["memory.html", "program.bir", "report.json"]
    assert haulout("compile", FIXED, "-q", "-o", "/dev/null").status == 2
    assert stat.S_ISCHR(Path("/dev/null").lstat().st_mode)


def test_a_folder_with_links_modes_and_other_files(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere.bir"
    out.mkdir()
    (out / "program.bir").symlink_to(elsewhere)
    (out / "report.json").write_text("before")
    (out / "report.json").chmod(0o600)
    (out / "memory.html").symlink_to("/dev/null")
    (out / "mine.txt").write_text("mine")
    assert haulout("compile", FIXED, "-q", "-o", out).status == 0
    assert elsewhere.read_text().startswith("bir 1\n")
    assert json.loads((out / "report.json").read_text())["lnc"] == 2
    assert stat.S_IMODE((out / "report.json").stat().st_mode) == 0o600
    assert (out / "memory.html").readlink() == Path("/dev/null")
    assert (out / "mine.txt").read_text() == "mine"
    assert len(list(out.iterdir())) == 4
