"""The stages of the search; each runs if the stages before it did not reach the goal.

    construct         one placement for each key (`construct.py`)
    squeaky wheel     more constructions, with blame (`squeaky_wheel.py`)
    branch and bound  up to 4,000 rows: for the capacity, or for smaller and smaller peaks (`descend.py`)

Without a time limit each stage has a budget of counts times the effort, so that a result depends on the problem
alone. With a time limit, the last stage that applies runs until time is up. Effort 0 is construction only.
"""

from __future__ import annotations

import numpy as np

from haulout.packing.best_fit import cost
from haulout.packing.capacity_search import MAX_ROWS, CapacitySearch
from haulout.packing.construct import construct
from haulout.packing.descend import descend, reach_goal
from haulout.packing.incumbent import Incumbent
from haulout.packing.squeaky_wheel import squeaky_wheel

_TURNS = 480  # of the squeaky wheel
_TURNS_TO_FIT = 48  # the same with a capacity, if branch and bound follows
_ROWS_LIMIT = 4_000_000  # rows placed by the squeaky wheel in all
_PAIRS_LIMIT = 2_000_000_000  # pairs of rows that it visits, where a turn is a fit by gaps
_VISITS_LIMIT = 80_000_000  # rows and columns visited by branch and bound: each step visits up to one of each
_VISITS_LIMIT_TO_FIT = 400_000_000  # the same with a capacity
_VISITS_LIMIT_A_RUN = 10_000_000  # the same in one run with a time limit: about half a second
_UNBOUNDED = 1 << 60


def run(state: Incumbent, effort: float = 1.0) -> None:
    """Improve `state` until it is over or all stages have run."""
    instance = state.instance
    rows = len(instance)
    if not rows:
        state.offer(np.zeros(0, np.int64), 0, "empty")
        return
    construct(state)
    if state.over or effort == 0.0:
        return
    timed = state.time_limit is not None
    exact = rows <= MAX_ROWS
    turns = min(_TURNS_TO_FIT if state.fitting and exact else _TURNS, _ROWS_LIMIT // rows)
    if instance.has_pins or instance.has_holes:
        turns = min(turns, _PAIRS_LIMIT // max(cost(instance), 1))
    squeaky_wheel(state, _UNBOUNDED if timed and not exact else int(effort * turns))
    if state.over or not exact:
        return
    search = CapacitySearch(state)
    step = rows + instance.columns
    least = 4 * rows
    visits = _VISITS_LIMIT_TO_FIT if state.fitting else _VISITS_LIMIT
    share = min(1.0, 2 * (MAX_ROWS - rows) / MAX_ROWS)  # none is left where this stage ends: time is no step
    steps = _UNBOUNDED if timed else int(effort * share * max(least, visits // step))
    most = max(least, _VISITS_LIMIT_A_RUN // step) if timed else steps
    if state.fitting:
        reach_goal(state, search, steps, most)
    else:
        descend(state, search, steps, most)
