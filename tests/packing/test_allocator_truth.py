"""The planner, the validator and the bound against brute force on problems of a few buffers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packing.oracle import conflicting, is_right, least_peak
from tests.packing.strategies import problems
from tests.tiers import examples

from haulout.packing import Problem, Status, lower_bound, solve, violations
from haulout.packing.capacity_search import CapacitySearch
from haulout.packing.descend import descend_by_fixed_targets, reach
from haulout.packing.incumbent import Incumbent
from haulout.packing.instance import canonical


@settings(max_examples=examples(150))
@given(problems())
def test_peak_is_the_least(problem: Problem) -> None:
    solution = solve(problem)
    assert is_right(problem, solution.offset.tolist())
    assert solution.peak == least_peak(problem)
    assert solution.lower_bound <= solution.peak


@settings(max_examples=examples(100))
@given(problems(holes=True))
def test_peak_is_the_least_with_holes(problem: Problem) -> None:
    solution = solve(problem)
    assert is_right(problem, solution.offset.tolist())
    assert solution.peak == least_peak(problem)


@settings(max_examples=examples(100))
@given(problems(most=8, holes=True))
def test_bound_is_sound_and_the_one_used(problem: Problem) -> None:
    bound = lower_bound(problem).size
    instance = canonical(problem)
    assert bound <= least_peak(problem)
    assert bound == instance.bound * instance.unit


@settings(max_examples=examples(100))
@given(problems(holes=True), st.integers(0, 40))
def test_branch_and_bound_decides(problem: Problem, capacity: int) -> None:
    """Both answers are right, of every run of the portfolio."""
    instance = canonical(problem)
    if not len(instance):
        return
    fits = least_peak(problem) <= capacity * instance.unit
    state = Incumbent(instance, 0, 0)
    search = CapacitySearch(state)
    for _ in range(4):
        assert search.ask(capacity, 10_000) == fits
    if fits:
        assert state.offset is not None
        assert violations(problem, instance.offsets(state.offset, len(problem)), None) == []
        assert state.peak <= capacity


@settings(max_examples=examples(100))
@given(problems(), st.integers(0, 60))
def test_status_with_capacity(problem: Problem, capacity: int) -> None:
    """Capacities that are whole granules: fits exactly when brute force says so, and every refusal is proved."""
    capacity = capacity // problem.granule * problem.granule
    solution = solve(problem, capacity=capacity)
    assert solution.fits == (least_peak(problem) <= capacity)
    assert solution.status is not Status.UNSOLVED


@settings(max_examples=examples(150))
@given(problems(most=10, holes=True), st.data())
def test_validator_agrees_with_pairs(problem: Problem, data: st.DataObject) -> None:
    offset = [data.draw(st.integers(0, 8)) * a for a in problem.alignment.tolist()]
    found = violations(problem, np.array(offset, np.int64))
    assert (found == []) == is_right(problem, offset)
    for finding in found:
        assert finding.code == "overlapping-storage"


@settings(max_examples=examples(100))
@given(problems(most=12, holes=True), st.integers(0, 2**32 - 1))
def test_pins_stay(problem: Problem, choice: int) -> None:
    """Some buffers of a right placement are pinned where they are, higher up; the rest fits around them."""
    before = solve(problem)
    pinned = [
        int(o) + 24 if choice >> k & 1 and problem.size[k] else -1 for k, o in enumerate(before.offset.tolist())
    ]
    again = Problem.of(
        problem.lower, problem.upper, problem.size, problem.alignment, pinned=pinned, owner=problem.owner
    )
    solution = solve(again)
    assert is_right(again, solution.offset.tolist())
    assert all(p in (-1, o) for p, o in zip(pinned, solution.offset.tolist(), strict=True))
    assert violations(again, solution.offset) == []


@given(problems(most=6, holes=True))
def test_overlap_found_is_a_conflict(problem: Problem) -> None:
    found = violations(problem, np.zeros(len(problem), np.int64))
    assert bool(found) == bool(conflicting(problem))


def test_ring_of_five_needs_more_than_is_live() -> None:
    """Five buffers, each live with the next one only: two are live at any moment, and three levels are needed.

    The refutation of two levels is by branch and bound, so the bound that comes back is more than what is live.
    """
    moments = [(i, (i + k) % 5) for i in range(5) for k in (0, 1)]
    problem = Problem.of([m for _, m in moments], [m + 1 for _, m in moments], [7] * 5, owner=[i for i, _ in moments])
    solution = solve(problem)
    assert lower_bound(problem).size == 14
    assert least_peak(problem) == solution.peak == solution.lower_bound == 21
    assert solution.status is Status.OPTIMAL
    assert solve(problem, capacity=20).status is Status.INFEASIBLE


def test_alignment_can_need_more_than_is_live() -> None:
    problem = Problem.of([0, 0, 0], [1, 1, 1], [3, 3, 3], [2, 2, 4])
    problem_plus = Problem.of([0, 0, 0, 5], [1, 1, 1, 6], [3, 3, 3, 1], [2, 2, 4, 1])
    assert solve(problem).peak == least_peak(problem) == 12
    solution = solve(problem_plus)
    assert lower_bound(problem_plus).size == 9
    assert least_peak(problem_plus) == solution.peak == solution.lower_bound == 11


@settings(max_examples=examples(50))
@given(problems(holes=True))
def test_fixed_targets_reach_the_least_peak(problem: Problem) -> None:
    """From one buffer behind the other, downwards; the proof at the end raises the bound to the peak."""
    instance = canonical(problem)
    if not len(instance) or instance.has_pins or (instance.alignment > 1).any():
        return
    state = Incumbent(instance, instance.bound, instance.bound)
    state.offer(np.cumsum(instance.size) - instance.size, int(instance.size.sum()), "one behind the other")
    descend_by_fixed_targets(state, CapacitySearch(state), 1_000_000, 100_000)
    assert state.peak * instance.unit == least_peak(problem) == state.bound * instance.unit


def test_a_fixed_target_has_so_many_runs() -> None:
    """No run of one step places 30 buffers or proves anything, so all runs are made, and no more."""
    instance = canonical(Problem.of([0, 1, 2, 3, 4] * 6, [2, 3, 4, 5, 6] * 6, [7, 5, 3, 11, 2, 13] * 5))
    state = Incumbent(instance, instance.bound, instance.bound)
    search = CapacitySearch(state)
    assert not reach(state, search, instance.bound, 10_000, 1, 5)
    assert search.runs == 5 and state.offset is None
