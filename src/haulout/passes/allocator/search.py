"""The stages of the search, each tried when those before it did not reach the goal.

    construct         one placement a key (`construct.py`)
    squeaky wheel     again, with blame (`squeaky_wheel.py`)
    branch and bound  up to 2,000 rows: for the capacity, or downwards to the bound (`descend.py`)

Without a time limit each stage has a budget of counts, so that a result depends on the problem alone; with one,
the last stage that applies goes on until time is up.

Small instances are constructed in plain Python, so that a handful of buffers does not wait for the compiler; the
results are the same.
"""

from __future__ import annotations

import numpy as np

from haulout.passes.allocator.construct import construct
from haulout.passes.allocator.decide import MOST_ROWS, Decider
from haulout.passes.allocator.descend import decide_goal, descend
from haulout.passes.allocator.incumbent import Incumbent
from haulout.passes.allocator.squeaky_wheel import squeaky_wheel
from haulout.support.jit import interpreted

_PLAIN_PYTHON = 64  # rows up to which kernels are not compiled for construction
_TURNS = 480  # of the squeaky wheel
_ROWS = 5_000_000  # placed by the squeaky wheel in all
_VISITS = 40_000_000  # of rows and columns by branch and bound in all: one a failure
_VISITS_A_RUN = 10_000_000  # the same in one run when time is limited: about half a second
_UNBOUNDED = 1 << 60


def run(state: Incumbent) -> None:
    """Improve `state` until it is over or every stage has had its turn."""
    instance = state.instance
    rows = len(instance)
    if not rows:
        state.offer(np.zeros(0, np.int64), 0, "empty")
        return
    if rows <= _PLAIN_PYTHON:
        with interpreted():
            construct(state)
    else:
        construct(state)
    if state.over:
        return
    timed = state.time_limit is not None
    exact = rows <= MOST_ROWS and not instance.has_pins
    squeaky_wheel(state, _UNBOUNDED if timed and not exact else min(_TURNS, _ROWS // rows))
    if state.over or not exact:
        return
    decider = Decider(state)
    size = rows + instance.columns
    failures = _UNBOUNDED if timed else _VISITS // size
    largest = _VISITS_A_RUN // size if timed else failures
    if state.fitting:
        decide_goal(state, decider, failures, largest)
    else:
        descend(state, decider, failures, largest)
