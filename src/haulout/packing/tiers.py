"""Fast memories first: fill pools in order, each with the buffers that are worth most; the rest goes to the next.

pool 0 (small)   the most weight that fits (`spilling.py`)
pool 1           the same with what is left
the last pool    all the rest, placed by the planner
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from haulout.packing.bound import lower_bound
from haulout.packing.conflict_set import subset
from haulout.packing.plan import solve
from haulout.packing.problem import I64, Column, Problem
from haulout.packing.rules import Pool, Rules
from haulout.packing.solution import PoolUse, Solution, Status
from haulout.packing.spilling import Spill, spill
from haulout.packing.storages import merge
from haulout.support.diagnostics import bad_input


@dataclass(frozen=True, slots=True, eq=False)
class Tiers:
    """`problem`: with the pools, each buffer allowed in its own; `solution`: in them; `spills`: of all pools but the
    last."""

    problem: Problem
    solution: Solution
    spills: tuple[Spill, ...]


def solve_tiers(
    problem: Problem, pools: Sequence[Pool], weight: Column | None = None, *, effort: float = 1.0
) -> Tiers:
    """Place buffers in pools, the fastest first. Every pool but the last needs a capacity.

    `weight`: what a buffer is worth in a faster pool; its size if absent. Aliases are one storage, worth the sum of
    its buffers' weights; `spills` count storages. Raises `bad-input`; the status of the
    solution tells whether the rest fits the last pool.
    """
    for pool in pools[:-1]:
        if pool.capacity is None:
            bad_input(f"pool {pool.name}: every pool but the last must have a capacity")
    rules = problem.rules
    if len(rules.pools) > 1 or rules.symmetric or rules.pools[0].segment is not None:
        bad_input("pools in order are for problems without pools, segments and equal offsets of their own")
    if problem.window_low is not None or problem.has_pins:
        bad_input("pools in order are for problems without windows and pinned buffers")
    aliases = Rules(aliases=rules.aliases)  # in-place pairs are a permission that is not used
    storages = merge(replace(problem, rules=aliases))
    if weight is None:
        worth = storages.problem.size
    else:
        worth = np.zeros(len(storages.problem), np.int64)
        np.add.at(worth, storages.of, np.asarray(weight).astype(np.int64))
    tiers = _solve_apart(storages.problem, pools, worth, effort)
    solution = replace(
        tiers.solution, offset=tiers.solution.offset[storages.of], pool=tiers.solution.pool[storages.of]
    )
    allowed = tuple((number,) for number in solution.pool.tolist())
    whole = replace(problem, rules=replace(aliases, pools=tuple(pools), allowed=allowed))
    return Tiers(whole, solution, tiers.spills)


def _solve_apart(problem: Problem, pools: Sequence[Pool], worth: I64, effort: float) -> Tiers:
    """The same for a problem without rules."""
    where = np.full(len(problem), len(pools) - 1, np.int64)
    offset = np.zeros(len(problem), np.int64)
    left = np.arange(len(problem))
    spills: list[Spill] = []
    for number, pool in enumerate(pools[:-1]):
        assert pool.capacity is not None
        part = spill(subset(problem, left), pool.capacity, worth[left], effort=effort)
        spills.append(part)
        inside = left[part.kept]
        where[inside], offset[inside] = number, part.offset[part.kept]
        left = left[~part.kept]
    rest = solve(subset(problem, left), capacity=pools[-1].capacity, effort=effort)
    offset[left] = rest.offset
    uses = []
    for number, pool in enumerate(pools[:-1]):
        mine = np.flatnonzero((where == number) & problem.occupies)
        bound = lower_bound(subset(problem, mine)).size if len(mine) else 0
        peak = int((offset[mine] + problem.size[mine]).max(initial=0))
        uses.append(PoolUse(pool.name, peak, bound, pool.capacity))
    uses.append(replace(rest.pools[0], name=pools[-1].name))
    rules = Rules(pools=tuple(pools), allowed=tuple((number,) for number in where.tolist()))
    caps = [pool.capacity for pool in pools]
    solution = Solution(
        offset=offset,
        peak=sum(use.peak for use in uses),
        lower_bound=lower_bound(problem).size,
        status=rest.status if not rest.fits else Status.FEASIBLE,
        capacity=None if caps[-1] is None else sum(cap for cap in caps if cap is not None),
        method=rest.method,
        work=rest.work,
        pool=where,
        pools=tuple(uses),
    )
    return Tiers(replace(problem, rules=rules), solution, tuple(spills))
