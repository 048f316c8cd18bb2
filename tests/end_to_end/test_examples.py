"""The quick start of README: the commands print what is stored and shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import haulout
from haulout.cli.main import main
from haulout.ir.text import parse_bir, print_bir

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
JAX = sorted(path.stem for path in (EXAMPLES / "jax").glob("*.hlo"))


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.stdout


def test_the_race_is_reported_as_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    status, text = run("check", "examples/race/sum_race.bir")
    assert status == 1
    assert text == (EXAMPLES / "race" / "sum_race.report.txt").read_text()


def test_readme_shows_what_is_printed() -> None:
    shown = (ROOT / "README.md").read_text()
    for line in (EXAMPLES / "race" / "sum_race.report.txt").read_text().splitlines()[:9]:
        assert line in shown


def test_the_mended_version_is_clean_and_agrees_under_all_schedules() -> None:
    path = str(EXAMPLES / "race" / "sum_fixed.bir")
    assert run("check", path)[0] == 0
    assert run("simulate", path, "--schedule", "all", "-q")[0] == 0
    assert run("simulate", str(EXAMPLES / "race" / "sum_race.bir"), "--schedule", "all", "-q")[0] == 1


def test_compile_mends_the_race_by_itself(tmp_path: Path) -> None:
    assert run("compile", str(EXAMPLES / "race" / "sum_race.bir"), "-q", "-o", str(tmp_path))[0] == 0
    text = (tmp_path / "program.bir").read_text()
    assert text.count("core_barrier") == 2
    assert print_bir(parse_bir(text)) == text
    assert haulout.check(tmp_path / "program.bir") == []


@pytest.mark.parametrize("example", JAX)
def test_jax_examples_compile_and_compute_what_jax_computed(example: str, tmp_path: Path) -> None:
    source, values = EXAMPLES / "jax" / f"{example}.hlo", str(EXAMPLES / "jax" / f"{example}.npz")
    assert run("compile", str(source), "-q", "-o", str(tmp_path))[0] == 0
    program = str(tmp_path / "program.bir")
    assert run("check", program)[0] == 0
    output = str(tmp_path / "outputs.npz")
    status, text = run(
        "simulate", program, "--inputs", values, "--expect", values, "--schedule", "all", "-q", "-o", output
    )
    assert status == 0, text
    assert "outputs as expected" in text
    # What a run wrote is what another run can be held against.
    status, text = run("simulate", program, "--inputs", values, "--expect", output, "-q")
    assert status == 0, text
    assert run("simulate", program, "--seed", "1", "--expect", output, "-q")[0] == 1
