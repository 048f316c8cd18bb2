"""Public instances, from the directory that HAULOUT_DSA_DIR names (minimalloc/, idealloc/, xla/); else skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from haulout.packing import Status, solve, violations
from haulout.packing.csvio import read_csv

DATA = os.environ.get("HAULOUT_DSA_DIR", "")
FILES = sorted(Path(DATA).rglob("*.csv")) if DATA else []


def files(part: str) -> list[Path]:
    return [path for path in FILES if part in path.parts]


pytestmark = pytest.mark.skipif(not FILES, reason="HAULOUT_DSA_DIR is not set")


@pytest.mark.parametrize("path", files("minimalloc"), ids=lambda path: path.stem)
def test_minimalloc_fits_its_capacity(path: Path) -> None:
    problem = read_csv(path).problem
    capacity = int(path.stem.split(".")[1])
    solution = solve(problem, capacity=capacity)
    assert solution.fits
    assert violations(problem, solution.offset, capacity) == []


@pytest.mark.parametrize("path", files("minimalloc"), ids=lambda path: path.stem)
def test_minimalloc_without_a_capacity(path: Path) -> None:
    assert solve(read_csv(path).problem).ratio <= (1.03 if path.stem[0] in "DJ" else 1.0)


@pytest.mark.parametrize("path", files("idealloc"), ids=lambda path: path.stem)
def test_traces(path: Path) -> None:
    problem = read_csv(path).problem
    solution = solve(problem)
    assert violations(problem, solution.offset, solution.peak) == []
    assert solution.ratio <= (1.002 if path.stem == "S_1" else 1.0)


@pytest.mark.parametrize("path", files("xla"), ids=lambda path: path.stem)
def test_xla(path: Path) -> None:
    problem = read_csv(path).problem
    solution = solve(problem)
    assert violations(problem, solution.offset, solution.peak) == []
    assert solution.status is Status.OPTIMAL
