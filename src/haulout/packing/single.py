"""Solve a problem of one address space without rules.

    problem    -> canonical instance    columns, units (`instance.py`)
    instance   -> lower bound           most bytes live at one time (`bound.py`)
    instance   -> placement             construction, then search (`search.py`)
    placement  -> solution              from units to bytes, with a status

The search stops as soon as the peak reaches its goal: the lower bound, or the capacity when one is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from haulout.packing.best_fit import cost
from haulout.packing.incumbent import Incumbent, Progress
from haulout.packing.instance import canonical
from haulout.packing.problem import I64, LIMIT, Problem
from haulout.packing.search import run
from haulout.packing.solution import PoolUse, Solution, Status
from haulout.packing.validate import overlapping_pair
from haulout.support.diagnostics import bad_input, fail


@dataclass(frozen=True, slots=True)
class Budget:
    """How much to search: seconds or, without a limit, `effort` times the usual counts; the progress callback."""

    time_limit: float | None = None
    effort: float = 1.0
    progress: Callable[[Progress], None] | None = None

    def check(self) -> None:
        """Raises `bad-input` for values out of range."""
        if self.time_limit is not None and not self.time_limit >= 0:
            bad_input(f"time limit is {self.time_limit} seconds, expected at least 0")
        if not 0.0 <= self.effort < 1e6:
            bad_input(f"effort is {self.effort}, expected a number between 0 and 1,000,000")

    def without_search(self) -> Budget:
        """Construction only, without progress callback."""
        return replace(self, effort=0.0, time_limit=None, progress=None)


def solve_single(problem: Problem, capacity: int | None, budget: Budget, hint: I64 | None = None) -> Solution:
    """The best placement found, not validated; `problem.rules` are ignored.

    `hint`: an offset for each buffer, or -1. A valid hint is the first placement; any other is an order to try.
    """
    check_pins(problem)
    instance = canonical(problem)
    state = Incumbent(
        instance, instance.bound, instance.bound, time_limit=budget.time_limit, progress=budget.progress
    )
    if hint is not None:
        state.hint = hint[instance.buffer]
    plain = problem.rules.trivial and problem.window_low is None
    if hint is not None and plain and cost(instance) > _FIT_COST_LIMIT:
        _offer_hint(problem, state, hint)
    interrupted = False
    try:
        for goal in [instance.bound] if capacity is None else _goals(problem, instance.unit, capacity):
            state.fitting = capacity is not None and goal >= state.bound  # else: find how much is needed
            state.goal = max(goal, state.bound)
            run(state, budget.effort)
            if capacity is None or state.offset is None or _end(problem, state) <= capacity:
                break
    except KeyboardInterrupt:
        interrupted = True
        if state.offset is None:
            raise
    if state.offset is None:
        fail("over-capacity", "no placement was found that ends below 2**62 bytes")
    return _finish(problem, state, capacity, interrupted)


_FIT_COST_LIMIT = 20_000_000
"""Cost of a best fit above which a hint is first tried unchanged."""


def _offer_hint(problem: Problem, state: Incumbent, hint: I64) -> None:
    """Offer a valid hint unchanged, in near linear time; if it reaches the bound, the search is over."""
    instance = state.instance
    rows = hint[instance.buffer]
    unit, taken = instance.unit, problem.occupies
    whole = np.where(problem.segment > 0, problem.segment, LIMIT)
    fits = (hint >= 0) & (hint % problem.alignment == 0) & (hint % whole <= whole - problem.size)
    fits &= (problem.pinned < 0) | (hint == problem.pinned)
    if (rows % unit == 0).all() and fits[taken].all() and overlapping_pair(problem, hint, taken) is None:
        state.offer(rows // unit, int((rows // unit + instance.size).max(initial=0)), "hint")


def check_pins(problem: Problem) -> None:
    """Pinned buffers must not overlap one another. Raises `bad-input`."""
    fixed: I64 = np.where(problem.pinned >= 0, problem.pinned, 0)
    pair = overlapping_pair(problem, fixed, problem.occupies & (problem.pinned >= 0))
    if pair is not None:
        bad_input(f"buffers {pair[0]} and {pair[1]} are pinned to overlapping bytes while both are live")


def slack(problem: Problem) -> int:
    """The most reserved bytes that a buffer leaves unused."""
    return int((problem.reserved - problem.size)[problem.occupies].max(initial=0))


def _goals(problem: Problem, unit: int, capacity: int) -> list[int]:
    """Peaks in units that may fit the capacity.

    A peak counts reserved bytes, a capacity only used ones. So a peak slightly above the capacity may fit. It is
    tried first, then the peak that always fits.
    """
    return sorted({(capacity + slack(problem)) // unit, capacity // unit}, reverse=True)


def _offsets(problem: Problem, state: Incumbent) -> I64:
    """Offsets in bytes; buffers that take no storage get their pin or 0."""
    assert state.offset is not None
    offset = state.instance.offsets(state.offset, len(problem))
    free = ~problem.occupies & (problem.pinned >= 0)
    offset[free] = problem.pinned[free]
    return offset


def _end(problem: Problem, state: Incumbent) -> int:
    """Where the highest buffer in use ends."""
    return int((_offsets(problem, state) + problem.size)[problem.occupies].max(initial=0))


def _finish(problem: Problem, state: Incumbent, capacity: int | None, interrupted: bool) -> Solution:
    """From units to bytes; status."""
    offset, end = _offsets(problem, state), _end(problem, state)
    lower_bound, peak = state.bound * state.instance.unit, state.peak * state.instance.unit
    if capacity is not None and end > capacity:
        status = Status.INFEASIBLE if lower_bound - slack(problem) > capacity else Status.UNSOLVED
    else:
        status = Status.OPTIMAL if state.peak <= state.bound else Status.FEASIBLE
    return Solution(
        offset=offset,
        peak=peak,
        lower_bound=lower_bound,
        status=status,
        capacity=capacity,
        method=state.method,
        work=state.work,
        interrupted=interrupted,
        pool=np.zeros(len(problem), np.int64),
        pools=(PoolUse(problem.rules.pools[0].name, peak, lower_bound, capacity),),
    )
