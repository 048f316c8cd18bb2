"""The bound of buffers that conflict in pairs: never above the least peak, and often above what is live."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from tests.packing.oracle import conflicting, least_peak
from tests.packing.strategies import problems

from haulout.packing import Problem, Status, solve
from haulout.packing.clique import heaviest_clique
from haulout.packing.instance import canonical


@settings(max_examples=80, deadline=None)
@given(problems(holes=True))
def test_the_heaviest_clique(problem: Problem) -> None:
    instance = canonical(problem)
    rows = heaviest_clique(instance) if len(instance) else []
    found = int(instance.size[rows].sum()) * instance.unit
    pairs, reserved = conflicting(problem), problem.reserved.tolist()
    live = [b for b in range(len(problem)) if problem.occupies[b]]
    best = max(
        (
            sum(reserved[b] for b in some)
            for count in range(len(live) + 1)
            for some in combinations(live, count)
            if all(pair in pairs for pair in combinations(some, 2))
        ),
        default=0,
    )
    assert found == best <= least_peak(problem)


def test_pairs_that_never_meet_at_once_are_refused_without_search() -> None:
    """Forty buffers, each two live together at a moment of their own."""
    pairs = list(combinations(range(40), 2))
    owner = [side for pair in pairs for side in pair]
    lower = [moment for moment, pair in enumerate(pairs) for _ in pair]
    problem = Problem.of(lower, [each + 1 for each in lower], [64] * 40, owner=owner)
    solution = solve(problem, capacity=39 * 64)
    assert solution.status is Status.INFEASIBLE and solution.lower_bound == 40 * 64
    assert "nodes" not in solution.work
