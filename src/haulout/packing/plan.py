"""Place buffers in as few bytes as possible: the recipe.

problem    -> solution     one address space (`single.py`), windows (`windows.py`), or with rules (`composite.py`)
solution   -> spread       with `spread`, use spare memory to avoid reuse (`reuse_avoidance.py`)
solution   -> validated    always (`validate.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from haulout.packing.incumbent import Progress
from haulout.packing.problem import I64, Column, Problem
from haulout.packing.rules import Pool, Rules, check_bytes
from haulout.packing.single import Budget, solve_single
from haulout.packing.solution import Solution
from haulout.packing.validate import violations
from haulout.support.diagnostics import HauloutError, bad_input


def plan(
    lower: Column,
    upper: Column,
    size: Column,
    alignment: int | Column = 64,
    *,
    capacity: int | None = None,
    pinned: Column | None = None,
    owner: Column | None = None,
    segment: int | Column = 0,
    aliases: Sequence[Sequence[int]] = (),
    in_place: Sequence[tuple[int, int]] = (),
    symmetric: Sequence[Sequence[int]] = (),
    pools: Sequence[Pool] = (),
    allowed: Sequence[int | Sequence[int]] = (),
    hint: Column | None = None,
    spread: bool = False,
    time_limit: float | None = None,
    effort: float = 1.0,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """Give every buffer an offset such that buffers that are live together share no byte.

    `lower`, `upper`: half-open live ranges, one for each buffer, or with `owner`, the buffer of each range, several.
    `size`, `alignment`, `capacity`, `pinned`: bytes; `pinned` -1 leaves the offset free. `segment`: no buffer crosses
    a multiple of it (0: no limit). `aliases`, `in_place`, `symmetric`, `pools`, `allowed`: see `rules.py`; an entry
    of `allowed` is a pool, or several, the preferred one first. `hint`: offsets to start from, or -1.

    Without `time_limit` (seconds) counts bound the search, `effort` times the usual ones, and the result depends on
    the input alone; effort 0 is construction without search. `progress` is called at every improvement and may raise
    KeyboardInterrupt, as Ctrl-C does: the result is then the best placement so far.

    With `capacity`, or capacities of all pools, the first placement that fits is the result; `spread` then uses the
    spare bytes to avoid reuse. Raises `HauloutError`: `bad-input` for malformed arguments, `over-capacity` when no
    placement was found that fits.
    """
    rules = Rules(
        tuple(tuple(group) for group in aliases),
        tuple((one, two) for one, two in in_place),
        tuple(tuple(group) for group in symmetric),
        tuple(pools) or (Pool(),),
        tuple((each,) if isinstance(each, int) else tuple(each) for each in allowed),
    )
    problem = Problem.of(lower, upper, size, alignment, pinned=pinned, owner=owner, segment=segment, rules=rules)
    solution = solve(
        problem, capacity=capacity, hint=hint, spread=spread, time_limit=time_limit, effort=effort, progress=progress
    )
    if not solution.fits:
        from haulout.packing.overflow import over_capacity

        raise HauloutError(over_capacity(problem, solution))
    return solution


def solve(
    problem: Problem,
    *,
    capacity: int | None = None,
    hint: Column | None = None,
    spread: bool = False,
    time_limit: float | None = None,
    effort: float = 1.0,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """Like `plan`, but returns the best placement and its status when it does not fit the capacity."""
    check_bytes("capacity", capacity)
    budget = Budget(time_limit, effort, progress)
    budget.check()
    hints = None if hint is None else _hints(hint, len(problem))
    if capacity is not None:
        problem = with_capacity(problem, capacity)
    if problem.window_low is not None:
        if not problem.rules.trivial:
            bad_input("a problem with windows must have one pool and no aliases, in-place pairs or symmetric groups")
        from haulout.packing.windows import solve_windows

        solution = solve_windows(problem, problem.rules.pools[0].capacity, budget, hints)
        spread = False  # not supported with windows
    elif problem.rules.trivial:
        solution = solve_single(problem, problem.rules.pools[0].capacity, budget, hints)
    else:
        from haulout.packing.composite import solve_composite

        solution = solve_composite(problem, budget, hints)
    if spread and solution.fits and not solution.interrupted:
        from haulout.packing.reuse_avoidance import spread_out

        try:
            solution = spread_out(problem, solution)
        except KeyboardInterrupt:  # the placement before is whole
            solution = replace(solution, interrupted=True)
    wrong = violations(problem, solution.offset, pool=solution.pool, capacities=solution.fits)
    assert not wrong, f"the planner made a wrong placement: {wrong[0]}"
    return solution


def with_capacity(problem: Problem, capacity: int) -> Problem:
    """The problem with the capacity of its only pool."""
    pools = problem.rules.pools
    if len(pools) > 1 or pools[0].capacity not in (None, capacity):
        bad_input("`capacity` is for one pool; give each pool its own capacity")
    return replace(problem, rules=replace(problem.rules, pools=(replace(pools[0], capacity=capacity),)))


def _hints(hint: Column, buffers: int) -> I64:
    hints = np.asarray(hint)
    if hints.shape != (buffers,) or (buffers and hints.dtype.kind not in "iu"):
        bad_input(f"`hint` must be {buffers} integers")
    return hints.astype(np.int64)
