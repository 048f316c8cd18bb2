"""The planner against OR-tools CP-SAT, an exact solver of another make (extra `ortools`; else skipped)."""

from __future__ import annotations

import numpy as np
import pytest

from haulout.packing import Problem, Status, solve

cp_model = pytest.importorskip("ortools.sat.python.cp_model")


def least_peak(problem: Problem, most: int) -> int:
    """The least end of all buffers, proved by CP-SAT: rectangles that do not overlap, one a range."""
    model = cp_model.CpModel()
    step = problem.granule
    peak = model.new_int_var(0, most // step, "peak")
    offset = []
    for b in range(len(problem)):
        start = model.new_int_var(0, most // step, f"offset{b}")
        if problem.alignment[b] > step:
            model.add_modulo_equality(0, start, int(problem.alignment[b]) // step)
        model.add(start + int(problem.reserved[b]) // step <= peak)
        offset.append(start)
    times, bytes_ = [], []
    for k in range(len(problem.lower)):
        b = int(problem.owner[k])
        length = int(problem.upper[k] - problem.lower[k])
        times.append(model.new_fixed_size_interval_var(int(problem.lower[k]), length, f"time{k}"))
        bytes_.append(model.new_fixed_size_interval_var(offset[b], int(problem.reserved[b]) // step, f"bytes{k}"))
    model.add_no_overlap_2d(times, bytes_)
    model.minimize(peak)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return int(solver.objective_value) * step


def make(seed: int, holes: bool) -> Problem:
    """Dense problems of 12 buffers: those for which the bound is not simply met."""
    rng = np.random.default_rng(seed)
    n = 12
    owner = np.concatenate([np.arange(n), rng.integers(0, n, 4 if holes else 0)])
    lower = rng.integers(0, 10, len(owner))
    alignment = rng.choice([4, 8] if seed % 2 else [4], n)
    return Problem.of(lower, lower + rng.integers(1, 5, len(owner)), rng.integers(1, 60, n), alignment, owner=owner)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_same_optimum(seed: int, holes: bool) -> None:
    problem = make(seed, holes)
    solution = solve(problem)
    assert solution.peak == least_peak(problem, 2 * solution.peak)


@pytest.mark.parametrize("seed", range(6))
def test_same_verdict_on_a_capacity(seed: int) -> None:
    problem = make(seed, holes=True)
    best = least_peak(problem, 4000)
    assert solve(problem, capacity=best).fits
    assert solve(problem, capacity=best - problem.granule).status is Status.INFEASIBLE
