"""What commands say about themselves in `--format json`, several inputs of `check`, stdin, and fixes in SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.command import FIXED, HLO, RACE, Outcome, haulout
from tests.support.sarif_schema import problems

from haulout import api
from haulout.cli.main import main
from haulout.ir.text import print_bir
from haulout.report.catalog import ASSUMED
from haulout.report.examples import EXAMPLES

PROBLEM = "id,lower,upper,size\nx,0,4,64\ny,2,6,128\nz,4,8,64\n"
KERNEL = """import nki.language as nl
import nki.isa as nisa

def scale(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def document(outcome: Outcome) -> dict[str, Any]:
    found = json.loads(outcome.stdout)
    assert isinstance(found, dict)
    assert found["version"] == 1
    assert found["summary"]["outcome"]["exit_status"] == outcome.status
    return found


def test_compile_has_the_figures_of_its_report(tmp_path: Path) -> None:
    found = document(haulout("compile", HLO, "-q", "-o", tmp_path, "--format", "json"))
    report = json.loads((tmp_path / "report.json").read_text())
    summary = found["summary"]
    assert found["command"] == "compile"
    counts = {"proved": True, "findings": 0, "notes": 0, "suppressed": 0, "exit_status": 0}
    assert summary["outcome"] == counts | {"not_proved": report["not_proved"]}
    for key, name in {
        "peak_bytes": "total_peak_bytes",
        "lower_bound_bytes": "total_lower_bound_bytes",
        "fences": "barriers",
        "makespan_us": "estimated_makespan_us",
    }.items():
        assert summary[key] == report[name]
    assert summary["peak_bytes"] > 0
    page = tmp_path / "map.html"
    drawn = document(haulout("map", tmp_path / "program.bir", "-o", page, "--format", "json"))
    assert (drawn["command"], drawn["summary"]["page"], drawn["summary"]["cores"]) == ("map", str(page), 2)
    executed = document(haulout("run", tmp_path / "program.bir", "-q", "--repeat", "2", "--format", "json"))
    assert len(executed["summary"]["seconds"]) == 2
    assert executed["summary"]["outputs"] > 0


def test_a_proof_names_its_assumptions(tmp_path: Path) -> None:
    (text,) = EXAMPLES["assumed-trip"].files.values()
    path = tmp_path / "loop.bir"
    path.write_text(text)
    for command in (["check", path], ["compile", path, "-q", "-o", tmp_path / "out"]):
        found = document(haulout(*command, "--format", "json"))
        codes = {each["code"] for each in found["diagnostics"]} & ASSUMED.keys()
        assert codes
        assert {ASSUMED[code] for code in codes} <= set(found["summary"]["outcome"]["not_proved"])
    assert document(haulout("check", FIXED, "--format", "json"))["summary"]["outcome"]["not_proved"] == []


def test_explain_split_has_its_section(tmp_path: Path) -> None:
    found = document(haulout("explain-split", HLO, "--format", "json"))
    assert found["command"] == "explain-split"
    assert found["diagnostics"] == []
    assert {"divided", "undivided"} <= set(found["split"])
    assert (
        list(document(haulout("explain-split", tmp_path / "missing.hlo", "--format", "json")))[:4] == list(found)[:4]
    )


def test_plan_has_peak_and_bound(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(PROBLEM)
    found = document(haulout("plan", path, "-q", "--format", "json"))["summary"]
    assert (found["peak_bytes"], found["lower_bound_bytes"], found["status"]) == (192, 192, "optimal")
    full = document(haulout("plan", path, "-q", "--capacity", "191", "--format", "json"))
    assert full["summary"]["outcome"]["findings"] == len(full["diagnostics"]) == 1
    assert full["summary"]["status"] == "infeasible"


def test_simulate_counts(tmp_path: Path) -> None:
    summary = document(haulout("simulate", RACE, "-q", "--schedule", "all", "--format", "json"))["summary"]
    assert summary["schedules"] > 1
    assert summary["outcome"]["findings"] > 0
    assert "proved" not in summary["outcome"]


def test_the_worst_of_several_inputs_is_the_status(tmp_path: Path) -> None:
    missing = tmp_path / "missing.bir"
    assert haulout("check", FIXED, FIXED).status == 0
    assert haulout("check", FIXED, RACE).status == 1
    outcome = haulout("check", missing, RACE, FIXED)
    assert outcome.status == 2
    lines = outcome.stdout.splitlines()
    assert next(line for line in lines if line.startswith(str(RACE))).endswith(": 1 finding")
    assert lines[-1].startswith(f"{FIXED}: ") and lines[-1].endswith(": clean")
    found = document(haulout("check", missing, RACE, FIXED, "--format", "json"))
    assert [each["input"] for each in found["summary"]["inputs"]] == [str(missing), str(RACE), str(FIXED)]
    assert [each["outcome"]["proved"] for each in found["summary"]["inputs"]] == [False, False, True]
    assert found["summary"]["outcome"]["proved"] is False
    assert [each["input"] for each in found["diagnostics"]] == [str(missing), str(RACE)]
    sarif = json.loads(haulout("check", missing, RACE, FIXED, "--format", "sarif").stdout)
    assert list(problems(sarif)) == []
    (run,) = sarif["runs"]
    assert all(each["locations"] for each in run["results"])
    commands = haulout("check", missing, RACE, "--format", "github").stdout.splitlines()
    assert [line.partition(" ")[0] for line in commands] == ["::error", "::error"]
    assert f"file={missing}" in commands[0]


def test_a_crash_on_one_input_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, broken = api.check_source, str(tmp_path / "broken.bir")

    def crash(source: Any, **options: Any) -> Any:
        if source == broken:
            raise ZeroDivisionError
        return real(source, **options)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("haulout.api.check_source", crash)
    outcome = haulout("check", broken, RACE)
    assert outcome.status == 3
    assert "error[internal-error]" in outcome.stdout and "error[cross-core-race]" in outcome.stdout


def test_stdin_among_others() -> None:
    def piped(*arguments: str, data: bytes = RACE.read_bytes()) -> Any:
        return CliRunner().invoke(main, ["check", *arguments], input=data)

    assert piped("-").exit_code == 1
    assert piped("-", "-").exit_code == 2
    assert piped("-", str(RACE), data=FIXED.read_bytes()).exit_code == 1
    assert piped("-", "--lnc", "3").exit_code == 2


def test_a_clean_kernel_is_proved(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text(KERNEL)
    found = document(haulout("check", f"{path}::scale", "--arg", "x=f32[128,64]", "--format", "json"))
    assert found["summary"]["inputs"][0]["outcome"]["proved"] is True
    assert found["summary"]["inputs"][0]["cores"] == 2


def _edited(text: str, changes: list[dict[str, Any]]) -> str:
    """The text after the replacements of a SARIF fix."""
    lines = text.split("\n")
    for each in reversed(changes):
        region = each["deletedRegion"]
        assert region["startColumn"] == region["endColumn"] == 1
        lines[region["startLine"] - 1 : region["endLine"] - 1] = each.get("insertedContent", {"text": ""})[
            "text"
        ].splitlines()
    return "\n".join(lines)


@pytest.mark.parametrize("canonical", [True, False])
def test_a_fix_in_sarif_removes_the_finding(canonical: bool, tmp_path: Path) -> None:
    path = tmp_path / "race.bir"
    path.write_text(print_bir(api.load(RACE)) if canonical else RACE.read_text())
    (run,) = json.loads(haulout("check", path, "--format", "sarif").stdout)["runs"]
    (result,) = run["results"]
    ((change,),) = [fix["artifactChanges"] for fix in result["fixes"]]
    edited = tmp_path / "edited.bir"
    edited.write_text(_edited(path.read_text(), change["replacements"]))
    assert haulout("check", edited).status == 0
    if not canonical:
        comments = [line for line in RACE.read_text().splitlines() if line.startswith("#")]
        assert comments and [line for line in edited.read_text().splitlines() if line.startswith("#")] == comments


def test_no_fix_where_the_file_is_not_the_program(tmp_path: Path) -> None:
    from haulout.report.text_fix import TextFixes

    path = tmp_path / "race.bir"
    path.write_text(RACE.read_text())
    checked = api.check_source(path)
    (finding,) = checked.diagnostics
    assert TextFixes(checked.program)(finding) is not None
    path.write_text(RACE.read_text().replace("add @vector", "multiply @vector"))
    assert TextFixes(checked.program)(finding) is None
    path.unlink()
    assert TextFixes(checked.program)(finding) is None
