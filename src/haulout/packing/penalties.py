"""Reuse penalties, the second objective: pairs of buffers that should not share bytes at different times.

A penalty is avoided as a separation is made: both buffers live at one more moment. The dearest penalty that the
placement pays is tried first; it stays separated if the planner finds a placement that is no larger than allowed.
Counts bound the tries, so large problems gain less instead of taking longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from haulout.packing.plan import solve
from haulout.packing.problem import Problem
from haulout.packing.rules import Pool
from haulout.packing.solution import Solution, Status

Cost = tuple[int, int, int]
"""Buffer, buffer, cost."""
_TRIES = 64
_EFFORT = 0.05


def reuse_cost(problem: Problem, solution: Solution, costs: Sequence[Cost]) -> int:
    """The sum of the costs of pairs that share bytes in one pool."""
    return sum(cost for one, two, cost in costs if _shares(problem, solution, one, two))


def _shares(problem: Problem, solution: Solution, one: int, two: int) -> bool:
    low, size = solution.offset, problem.size
    taken = problem.occupies
    return bool(
        taken[one]
        and taken[two]
        and solution.pool[one] == solution.pool[two]
        and low[one] < low[two] + size[two]
        and low[two] < low[one] + size[one]
    )


def with_less_reuse(problem: Problem, solution: Solution, costs: Sequence[Cost]) -> Solution:
    """A placement with a lower reuse cost, or the same one.

    It fits the capacities; a pool without one grows no further than `solution` has it.
    """
    pools = tuple(
        Pool(pool.name, use.peak if pool.capacity is None else pool.capacity, pool.segment)
        for pool, use in zip(problem.rules.pools, solution.pools, strict=True)
    )
    limited = replace(problem, rules=replace(problem.rules, pools=pools))
    best, tried = solution, set[tuple[int, int]]()
    for _ in range(_TRIES):
        paid = [
            (-cost, one, two)
            for one, two, cost in costs
            if cost and (one, two) not in tried and _shares(problem, best, one, two)
        ]
        if not paid:
            break
        _, one, two = min(paid)
        tried.add((one, two))
        wanted = separated(limited, [(one, two)])
        found = solve(wanted, effort=_EFFORT)
        if found.fits and reuse_cost(problem, found, costs) < reuse_cost(problem, best, costs):
            limited, best = wanted, found
    if best is solution:
        return solution
    status = Status.OPTIMAL if best.peak <= solution.lower_bound else Status.FEASIBLE
    uses = tuple(
        replace(new, lower_bound=old.lower_bound, capacity=old.capacity)
        for new, old in zip(best.pools, solution.pools, strict=True)
    )
    return replace(best, lower_bound=solution.lower_bound, capacity=solution.capacity, status=status, pools=uses)


def separated(problem: Problem, pairs: Sequence[tuple[int, int]]) -> Problem:
    """The problem in which the buffers of each pair share no byte at any time."""
    last = int(problem.upper.max(initial=0))
    begin = np.repeat(np.arange(last, last + len(pairs)), 2)
    owner = np.array(pairs, np.int64).reshape(-1)
    return Problem.of(
        np.concatenate([problem.lower, begin]),
        np.concatenate([problem.upper, begin + 1]),
        problem.size,
        problem.alignment,
        pinned=problem.pinned,
        owner=np.concatenate([problem.owner, owner]),
        segment=problem.segment,
        rules=problem.rules,
    )
