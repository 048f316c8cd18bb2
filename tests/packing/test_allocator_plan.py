"""The planner as a user meets it: results, limits, failures, repeatability."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from tests.packing.generators import network_problem, perfect_problem, random_problem

from haulout.packing import LIMIT, Problem, Progress, Solution, Status, lower_bound, plan, solve, violations
from haulout.packing.best_fit import best_fit, xla_orders
from haulout.packing.construct import place
from haulout.packing.dive import dive
from haulout.packing.instance import canonical
from haulout.packing.keys import KEYS, key
from haulout.support.diagnostics import HauloutError
from haulout.support.jit import interpreted


def test_nothing_to_place() -> None:
    solution = plan([], [], [])
    assert (solution.peak, solution.ratio, solution.status) == (0, 1.0, Status.OPTIMAL)


def test_zero_sizes_and_empty_ranges_take_nothing() -> None:
    solution = plan([0, 0, 5], [9, 9, 5], [0, 100, 7], alignment=1)
    assert solution.offset.tolist() == [0, 0, 0]
    assert solution.peak == 100


def test_sizes_are_reserved_in_whole_granules() -> None:
    solution = plan([0, 0], [1, 1], [65, 1], alignment=64)
    assert solution.peak == solution.lower_bound == 192
    assert sorted(solution.offset.tolist()) in ([0, 64], [0, 128])


def test_holes_are_reused() -> None:
    solution = plan([0, 20, 10], [10, 30, 20], [64, 64], owner=[0, 0, 1])
    assert solution.offset.tolist() == [0, 0]
    assert solution.peak == 64


@pytest.mark.parametrize("make", [random_problem, perfect_problem, network_problem])
@pytest.mark.parametrize("n", [30, 300, 2500])
def test_every_construction_is_right(make: type, n: int) -> None:
    problem = make(n, seed=n)
    instance = canonical(problem)
    assert lower_bound(problem).size == instance.bound * instance.unit
    placements = [dive(instance, key(instance, name), fullest) for name in KEYS for fullest in (False, True)]
    placements += [best_fit(instance, order) for order in xla_orders(instance)]
    for offset, peak in placements:
        assert violations(problem, instance.offsets(offset, n), peak * instance.unit) == []
        assert peak >= instance.bound


def test_a_perfect_rectangle_is_found() -> None:
    solution = solve(perfect_problem(40, seed=3))
    assert solution.status is Status.OPTIMAL
    assert solution.peak == 4096


@pytest.mark.parametrize("seed", range(6))
def test_never_worse_than_best_fit(seed: int) -> None:
    problem = random_problem(150, seed, alignment=64)
    instance = canonical(problem)
    peaks = [best_fit(instance, order)[1] * instance.unit for order in xla_orders(instance)]
    assert solve(problem).peak <= min(peaks)


@pytest.mark.parametrize("n", [5, 60, 200])
def test_interpreted_and_compiled_agree(n: int) -> None:
    for problem in (random_problem(n, 1), perfect_problem(n, 2), network_problem(n, 3)):
        instance = canonical(problem)
        for name in KEYS:
            for variant in (False, True):
                offset, peak = place(instance, key(instance, name), variant)
                with interpreted():
                    again, peak_again = place(instance, key(instance, name), variant)
                assert peak == peak_again
                assert offset.tolist() == again.tolist()


def test_huge_numbers() -> None:
    assert plan([0, 1], [1, 2], [LIMIT, LIMIT], alignment=1).peak == LIMIT
    assert plan([-LIMIT, 0], [0, LIMIT], [LIMIT - 1, LIMIT], alignment=1).peak == LIMIT
    three = plan([0, 1, 0], [2, 3, 1], [LIMIT // 2, LIMIT // 2 - 1, LIMIT // 2 - 1], alignment=1)
    assert three.peak == LIMIT - 1
    for size, alignment in (([LIMIT, 1], 1), ([LIMIT, LIMIT], LIMIT), ([LIMIT - 1, 1], LIMIT - 1)):
        if alignment == LIMIT - 1:
            assert plan([0, 1], [1, 2], size, alignment=alignment).peak == LIMIT - 1
            continue
        with pytest.raises(HauloutError) as caught:
            plan([0, 0], [1, 1], size, alignment=alignment)
        assert caught.value.diagnostics[0].code == "over-capacity"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([3], [1], [4]), "ends at 1, before its start 3"),
        (([0, 1], [1], [4]), "column `lower` has 2 rows"),
        (([0], [1, 2], [4]), "column `upper` has 2 rows"),
        (([0.5], [1], [4]), "must hold integers"),
        (([0], [1], [-4]), "column `size`, row 0: .*-4"),
        (([0], [1], [2**70]), "column `size`, row 0"),
        (([[0]], [1], [4]), "2 dimensions"),
        (([0], [1], [4], 0), "`alignment` is 0"),
        (([0], [1], [4], [1, 1]), "column `alignment` has 2 rows"),
    ],
)
def test_bad_columns(arguments: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(HauloutError, match=message) as caught:
        plan(*arguments)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].code == "bad-input"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pinned": [8, -1]}, "not a multiple of its alignment"),
        ({"pinned": [0, 0]}, "pinned to overlapping bytes"),
        ({"pinned": [LIMIT, -1]}, "buffer 0 is pinned"),
        ({"capacity": -1}, "capacity is -1"),
        ({"time_limit": -1.0}, "time limit"),
        ({"effort": -1.0}, "effort is"),
        ({"owner": [0, 0]}, "buffer 1 has no range"),
        ({"owner": [0, 2]}, "column `owner`, row 1"),
    ],
)
def test_bad_options(options: dict[str, list[int]], message: str) -> None:
    with pytest.raises(HauloutError, match=message):
        plan([0, 0], [1, 1], [64, 64], **options)  # type: ignore[arg-type]


def test_pins_of_buffers_that_take_nothing_stay_too() -> None:
    solution = plan([0, 0, 0], [1, 1, 1], [64, 0, 64], pinned=[128, 64, -1])
    assert solution.offset.tolist() == [128, 64, 0]
    assert solution.peak == 192


def test_over_capacity_names_need_bound_moment_buffers_and_hole() -> None:
    with pytest.raises(HauloutError) as caught:
        plan([0, 0, 5, 5], [4, 4, 9, 9], [64, 64, 256, 128], capacity=320)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "over-capacity"
    assert "384 bytes" in diagnostic.message and "320" in diagnostic.message
    assert [label.message for label in diagnostic.labels] == ["buffer 2: 256 bytes", "buffer 3: 128 bytes"]
    assert "every placement needs at least 384 bytes" in diagnostic.notes
    assert "at time 5, 2 buffers of 384 bytes are live" in diagnostic.notes
    assert any(note.startswith("the 2 listed buffers") for note in diagnostic.notes)
    assert any("largest hole" in note for note in diagnostic.notes)


def test_over_capacity_by_a_hard_packing() -> None:
    """Nothing at one moment exceeds the capacity, and still it is proved that nothing fits."""
    columns = ([0, 0, 1, 2, 2, 3], [2, 1, 4, 3, 5, 5], [2, 3, 2, 3, 2, 3])
    best = solve(Problem.of(*columns))
    for capacity in range(5, best.peak):
        with pytest.raises(HauloutError, match="cannot fit"):
            plan(*columns, alignment=1, capacity=capacity)
    assert plan(*columns, alignment=1, capacity=best.peak).status in (Status.OPTIMAL, Status.FEASIBLE)


def test_solve_keeps_the_placement_that_does_not_fit() -> None:
    problem = Problem.of([0, 0], [1, 1], [64, 64])
    solution = solve(problem, capacity=100)
    assert solution.status is Status.INFEASIBLE
    assert not solution.fits
    assert violations(problem, solution.offset) == []


def test_capacity_need_not_be_a_whole_granule() -> None:
    assert plan([0], [1], [100], alignment=64, capacity=100).fits
    assert not solve(Problem.of([0], [1], [100], 64), capacity=99).fits


def test_capacity_between_two_units() -> None:
    """Sizes are multiples of 512; the best peak is found although the first one found is just above the capacity."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        lower = rng.integers(0, 12, 9)
        problem = Problem.of(lower, lower + rng.integers(1, 6, 9), 512 * rng.integers(1, 9, 9))
        best = solve(problem).peak
        assert solve(problem, capacity=best + 500).peak == best
        assert solve(problem, capacity=best - 1).status is Status.INFEASIBLE


