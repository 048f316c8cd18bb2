"""`haulout explain`: every code has an example, and every example gives its code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import haulout

from haulout.report.catalog import CATALOG
from haulout.report.examples import EXAMPLES


def run(command: str) -> str:
    """What the parts of an example's command print, one after the other."""
    said = ""
    for part in command.split(" && "):
        program, *arguments = part.split()
        if program == "haulout":
            outcome = haulout(*arguments)
            said += outcome.stdout + outcome.stderr
        else:
            done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
            said += done.stdout + done.stderr
    return said


def test_every_code_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(CATALOG)


@pytest.mark.thin(4, "12 s")
@pytest.mark.parametrize("code", sorted(EXAMPLES))
def test_every_example_gives_its_finding(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = EXAMPLES[code]
    monkeypatch.chdir(tmp_path)
    for name, text in example.files.items():
        (tmp_path / name).write_text(text)
    lines = [re.sub(r"^.*?(?=(error|warning|note)\[)", "", line) for line in run(example.command).splitlines()]
    assert example.finding in lines
    assert re.match(rf"(error|warning|note)\[{code}\]: .", example.finding)


@pytest.mark.parametrize("code", sorted(CATALOG))
def test_every_part_is_told(code: str) -> None:
    said = haulout("explain", code)
    assert said.status == 0
    words = " ".join(said.stdout.split())
    entry, example = CATALOG[code], EXAMPLES[code]
    for text in (*entry, example.command, example.finding, *example.files.values()):
        assert " ".join(text.split()) in words


def test_without_a_code_all_are_listed() -> None:
    said = haulout("explain")
    assert said.status == 0
    assert [line.split()[0] for line in said.stdout.splitlines()] == sorted(CATALOG)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("cross-core-rase", "cross-core-race"), ("Deadlock", "deadlock"), ("race", "cross-core-race")],
)
def test_a_code_that_is_none_is_bad_input_with_near_ones(typed: str, meant: str) -> None:
    said = haulout("explain", typed)
    assert said.status == 2
    assert "error[bad-input]" in said.stdout
    assert f"unknown code '{typed}'" in said.stdout
    assert meant in said.stdout


def test_nothing_is_near() -> None:
    said = haulout("explain", "xyzzyq")
    assert said.status == 2
    assert "did you mean" not in said.stdout
