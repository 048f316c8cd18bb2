"""What goes where: results on stdout, progress on stderr; `--format json` and `sarif` as they are documented."""

import json
from pathlib import Path

import pytest
from tests.cli.command import FIXED, HLO, RACE, haulout
from tests.support.sarif_schema import problems

from haulout.report.catalog import CATALOG


def test_progress_is_on_stderr(tmp_path: Path) -> None:
    result = haulout("compile", HLO, "-o", tmp_path / "out")
    for name in ("build_fdeps", "lower_local_collectives", "check"):
        assert name in result.stderr
        assert f"{name} " not in result.stdout
    assert " s " in result.stderr
    assert "proved" in result.stdout
    assert "proved" not in result.stderr
    assert haulout("compile", HLO, "-o", tmp_path / "out", "--quiet").stderr == ""


def test_opt_prints_a_program_and_nothing_else(tmp_path: Path) -> None:
    result = haulout("opt", HLO)
    path = tmp_path / "x.bir"
    path.write_text(result.stdout)
    assert haulout("check", path).status == 0
    assert haulout("opt", HLO, "-o", tmp_path / "y.bir").stdout == ""
    assert (tmp_path / "y.bir").read_text() == result.stdout
    assert "# after build_fdeps\nbir 1\n" in haulout("opt", HLO, "--print-after", "build_fdeps").stderr


def _json(text: str) -> list[dict[str, object]]:
    document = json.loads(text)
    assert list(document) == ["version", "command", "summary", "diagnostics"]
    assert document["version"] == 1
    assert document["summary"]["outcome"]["exit_status"] in (0, 1, 2, 3)
    findings = document["diagnostics"]
    for each in findings:
        assert {"code", "severity", "message", "labels", "notes", "help"} <= set(each)
        assert each["severity"] in ("note", "warning", "error")
        for label in each["labels"]:
            assert "message" in label
            assert "file" not in label or isinstance(label["line"], int)
    return findings  # type: ignore[no-any-return]


def test_json(tmp_path: Path) -> None:
    result = haulout("check", RACE, "--format", "json")
    assert result.status == 1
    findings = _json(result.stdout)
    assert "cross-core-race" in {each["code"] for each in findings}
    label = findings[0]["labels"][0]  # type: ignore[index]
    assert label["file"] == str(RACE)
    assert "%sum" in RACE.read_text().splitlines()[label["line"] - 1]
    assert _json(haulout("check", FIXED, "--format", "json").stdout) == []
    assert _json(haulout("compile", FIXED, "-o", tmp_path / "out", "--format", "json", "-q").stdout) == []
    assert _json(haulout("simulate", FIXED, "--format", "json", "-q").stdout) == []
    broken = haulout("check", tmp_path / "missing.bir", "--format", "json")
    assert broken.status == 2
    assert [each["code"] for each in _json(broken.stdout)] == ["bad-input"]


def test_sarif(tmp_path: Path) -> None:
    result = haulout("check", RACE, "--format", "sarif")
    assert result.status == 1
    document = json.loads(result.stdout)
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "haulout"
    assert run["results"]
    assert list(problems(document)) == []
    for rule in driver["rules"]:
        assert rule["fullDescription"]["text"] in "\n\n".join(CATALOG[rule["id"]][:2])
        assert rule["help"]["text"] == CATALOG[rule["id"]].fix
    for each in run["results"]:
        assert driver["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        assert each["level"] in ("note", "warning", "error")
        assert each["message"]["text"]
        for place in each["locations"]:
            physical = place["physicalLocation"]
            assert physical["artifactLocation"]["uri"] == str(RACE)
            assert physical["region"]["startLine"] >= 1
    empty = json.loads(haulout("check", FIXED, "--format", "sarif").stdout)
    assert empty["runs"][0]["results"] == []
    missing = json.loads(haulout("check", tmp_path / "missing.bir", "--format", "sarif").stdout)
    assert [each["ruleId"] for each in missing["runs"][0]["results"]] == ["bad-input"]


@pytest.mark.parametrize("style", ["json", "sarif"])
def test_an_internal_error_keeps_the_format(style: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("haulout.ir.text.parse_bir", crash)
    result = haulout("check", FIXED, "--format", style)
    assert result.status == 3
    assert "internal-error" in json.dumps(json.loads(result.stdout))


def test_report(tmp_path: Path) -> None:
    """The documented fields, and that they agree with the program."""
    assert haulout("compile", HLO, "-o", tmp_path).status == 0
    report = json.loads((tmp_path / "report.json").read_text())
    wanted = {"lnc", "instructions", "barriers", "cores", "total_peak_bytes", "diagnostics", "timings"}
    assert wanted <= set(report)
    text = (tmp_path / "program.bir").read_text()
    assert report["lnc"] == text.count("module @") == 2
    assert report["instructions"] == text.count(" = ")
    assert report["barriers"] * 2 == text.count("core_barrier @all")
    assert [core["core"] for core in report["cores"]] == [0, 1]
    for core in report["cores"]:
        assert 0 < core["lower_bound_bytes"] <= core["peak_bytes"]
    assert report["total_peak_bytes"] == sum(core["peak_bytes"] for core in report["cores"])
    assert report["diagnostics"] == []
    assert {"name", "seconds"} <= set(report["timings"][0])
    assert [each["name"] for each in report["timings"]][-1] == "check"


def test_help_and_version() -> None:
    """Commands that are not built yet are not listed; every command that is listed has help."""
    import haulout as package

    text = haulout("--help").stdout
    commands = [line.split()[0] for line in text[text.index("Commands:") :].splitlines()[1:] if line.strip()]
    assert {"compile", "check", "simulate", "opt"} <= set(commands)
    promised = [
        "compare",
        "compile",
        "check",
        "simulate",
        "run",
        "plan",
        "opt",
        "map",
        "trace",
        "diff",
        "reduce",
        "explain",
        "explain-split",
        "warmup",
    ]
    assert set(commands) <= set(promised)
    for name in commands:
        described = haulout(name, "--help")
        assert described.status == 0
        assert described.stdout.startswith(f"Usage: main {name}")
    for name in set(promised) - set(commands):
        assert haulout(name, "x.bir").status == 2
    version = haulout("--version")
    assert version.status == 0
    assert package.__version__ in version.stdout
    assert haulout("-h").stdout == text
