"""The stages of the search; each runs if the stages before it did not reach the goal.

    construct         one placement for each key (`construct.py`)
    clique            buffers that conflict in pairs, for a better bound (`clique.py`)
    best fit          in XLA's two orders
    squeaky wheel     more constructions, with blame (`squeaky_wheel.py`)
    branch and bound  up to 4,000 rows: for the capacity, or for smaller and smaller peaks (`descend.py`)

Up to 4,000 rows and without a time limit, the start of the squeaky wheel and of branch and bound come first, which
solve most problems, and then best fit and the rest of both.

Without a time limit each stage has a budget of counts times the effort, so that a result depends on the problem
alone. With a time limit, the last stage that applies runs until time is up. Effort 0 is construction only.
"""

from __future__ import annotations

import numpy as np

from haulout.packing.best_fit import cost
from haulout.packing.capacity_search import MAX_ROWS, CapacitySearch
from haulout.packing.construct import construct, fit
from haulout.packing.descend import descend, descend_by_fixed_targets, reach
from haulout.packing.incumbent import Incumbent
from haulout.packing.squeaky_wheel import squeaky_wheel

_TURNS = 480  # of the squeaky wheel
_TURNS_AT_FIRST = 48  # the same before branch and bound
_PART_AT_FIRST = 10  # such a part of its steps branch and bound makes before the rest of the squeaky wheel
_ROWS_LIMIT = 4_000_000  # rows placed by the squeaky wheel in all
_PAIRS_LIMIT = 2_000_000_000  # pairs of rows that it visits, where a turn is a fit by gaps
_VISITS_LIMIT = 80_000_000  # rows and columns visited by branch and bound: each step visits up to one of each
_VISITS_LIMIT_TO_FIT = 400_000_000  # the same with a capacity
_VISITS_LIMIT_A_RUN = 10_000_000  # the same in one run with a time limit: about half a second
_UNBOUNDED = 1 << 60
_MAX_CLIQUE_ROWS = 400


def run(state: Incumbent, effort: float = 1.0) -> None:
    """Improve `state` until it is over or all stages have run."""
    rows = len(state.instance)
    if not rows:
        state.offer(np.zeros(0, np.int64), 0, "empty")
        return
    construct(state)
    if state.offset is None or effort == 0.0:
        fit(state, effort)
    if state.over or effort == 0.0:
        return
    if state.instance.has_holes and rows <= _MAX_CLIQUE_ROWS:
        from haulout.packing.clique import heaviest_clique

        state.raise_bound(int(state.instance.size[heaviest_clique(state.instance)].sum()))
        if state.over:
            return
    timed, exact = state.time_limit is not None, rows <= MAX_ROWS
    turns = _UNBOUNDED if timed and not exact else int(effort * _turns(state))
    search = CapacitySearch(state) if exact else None
    steps = _UNBOUNDED if timed else int(effort * _steps(state))
    if search is not None and not timed:
        squeaky_wheel(state, min(turns, int(effort * _TURNS_AT_FIRST)))
        _branch(state, search, steps if state.fitting else steps // _PART_AT_FIRST)
    if not state.over:
        fit(state, effort)
    if not state.over and not (state.fitting and search is not None and not timed):
        squeaky_wheel(state, turns)
    if search is not None:
        _branch(state, search, steps, last=True)


def _turns(state: Incumbent) -> int:
    """Turns of the squeaky wheel at effort 1."""
    instance = state.instance
    turns = min(_TURNS, _ROWS_LIMIT // len(instance))
    gaps = instance.has_pins or instance.has_holes
    return min(turns, _PAIRS_LIMIT // max(cost(instance), 1)) if gaps else turns


def _steps(state: Incumbent) -> int:
    """Steps of branch and bound at effort 1."""
    rows = len(state.instance)
    visits = _VISITS_LIMIT_TO_FIT if state.fitting else _VISITS_LIMIT
    share = min(1.0, 2 * (MAX_ROWS - rows) / MAX_ROWS)  # none is left where this stage ends: time is no step
    return int(share * max(4 * rows, visits // (rows + state.instance.columns)))


def _branch(state: Incumbent, search: CapacitySearch, steps: int, *, last: bool = False) -> None:
    """Branch and bound until it has made `steps` steps in all; `last`: half of them for fixed targets."""
    if state.over or search.spent >= steps:
        return
    rows = len(state.instance)
    a_run = max(4 * rows, _VISITS_LIMIT_A_RUN // (rows + state.instance.columns))
    most = steps if state.time_limit is None else a_run
    if state.fitting:
        reach(state, search, state.goal, steps, most)
    else:
        descend(state, search, steps // 2 if last else steps, most)
        if last:
            descend_by_fixed_targets(state, search, steps, most)
