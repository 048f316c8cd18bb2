"""`explain-split`, `--split` and `-O`, as a shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.command import CHEAP_FENCES, FIXED, HLO, ROOT, haulout

SPLIT = ROOT / "tests" / "filecheck" / "split_uniform.bir"
CHEAP = ("--target", CHEAP_FENCES)
"""A machine for which small programs are divided."""


def test_tables_and_totals() -> None:
    result = haulout("explain-split", SPLIT, *CHEAP)
    assert result.status == 0
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "divided: 4 operations, 100.00 % of the time of a core; results of 2 in local parts, of 2 shared"
    )
    row = next(line for line in lines if "%tanh" in line)
    assert [cell.strip() for cell in row.split("│")[2:-1]] == [
        "%tanh",
        "tanh",
        "",
        "dim 0 of 4",
        "2",
        "shared",
        "1",
        "",
    ]
    shares = [float(line.split("│")[1].split("%")[0]) for line in lines if "│ %" in line or "% │" in line]
    assert shares == sorted(shares, reverse=True) and len(shares) == 4
    shown = haulout("explain-split", SPLIT, *CHEAP, "--top", "1").stdout
    assert "and 3 more, " in shown and shown.count(" dim ") == 1


def test_fences() -> None:
    lines = haulout("explain-split", SPLIT, *CHEAP, "--fences").stdout.splitlines()
    assert "fences: 1" in lines
    dot = next(line for line in lines if "%dot" in line)
    assert dot.split("│")[-2].strip() == "1"
    fence = next(line for line in lines if "%cb_sg0_fence0" in line)
    assert [cell.strip() for cell in fence.split("│")[1:-1]] == [
        "1",
        "%cb_sg0_fence0",
        "conflicts",
        "%dot reads %tanh",
    ]


def test_json() -> None:
    result = haulout("explain-split", SPLIT, *CHEAP, "--format", "json")
    assert result.status == 0
    assert {each["name"] for each in json.loads(result.stdout)["split"]["divided"]} == {"sum", "add", "tanh", "dot"}


def test_what_is_not_divided_has_a_reason() -> None:
    result = haulout("explain-split", SPLIT, "--lnc", "2", "--target", "trainium")
    text = " ".join(result.stdout.split())
    assert result.status == 0
    assert "a cut would cost more than it saves" in text or "not divided: 0 operations" in text


def test_cuts_that_are_asked_for(tmp_path: Path) -> None:
    result = haulout("explain-split", SPLIT, *CHEAP, "--split", "axis=1", "--split", "%dot=0", "--format", "json")
    dims = {each["name"]: each["dim"] for each in json.loads(result.stdout)["split"]["divided"]}
    assert dims == {"sum": 1, "add": 1, "tanh": 1, "dot": 0}
    assert haulout("compile", SPLIT, "-q", "--split", "dot=1", "-o", tmp_path).status == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert {each["name"]: each["dim"] for each in report["split"]["divided"]}["dot"] == 1
    passes = 'split_uniform{split=["dot=1"]}'
    assert "dot @pe (%w, %u" in haulout("opt", SPLIT, "-q", "--passes", passes).stdout


@pytest.mark.parametrize(
    ("split", "told"),
    [
        ("dot=2", ["%dot cannot be cut along dimension 2", "its cuts: dimension 0 of 4, dimension 1 of 4"]),
        ("dott=0", ["no operation is named %dott", "did you mean %dot?"]),
        ("axis", ["axis=DIM or NAME=DIM, found 'axis'"]),
        ("axis=-1", ["axis=DIM or NAME=DIM, found 'axis=-1'"]),
        ("=1", ["axis=DIM or NAME=DIM"]),
    ],
)
def test_cuts_that_are_refused(split: str, told: list[str], tmp_path: Path) -> None:
    for command in (("explain-split", SPLIT, *CHEAP), ("compile", SPLIT, "-q", "-o", tmp_path / "out")):
        result = haulout(*command, "--split", split)
        assert result.status == 2
        for text in ("error[bad-input]", *told):
            assert text in result.stdout + result.stderr
    assert list(tmp_path.iterdir()) == []


def test_two_cuts_of_one_operation_are_refused() -> None:
    result = haulout("explain-split", SPLIT, *CHEAP, "--split", "dot=0", "--split", "%dot=1")
    assert result.status == 2
    assert "two dimensions of %dot: 0 and 1" in result.stdout + result.stderr


def test_nothing_is_cut_where_nothing_is_divided(tmp_path: Path) -> None:
    for options in (("-O0",), ("-O1",), ("--share", "inputs")):
        result = haulout("compile", SPLIT, *options, "--split", "axis=0", "-o", tmp_path / "out")
        assert result.status == 2
        assert "nothing is divided" in result.stdout + result.stderr
    assert haulout("compile", SPLIT, "-O0", "--share", "uniform", "--split", "axis=0", "-o", tmp_path).status == 0
    result = haulout("explain-split", FIXED, "--split", "out=0")
    assert result.status == 2


# -- levels ----------------------------------------------------------------------------------------------------------


def report_of(folder: Path, *options: str) -> dict[str, object]:
    assert haulout("compile", HLO, "-q", *options, "-o", folder).status == 0
    made: dict[str, object] = json.loads((folder / "report.json").read_text())
    assert made["proved"]
    return made | {"program.bir": (folder / "program.bir").read_text(), "timings": None}


def test_the_second_level_is_the_default(tmp_path: Path) -> None:
    assert report_of(tmp_path, "-O2") == report_of(tmp_path)


def test_levels_do_more_and_more(tmp_path: Path) -> None:
    made = [report_of(tmp_path, f"-O{level}") for level in range(4)]
    values = HLO.with_suffix(".npz")
    for level, each in enumerate(made):
        path = tmp_path / f"{level}.bir"
        path.write_text(str(each["program.bir"]))
        assert haulout("simulate", path, "--inputs", values, "--expect", values).status == 0
        assert (each["split"] is None) is (level < 2)
        assert ("order_by_phases" in each["counters"]) is (level >= 2)  # type: ignore[operator]
    totals = [each["total_peak_bytes"] for each in made]
    assert totals[0] > totals[1] >= totals[2] >= totals[3]  # type: ignore[operator]
    assert made[0]["sharing"]["stored_once_bytes"] == {}  # type: ignore[index]


def test_options_override_the_level(tmp_path: Path) -> None:
    made = report_of(tmp_path, "-O0", "--share", "all", "--fuse", "all", "--partitions", "equal")
    assert made["split"] is not None
    whole = report_of(tmp_path, "-O0", "--share", "all", "--fuse", "none")
    assert made["instructions"] < whole["instructions"]  # type: ignore[operator]
    assert "share=none" not in str(made["counters"])


@pytest.mark.parametrize("level", ["-O4", "-O", "-Ofast", "--level=-1"])
def test_other_levels_are_refused(level: str, tmp_path: Path) -> None:
    assert haulout("compile", HLO, level, "-o", tmp_path / "out").status == 2


# -- annotations -----------------------------------------------------------------------------------------------------


def test_an_annotation_is_shown_and_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "m.bir"
    path.write_text(SPLIT.read_text().replace("seq=3", "seq=3 split=1").replace("seq=2", "seq=2 split=3"))
    made = json.loads(haulout("explain-split", path, *CHEAP, "--format", "json").stdout)["split"]["divided"]
    assert {each["name"]: each["asked"] for each in made if each["asked"] is not None} == {"dot": 1, "tanh": 3}
    assert {each["name"]: each["dim"] for each in made}["dot"] == 1
    assert "asked" in haulout("explain-split", path).stdout
    result = haulout("compile", path, "-q", "-o", tmp_path / "out")
    assert result.status == 1
    assert "warning[split-not-followed]" in result.stdout + result.stderr
    assert haulout("compile", path, "-q", "--split", "axis=0", "-o", tmp_path / "out").status == 0
