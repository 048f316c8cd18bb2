"""The stages of the search, each tried when those before it did not reach the goal.

    construct         one placement a key (`construct.py`)
    squeaky wheel     again, with blame (`squeaky_wheel.py`)
    branch and bound  up to 4,000 rows: for the capacity, or downwards to the bound (`descend.py`)

Without a time limit each stage has a budget of counts times the effort, so that a result depends on the problem
alone; with one, the last stage that applies goes on until time is up. Effort 0 leaves construction only.
"""

from __future__ import annotations

import numpy as np

from haulout.packing.best_fit import cost
from haulout.packing.capacity_search import MOST_ROWS, Decider
from haulout.packing.construct import construct
from haulout.packing.descend import decide_goal, descend
from haulout.packing.incumbent import Incumbent
from haulout.packing.squeaky_wheel import squeaky_wheel

_TURNS = 480  # of the squeaky wheel
_TURNS_TO_FIT = 48  # the same when branch and bound has a capacity to fit
_ROWS = 4_000_000  # placed by the squeaky wheel in all
_PAIRS = 2_000_000_000  # of rows looked at by it, where a turn is a fit by gaps
_VISITS = 80_000_000  # of rows and columns by branch and bound in all: each step costs up to one of each
_VISITS_TO_FIT = 400_000_000  # the same when there is a capacity to fit
_VISITS_A_RUN = 10_000_000  # the same in one run when time is limited: about half a second
_UNBOUNDED = 1 << 60


def run(state: Incumbent, effort: float = 1.0) -> None:
    """Improve `state` until it is over or every stage has had its turn."""
    instance = state.instance
    rows = len(instance)
    if not rows:
        state.offer(np.zeros(0, np.int64), 0, "empty")
        return
    construct(state)
    if state.over or effort == 0.0:
        return
    timed = state.time_limit is not None
    exact = rows <= MOST_ROWS
    turns = min(_TURNS_TO_FIT if state.fitting and exact else _TURNS, _ROWS // rows)
    if instance.has_pins or instance.has_holes:
        turns = min(turns, _PAIRS // max(cost(instance), 1))
    squeaky_wheel(state, _UNBOUNDED if timed and not exact else int(effort * turns))
    if state.over or not exact:
        return
    decider = Decider(state)
    step = rows + instance.columns
    least = 4 * rows
    visits = _VISITS_TO_FIT if state.fitting else _VISITS
    steps = _UNBOUNDED if timed else int(effort * max(least, visits // step))
    most = max(least, _VISITS_A_RUN // step) if timed else steps
    if state.fitting:
        decide_goal(state, decider, steps, most)
    else:
        descend(state, decider, steps, most)
