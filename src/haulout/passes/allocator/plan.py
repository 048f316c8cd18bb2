"""Place buffers in as few bytes as can be found: the recipe.

    problem    -> canonical instance    columns, units (`instance.py`)
    instance   -> lower bound           most bytes live at one time (`bound.py`)
    instance   -> placement             construction, then search (`search.py`)
    placement  -> solution              checked by the validator, always (`validate.py`)

The search stops as soon as the peak meets its goal: the lower bound, or the capacity when one is given.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from haulout.passes.allocator.incumbent import Incumbent, Progress
from haulout.passes.allocator.instance import canonical
from haulout.passes.allocator.overflow import over_capacity
from haulout.passes.allocator.problem import I64, LIMIT, Column, Problem
from haulout.passes.allocator.search import run
from haulout.passes.allocator.solution import Solution, Status
from haulout.passes.allocator.validate import overlapping_pair, violations
from haulout.support.diagnostics import HauloutError, bad_input, fail


def plan(
    lower: Column,
    upper: Column,
    size: Column,
    alignment: int | Column = 64,
    *,
    capacity: int | None = None,
    pinned: Column | None = None,
    owner: Column | None = None,
    time_limit: float | None = None,
    effort: float = 1.0,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """Give every buffer an offset such that no two that are live together share a byte.

    `lower`, `upper`: half-open live ranges, one a buffer, or one a range with `owner` naming the buffer.
    `size`, `alignment`, `capacity`, `pinned`: bytes; `pinned` -1 leaves the offset free. Without `time_limit`
    (seconds) the search is bounded by counts, `effort` times the usual ones, and the result depends on the input
    alone; effort 0 is construction without search. `progress` is called at every improvement, and may raise
    KeyboardInterrupt, as Ctrl-C does: the best placement so far is the result.

    With `capacity`, the first placement found that fits is returned. Raises `HauloutError`: `bad-input` for
    malformed columns, `over-capacity` when nothing was found that fits.
    """
    problem = Problem.of(lower, upper, size, alignment, pinned=pinned, owner=owner)
    solution = solve(problem, capacity=capacity, time_limit=time_limit, effort=effort, progress=progress)
    if not solution.fits:
        raise HauloutError(over_capacity(problem, solution))
    return solution


def solve(
    problem: Problem,
    *,
    capacity: int | None = None,
    time_limit: float | None = None,
    effort: float = 1.0,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """Like `plan`, and returns the best placement with its status when nothing fits the capacity."""
    if capacity is not None and not 0 <= capacity <= LIMIT:
        bad_input(f"capacity is {capacity}, not between 0 and 2**62")
    if time_limit is not None and not time_limit >= 0:
        bad_input(f"time limit is {time_limit} seconds")
    if not 0.0 <= effort < 1e6:
        bad_input(f"effort is {effort}, not between 0 and 1,000,000")
    _check_pins(problem)
    instance = canonical(problem)
    state = Incumbent(instance, instance.bound, instance.bound, time_limit=time_limit, progress=progress)
    interrupted = False
    try:
        for goal in [instance.bound] if capacity is None else _goals(problem, instance.unit, capacity):
            state.fitting = capacity is not None and goal >= state.bound  # else: tell how much is needed
            state.goal = max(goal, state.bound)
            run(state, effort)
            if capacity is None or state.offset is None or _end(problem, state) <= capacity:
                break
    except KeyboardInterrupt:
        interrupted = True
        if state.offset is None:
            raise
    if state.offset is None:
        fail("over-capacity", "no placement was found that ends below 2**62 bytes")
    return _finish(problem, state, capacity, interrupted)


def _goals(problem: Problem, unit: int, capacity: int) -> list[int]:
    """Peaks in units that may fit the capacity.

    A peak counts reserved bytes, a capacity only those in use: with a capacity that is not whole units, a peak just
    above it may still fit. That one is tried first, and then the one that fits in any case.
    """
    return sorted({(capacity + _slack(problem)) // unit, capacity // unit}, reverse=True)


def _slack(problem: Problem) -> int:
    """The most bytes that a buffer reserves and does not use."""
    return int((problem.reserved - problem.size)[problem.occupies].max(initial=0))


def _offsets(problem: Problem, state: Incumbent) -> I64:
    """Offsets in bytes; buffers that take nothing are at their pin or at 0."""
    assert state.offset is not None
    offset = state.instance.offsets(state.offset, len(problem))
    free = ~problem.occupies & (problem.pinned >= 0)
    offset[free] = problem.pinned[free]
    return offset


def _end(problem: Problem, state: Incumbent) -> int:
    """Where the highest buffer in use ends."""
    return int((_offsets(problem, state) + problem.size)[problem.occupies].max(initial=0))


def _finish(problem: Problem, state: Incumbent, capacity: int | None, interrupted: bool) -> Solution:
    """From units to bytes; status; the validator has the last word."""
    offset, end = _offsets(problem, state), _end(problem, state)
    lower_bound = state.bound * state.instance.unit
    if capacity is not None and end > capacity:
        status = Status.INFEASIBLE if lower_bound - _slack(problem) > capacity else Status.UNSOLVED
    else:
        status = Status.OPTIMAL if state.peak <= state.bound else Status.FEASIBLE
    wrong = violations(problem, offset, capacity if status in (Status.OPTIMAL, Status.FEASIBLE) else None)
    assert not wrong, f"the planner made a wrong placement: {wrong[0]}"
    return Solution(
        offset=offset,
        peak=state.peak * state.instance.unit,
        lower_bound=lower_bound,
        status=status,
        capacity=capacity,
        method=state.method,
        work=state.work,
        interrupted=interrupted,
    )


def _check_pins(problem: Problem) -> None:
    """Pinned buffers must not overlap one another."""
    fixed: I64 = np.where(problem.pinned >= 0, problem.pinned, 0)
    pair = overlapping_pair(problem, fixed, problem.occupies & (problem.pinned >= 0))
    if pair is not None:
        bad_input(f"buffers {pair[0]} and {pair[1]} are pinned to overlapping bytes while both are live")
