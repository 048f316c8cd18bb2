"""`compile --sync semaphores`: no dependence and no barrier is left, and the program does the same."""

import json
from pathlib import Path

import pytest
from tests.cli.command import HLO, MENDED, haulout

import haulout as library


@pytest.mark.parametrize("source", [MENDED, HLO])
def test_order_is_semaphores_alone(source: Path, tmp_path: Path) -> None:
    result = haulout("compile", source, "-o", tmp_path, "--sync", "semaphores")
    assert result.status == 0
    program = library.load(tmp_path / "program.bir")
    assert not len(program.dependences)
    assert not len(program.barriers)
    report = json.loads((tmp_path / "report.json").read_text())
    assert 0 < report["semaphores"] <= 32
    assert report["barriers"] > 0
    assert f"semaphores: at most {report['semaphores']} on a core" in result.stdout
    assert haulout("check", tmp_path / "program.bir").status == 0


def test_the_numbers_stay_the_same(tmp_path: Path) -> None:
    values = HLO.with_suffix(".npz")
    haulout("compile", HLO, "-o", tmp_path, "--sync", "semaphores")
    result = haulout("simulate", tmp_path / "program.bir", "--inputs", values, "--expect", values)
    assert result.status == 0
    assert "as expected" in result.stdout
