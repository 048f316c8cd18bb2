"""Over capacity: the set of buffers that is named cannot fit together, and every smaller one can."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.packing.generators import random_problem
from tests.packing.oracle import least_peak
from tests.packing.strategies import problems
from tests.tiers import examples

from haulout.packing import LIMIT, Pool, Problem, Rules, over_capacity, plan, solve, violations
from haulout.packing.conflict_set import conflict_set, subset
from haulout.packing.overflow import largest_hole
from haulout.report.catalog import CATALOG
from haulout.support.diagnostics import HauloutError


@settings(max_examples=examples(150))
@given(problems(most=6, holes=True), st.data())
def test_named_set_is_minimal(problem: Problem, data: st.DataObject) -> None:
    peak = least_peak(problem)
    assume(peak > 0)
    capacity = data.draw(st.integers(0, peak - 1)) // problem.granule * problem.granule
    assume(capacity < peak)
    found = conflict_set(problem, capacity, proved=True)
    assert found is not None
    assert found.minimal
    chosen = np.array(found.buffers)

    assert least_peak(subset(problem, chosen)) > capacity
    granule = problem.granule
    for b in found.buffers:
        rest = chosen[chosen != b]
        # Bytes that are reserved and not used may be spared at the top.
        assert not len(rest) or least_peak(subset(problem, rest)) < capacity + int(problem.alignment.max()) + granule


def test_set_without_a_moment() -> None:
    """Two are live at any time and fit; the ring of five does not, and the sixth has nothing to do with it."""
    moments = [(i, (i + k) % 5) for i in range(5) for k in (0, 1)] + [(5, 9)]
    problem = Problem.of([m for _, m in moments], [m + 1 for _, m in moments], [7] * 6, owner=[i for i, _ in moments])
    found = conflict_set(problem, 20, proved=True)
    assert found is not None
    assert (found.buffers, found.minimal, found.moment) == ((0, 1, 2, 3, 4), True, None)
    text = over_capacity(problem, solve(problem, capacity=20))
    assert [label.message for label in text.labels] == [f"buffer {k}: 7 bytes" for k in range(5)]
    assert any("the 5 buffers listed cannot fit together" in note for note in text.notes)


def test_one_buffer_is_too_large() -> None:
    with pytest.raises(HauloutError) as caught:
        plan([0, 0], [1, 1], [64, 512], capacity=256)
    assert [label.message for label in caught.value.diagnostics[0].labels] == ["buffer 1: 512 bytes"]


def test_names_are_shown() -> None:
    problem = Problem.of([0, 0], [1, 1], [64, 512])
    text = over_capacity(problem, solve(problem, capacity=256), names=["x", "weights"])
    assert text.labels[0].message == "buffer weights: 512 bytes"


@pytest.mark.parametrize("seed", range(3))
def test_hole_is_the_largest(seed: int) -> None:
    problem = random_problem(40, seed)
    solution = solve(problem)
    live = np.flatnonzero((problem.lower <= 80) & (problem.upper > 80))
    taken = np.zeros(solution.peak + 7, bool)
    for b in live.tolist():
        taken[solution.offset[b] : solution.offset[b] + problem.size[b]] = True
    runs = np.diff(np.flatnonzero(np.concatenate([[True], taken, [True]]))) - 1
    assert largest_hole(problem, solution.offset, live, len(taken)) == runs.max()


def test_overflow_at_the_limit() -> None:
    half = LIMIT // 2
    with pytest.raises(HauloutError, match=f"needs {LIMIT} bytes, the capacity is {LIMIT - 1}"):
        plan([-LIMIT, 0], [LIMIT, LIMIT], [half, half], alignment=1, capacity=LIMIT - 1)


def test_every_code_of_the_planner_is_explained() -> None:
    rules = Rules(((0, 1),), (), ((2, 3),), (Pool("a", 64, 64), Pool("b")), ((0,), (0,), (1,), (0,)))
    problem = Problem.of([0, 2, 0, 0], [1, 3, 1, 1], [4] * 4, 2, pinned=[0, -1, -1, -1], rules=rules)
    codes = set()
    for offset, pool in (
        ([1, 8, 63, 61], [0, 0, 1, 0]),
        ([0, 0, 2, 2], [0, 0, 1, 0]),
        ([0, 0, 2, 2], [1, 0, 1, 0]),
        ([0], [0]),
    ):
        codes |= {each.code for each in violations(problem, np.array(offset), pool=np.array(pool))}
    assert len(codes) == 9
    assert codes <= set(CATALOG)