def test_progress_improves_and_ends_at_the_result() -> None:
    seen: list[Progress] = []
    solution = solve(perfect_problem(60, seed=1), progress=seen.append)
    assert seen
    assert all(a.peak > b.peak or a.lower_bound < b.lower_bound for a, b in pairwise(seen))
    assert seen[-1].peak == solution.peak


def test_interrupt_keeps_the_best() -> None:
    problem = perfect_problem(300, seed=1)

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    solution = solve(problem, progress=interrupt)
    assert solution.interrupted
    assert violations(problem, solution.offset, solution.peak) == []


def test_interrupt_while_spreading_keeps_the_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = perfect_problem(50, seed=1)
    packed = solve(problem)
    assert not packed.interrupted

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("haulout.packing.reuse_avoidance"), "spread_out", interrupt)
    solution = solve(problem, capacity=2 * packed.peak, spread=True)
    assert solution.interrupted and solution.fits and solution.reuse_pairs is None
    assert violations(problem, solution.offset, solution.peak) == []


@pytest.mark.parametrize("make", [random_problem, network_problem])
@pytest.mark.parametrize("tight", [False, True])
def test_both_ways_to_fit_agree(make: type, tight: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make(600, seed=4)
    rng = np.random.default_rng(1)
    ranges = np.concatenate([np.arange(600), rng.integers(0, 600, 200)])
    lower = np.concatenate([problem.lower, rng.integers(0, 2400, 200)])
    upper = np.concatenate([problem.upper, lower[600:] + rng.integers(1, 90, 200)])
    pinned = np.where(rng.random(600) < 0.03, solve(problem, effort=0).offset + (1 << 42), -1)
    holes = Problem.of(lower, upper, problem.size, problem.alignment, owner=ranges)
    for each in (
        problem,
        holes,
        Problem.of(problem.lower, problem.upper, problem.size, problem.alignment, pinned=pinned),
    ):
        instance = canonical(each)
        for order in xla_orders(instance):
            found = []
            for factor in (0, 1 << 40):
                monkeypatch.setattr("haulout.packing.best_fit._TREE_COST", factor)
                offset, peak = best_fit(instance, order, tight=tight)
                found.append((offset.tolist(), peak))
            assert found[0] == found[1]


def test_effort_zero_is_construction() -> None:
    problem = perfect_problem(100, seed=2)
    assert set(solve(problem, effort=0).work) == {"constructions"}
    assert solve(problem, effort=0.2).peak >= solve(problem).peak


def test_few_dives_are_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of a large problem are better than one for each key."""
    problem = random_problem(30_000, 3)
    instance = canonical(problem)
    monkeypatch.setattr("haulout.packing.construct._ROWS_LIMIT", 8 * len(instance))
    solution = solve(problem, effort=0.0)
    assert solution.work == {"constructions": len(KEYS)}
    assert solution.peak < min(place(instance, key(instance, name), False)[1] for name in KEYS) * instance.unit


@pytest.mark.parametrize("limit", [0.0, 0.2])
def test_time_limit_keeps_the_best(limit: float) -> None:
    problem = perfect_problem(400, seed=1)
    solution = solve(problem, time_limit=limit)
    assert violations(problem, solution.offset, solution.peak) == []


def same(one: Solution, two: Solution) -> bool:
    return one.offset.tobytes() == two.offset.tobytes() and one.work == two.work


@pytest.mark.parametrize("n", [50, 200, 3000])
def test_reruns_are_identical(n: int) -> None:
    assert same(solve(random_problem(n, 5), effort=0.3), solve(random_problem(n, 5), effort=0.3))


def test_reruns_in_other_processes_are_identical() -> None:
    code = (
        "import numpy as np; from haulout.packing import plan;"
        "r = np.random.RandomState(7); lo = r.randint(0, 300, 120); "
        "s = plan(lo, lo + r.randint(1, 90, 120), r.randint(1, 5000, 120), alignment=1);"
        "print(s.offset.tolist(), s.peak, s.work)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_validator_finds_each_kind() -> None:
    problem = Problem.of([0, 0, 0], [2, 2, 2], [64, 64, 64], 64, pinned=[0, -1, -1])
    found = violations(problem, np.array([64, 65, 128]), capacity=150)
    assert [finding.code for finding in found] == [
        "moved-pin",
        "misaligned-storage",
        "over-capacity",
        "overlapping-storage",
    ]
    assert violations(problem, np.array([0, 64])) != []
    assert violations(problem, np.array([0, 64, 128]), capacity=192) == []


def test_validator_on_many_ranges() -> None:
    """Beyond the size that is interpreted, with one pair moved together."""
    problem = random_problem(1000, 9)
    solution = solve(problem)
    assert violations(problem, solution.offset) == []
    moved = solution.offset.copy()
    busy = int(np.argmax(problem.upper - problem.lower))
    met = np.flatnonzero((problem.lower < problem.upper[busy]) & (problem.lower[busy] < problem.upper))
    other = int(met[met != busy][0])
    moved[busy] = moved[other]
    assert [finding.code for finding in violations(problem, moved)] == ["overlapping-storage"]
