"""Every seed gives the verdict that its header expects, from the checker and from the judges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import Severity
from haulout_judges import JUDGES, Outcome
from haulout_judges.checked import HANGS, UNORDERED

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.bir"))
IN_PYTHON = ("reachability", "exhaustive", "schedules")


@dataclass(frozen=True)
class Seed:
    program: Program
    expect: tuple[str, ...]


def seed(path: Path) -> Seed:
    text = path.read_text()
    said = dict(line[2:].split(": ", 1) for line in text.splitlines() if line.startswith("# "))
    assert said["report"]
    assert said["pattern"]
    expect = () if said["expect"] == "clean" else tuple(said["expect"].split(", "))
    return Seed(parse_bir(text, path.name), expect)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_checker_says_what_is_expected(path: Path) -> None:
    each = seed(path)
    assert verify(each.program) == []
    found = {finding.code for finding in check_program(each.program) if finding.severity > Severity.NOTE}
    assert found == set(each.expect)


@pytest.mark.parametrize("judge", IN_PYTHON)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_judges_say_so_too(path: Path, judge: str) -> None:
    each = seed(path)
    verdict = JUDGES[judge](each.program)
    assert verdict.outcome is not Outcome.UNJUDGED, verdict.reason
    if HANGS & set(each.expect):
        assert verdict.outcome is Outcome.HANG
    else:
        assert (verdict.outcome is Outcome.RACE) == bool(UNORDERED & set(each.expect))


def test_mended_seeds_are_clean_and_what_they_mend_is_not() -> None:
    mended = [path for path in FILES if path.stem.endswith("_mended")]
    assert len(mended) > 10
    for path in mended:
        assert seed(path).expect == ()
        assert seed(path.with_stem(path.stem.removesuffix("_mended"))).expect != ()


def test_every_report_has_a_seed() -> None:
    reports = {path.read_text().splitlines()[0].removeprefix("# report: ") for path in FILES}
    assert {
        "triton #11326",
        "triton PR #10263",
        "triton PR #124",
        "triton PR #9720",
        "triton #9887",
        "triton PR #6639",
        "tilelang #2556",
        "tilelang #2699",
        "tilelang #1026",
        "tvm #17439",
        "tvm #2767",
        "Vulkan-ValidationLayers #7093",
        "Vulkan-ValidationLayers #8291",
        "PTOAS #564",
        "PTOAS #711",
        "aws-neuron-sdk #1298",
        "llama.cpp #27678",
        "cheshire PR #170",
        "ROCm/aiter #4082",
        "microsoft/ark #253",
        "openxla/xla #19026",
    } <= reports
    assert sum(report.startswith("triton test-membar.mlir, ") for report in reports) > 10
