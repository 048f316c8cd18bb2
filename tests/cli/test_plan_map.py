"""`haulout plan` and `haulout map`: what they print and write, and how they end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.command import FIXED, haulout, map_data

from haulout.packing.csvio import read_csv
from haulout.packing.validate import violations

PROBLEM = "id,lower,upper,size\nx,0,4,64\ny,2,6,128\nz,4,8,64\n"


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.csv"
    path.write_text(PROBLEM)
    return path


def test_plan_prints_the_ratio_and_writes_a_valid_placement(problem: Path, tmp_path: Path) -> None:
    outcome = haulout("plan", problem, "-o", tmp_path / "placed.csv")
    assert outcome.status == 0
    assert outcome.stdout.splitlines() == [
        "3 buffers: peak 192 bytes (192 B), optimal",
        "lower bound 192 bytes, ratio 1.000000",
    ]
    table = read_csv(tmp_path / "placed.csv")
    assert table.ids == ("x", "y", "z")
    assert table.offset is not None
    assert violations(table.problem, table.offset, 192) == []


def test_progress_is_on_stderr(problem: Path) -> None:
    assert "ratio" in haulout("plan", problem).stderr
    assert haulout("plan", problem, "--quiet").stderr == ""


def test_same_bytes_every_time(problem: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        haulout("plan", problem, "-q", "-o", tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_over_capacity_names_the_buffers(problem: Path, tmp_path: Path) -> None:
    outcome = haulout("plan", problem, "-q", "--capacity", "191", "-o", tmp_path / "placed.csv")
    assert outcome.status == 1
    assert "over-capacity" in outcome.stdout
    assert "buffer x: 64 bytes" in outcome.stdout and "buffer y: 128 bytes" in outcome.stdout
    assert "the largest hole at that time is 0 bytes" in outcome.stdout
    assert not (tmp_path / "placed.csv").exists()
    (found,) = json.loads(haulout("plan", problem, "-q", "--capacity", "191", "--format", "json").stdout)[
        "diagnostics"
    ]
    assert found["code"] == "over-capacity"


def test_segment_and_spread(problem: Path) -> None:
    assert "peak 224 bytes" in haulout("plan", problem, "-q", "--segment", "160").stdout
    spread = haulout("plan", problem, "-q", "--capacity", "256", "--spread")
    assert "0 pairs of buffers share bytes at different times" in spread.stdout
    assert haulout("plan", problem, "-q", "--spread").status == 2


def test_pinned_and_hinted(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("id,lower,upper,size,offset,hint\nx,0,4,64,128,\ny,0,4,64,,64\n")
    assert haulout("plan", path, "-q", "--effort", "0", "-o", tmp_path / "out.csv").status == 0
    table = read_csv(tmp_path / "out.csv")
    assert table.offset is not None
    assert table.offset[0] == 128


def test_xla_dump_by_content(tmp_path: Path) -> None:
    (tmp_path / "m-buffer-assignment.txt").write_text(
        "BufferAssignment:\nallocation 0: size 192, preallocated-temp:\n"
        " value: <1 a @0> (size=64,offset=0): f32[16]{0}\n value: <2 b @0> (size=128,offset=64): f32[32]{0}\n"
    )
    (tmp_path / "m-live-range.txt").write_text("  BufferLiveRange:\n    a{}:0-4\n    b{}:2-6\n")
    outcome = haulout("plan", "-q", tmp_path / "m-buffer-assignment.txt")
    assert outcome.status == 0
    assert "2 buffers: peak 192 bytes" in outcome.stdout


@pytest.mark.parametrize("text", ["", "id,lower\n", "id,lower,upper,size\na,0,4,x\n", "\x00\x01"])
def test_malformed_input(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text)
    for command in ("plan", "map"):
        outcome = haulout(command, path)
        assert outcome.status == 2
        assert "bad-input" in outcome.stdout + outcome.stderr


def test_map_is_one_page_with_every_buffer(problem: Path, tmp_path: Path) -> None:
    haulout("plan", problem, "-q", "-o", tmp_path / "placed.csv")
    outcome = haulout("map", tmp_path / "placed.csv", "-o", tmp_path / "map.html")
    assert (outcome.status, outcome.stdout.strip()) == (0, str(tmp_path / "map.html"))
    page = (tmp_path / "map.html").read_text()
    assert map_data(page)["panels"][0]["names"] == ["x", "y", "z"]
    assert "http" not in re.sub(r"<script type=.*?</script>", "", page)
    assert "192 B" in page


def test_map_needs_offsets(problem: Path, tmp_path: Path) -> None:
    assert haulout("map", problem, "-o", tmp_path / "map.html").status == 2
    assert not (tmp_path / "map.html").exists()


def test_map_of_a_program(tmp_path: Path) -> None:
    haulout("compile", FIXED, "-q", "-o", tmp_path / "out")
    outcome = haulout("map", tmp_path / "out" / "program.bir", "-o", tmp_path / "map.html")
    assert outcome.status == 0
    assert "DRAM, core 1" in (tmp_path / "map.html").read_text()


@pytest.mark.parametrize("kind", ["proportional", "equal", "joint"])
def test_compile_reports_all_partitions(tmp_path: Path, kind: str) -> None:
    outcome = haulout("compile", FIXED, "-q", "--partitions", kind, "-o", tmp_path)
    assert outcome.status == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report["partition_totals"]) == {"proportional", "equal", "joint"}
    assert report["total_peak_bytes"] == report["partition_totals"][kind]
    assert "DRAM of all cores: 24.0 KiB\n" in outcome.stdout  # the three do not differ


def test_pools_of_the_command_line(problem: Path, tmp_path: Path) -> None:
    out = tmp_path / "placed.json"
    outcome = haulout("plan", problem, "-q", "--pool", "fast=0.1K", "-o", out)  # a size has no fraction
    assert outcome.status == 2
    outcome = haulout(
        "plan", problem, "-q", "--pool", "fast=64", "--pool", "slow=1K", "--output-format", "json", "-o", out
    )
    assert outcome.status == 0
    assert "pool fast keeps 2 of 3 buffers, 128 of 256 bytes" in outcome.stdout
    placed = {each["id"]: (each["pool"], each["offset"]) for each in json.loads(out.read_text())["buffers"]}
    assert placed == {"x": ("fast", 0), "y": ("slow", 0), "z": ("fast", 0)}
    outcome = haulout("plan", problem, "-q", "--pool", "fast=64", "--pool", "slow=100")
    assert outcome.status == 1
    assert "over-capacity" in outcome.stdout and "pool slow" in outcome.stdout


def test_header_of_offsets(problem: Path, tmp_path: Path) -> None:
    haulout("plan", problem, "-q", "--output-format", "header", "-o", tmp_path / "plan.h")
    text = (tmp_path / "plan.h").read_text()
    haulout("plan", problem, "-q", "-o", tmp_path / "placed.csv")
    offset = read_csv(tmp_path / "placed.csv").offset
    assert offset is not None
    assert [f"#define {name}_OFFSET {at}ull" in text for name, at in zip("XYZ", offset, strict=True)] == [True] * 3
