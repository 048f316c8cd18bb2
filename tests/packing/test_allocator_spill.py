"""Spilling: what is kept fits, is worth no more than the bound, and on small problems is near the best."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.packing import Pool, Problem, Rules, solve, solve_tiers, spill, violations
from haulout.packing.conflict_set import subset
from haulout.support.c_output import c_output_to_stderr
from haulout.support.diagnostics import HauloutError

ROWS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 6), st.integers(0, 9), st.integers(0, 9)), max_size=9)


def _problem(rows: list[tuple[int, int, int, int]]) -> tuple[Problem, list[int]]:
    lower = [row[0] for row in rows]
    return Problem.of(
        lower, [low + row[1] for low, row in zip(lower, rows, strict=True)], [row[2] for row in rows]
    ), [row[3] for row in rows]


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(0, 20))
def test_what_is_kept_fits_and_the_bound_holds(rows: list[tuple[int, int, int, int]], capacity: int) -> None:
    problem, weight = _problem(rows)
    found = spill(problem, capacity, weight)
    kept = np.flatnonzero(found.kept)
    assert violations(subset(problem, kept), found.offset[kept], capacity) == []
    assert (found.offset[~found.kept] == -1).all()
    assert found.weight == sum(weight[b] for b in kept.tolist()) <= found.bound + 1e-6
    assert found.bound <= found.total == sum(weight)
    best = 0
    for choice in product((False, True), repeat=min(len(rows), 6)):
        chosen = np.flatnonzero([*choice, *[False] * (len(rows) - len(choice))])
        if solve(subset(problem, chosen), capacity=capacity).fits:
            best = max(best, sum(weight[b] for b in chosen.tolist()))
    assert best <= found.bound + 1e-6


@settings(max_examples=40, deadline=None)
@given(ROWS.filter(lambda rows: len(rows) <= 6), st.integers(0, 20))
def test_small_problems_keep_the_most(rows: list[tuple[int, int, int, int]], capacity: int) -> None:
    """The choice is exact, also where bytes fit at every moment and no placement exists."""
    problem, weight = _problem(rows)
    problem = replace(problem, alignment=np.ones(len(problem), np.int64))
    best = 0
    for choice in product((False, True), repeat=len(rows)):
        worth = sum(each for each, kept in zip(weight, choice, strict=True) if kept)
        if worth > best and solve(subset(problem, np.flatnonzero(choice)), capacity=capacity).fits:
            best = worth
    assert spill(problem, capacity, weight).weight == best


def test_a_small_buffer_does_not_keep_out_a_heavy_one() -> None:
    problem = Problem.of([0, 0, 0, 5], [2, 2, 2, 6], [64, 64, 1, 64])
    found = spill(problem, 64, [3, 1, 1, 1])
    assert found.kept.tolist() == [True, False, False, True]
    assert found.weight == 4 <= found.bound < 4.001


def test_a_lighter_buffer_goes_where_two_are_not_placed() -> None:
    problem = Problem.of([0, 0], [1, 1], [6, 5], 4)
    assert spill(problem, 13, [1, 0]).weight == 1


def test_a_choice_without_a_placement_is_refused() -> None:
    """A ring of five: two live at any moment, three bytes needed; the lightest goes, and the bound falls with it."""
    ring = Problem.of([0, 1, 2, 3, 0, 4], [2, 3, 4, 5, 1, 5], [1] * 5, 1, owner=[0, 1, 2, 3, 4, 4])
    found = spill(ring, 2, [9, 9, 7, 9, 9])
    assert found.kept.tolist() == [True, True, False, True, True]
    assert found.weight == 36 <= found.bound < 36.001


def test_what_the_solver_prints_is_not_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    library = ctypes.CDLL(None)
    with c_output_to_stderr():
        library.printf(b"a remark\n")
    print("a result")
    library.fflush(None)
    out, err = capfd.readouterr()
    assert "remark" in err and out == "a result\n"


def test_the_heavier_buffer_stays() -> None:
    problem = Problem.of([0, 0, 2], [2, 2, 4], [64, 64, 64])
    assert spill(problem, 64, [1, 5, 1]).kept.tolist() == [False, True, True]
    assert spill(problem, 128, [1, 5, 1]).kept.all()
    assert not spill(problem, 0).kept.any()


def test_malformed_weights() -> None:
    problem = Problem.of([0], [1], [8])
    for weight in ([1, 2], [-1], [0.5]):
        with pytest.raises(HauloutError, match="weight"):
            spill(problem, 4, weight)  # type: ignore[arg-type]


def test_pools_in_order() -> None:
    problem = Problem.of([0, 0, 0], [4, 4, 4], [64, 128, 256])
    tiers = solve_tiers(problem, [Pool("fast", 100), Pool("middle", 200), Pool("slow")])
    assert tiers.solution.pool.tolist() == [0, 1, 2]
    assert tiers.solution.fits
    assert violations(tiers.problem, tiers.solution.offset, pool=tiers.solution.pool) == []
    assert not solve_tiers(problem, [Pool("fast", 100), Pool("slow", 300)]).solution.fits
    with pytest.raises(HauloutError, match="must have a capacity"):
        solve_tiers(problem, [Pool("fast"), Pool("slow")])


def test_aliases_go_into_one_memory_together() -> None:
    rules = Rules(aliases=((0, 2),), in_place=((1, 3),))
    problem = Problem.of([0, 0, 2, 1], [2, 2, 4, 4], [64, 64, 64, 64], rules=rules)
    tiers = solve_tiers(problem, [Pool("fast", 64), Pool("slow")], [1, 5, 5, 1])
    assert tiers.solution.pool.tolist() == [0, 1, 0, 1]  # the pair of aliases is worth 6, more than the others
    assert tiers.solution.offset[0] == tiers.solution.offset[2]
    assert violations(tiers.problem, tiers.solution.offset, pool=tiers.solution.pool) == []
    with pytest.raises(HauloutError, match="equal offsets"):
        symmetric = Rules(symmetric=((0, 1),), pools=(Pool("a"), Pool("b")))
        solve_tiers(replace(problem, rules=symmetric), [Pool("fast", 64), Pool("slow")])
