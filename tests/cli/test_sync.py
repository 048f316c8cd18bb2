"""`compile --sync`: no dependence is left, with `all` no barrier either, and the program does the same."""

import json
from pathlib import Path

import pytest
from tests.cli.command import FIXED, HLO, haulout

import haulout as library


@pytest.mark.parametrize(("source", "sync"), [(HLO, "semaphores"), (HLO, "all"), (FIXED, "all")])
def test_order_is_made_of_semaphores(source: Path, sync: str, tmp_path: Path) -> None:
    result = haulout("compile", source, "-o", tmp_path, "--sync", sync)
    assert result.status == 0
    program = library.load(tmp_path / "program.bir")
    assert not len(program.dependences)
    assert bool(len(program.barriers)) is (sync == "semaphores")
    report = json.loads((tmp_path / "report.json").read_text())
    assert 0 < report["semaphores"] <= 32
    assert report["barriers"] > 0
    assert f"semaphores: at most {report['semaphores']} on a core" in result.stdout
    assert haulout("check", tmp_path / "program.bir").status == 0


def test_the_numbers_stay_the_same(tmp_path: Path) -> None:
    values = HLO.with_suffix(".npz")
    haulout("compile", HLO, "-o", tmp_path, "--sync", "all")
    result = haulout("simulate", tmp_path / "program.bir", "--inputs", values, "--expect", values)
    assert result.status == 0
    assert "as expected" in result.stdout


def test_what_barriers_hide_once_they_are_lowered_is_found_before(tmp_path: Path) -> None:
    text = FIXED.read_text()
    at = text.rindex('name="')
    path = tmp_path / "other_name.bir"
    path.write_text(text[:at] + 'name="other' + text[text.index('"', at + 6) :])
    result = haulout("compile", path, "-o", tmp_path / "out", "--sync", "all")
    assert result.status == 1
    assert "barrier-mismatch" in result.stdout
    assert len(library.load(tmp_path / "out" / "program.bir").barriers)
