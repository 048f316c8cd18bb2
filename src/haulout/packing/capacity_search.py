"""Does it fit a capacity? Runs of branch and bound over one instance, each with other settings.

The settings take turns. They differ in the bound (`packed` is stronger and slower), in noise, and in the value
orders, which rotate within a run or follow the best placement so far. Some runs keep the failure weights of the runs
before them, which tell the hard columns, and some start without: the weights help on some instances and mislead on
others.
"""

from __future__ import annotations

import numpy as np

from haulout.packing.branch_and_bound import GAVE_UP, INFEASIBLE, SOLVED, Shape, _scan_search
from haulout.packing.incumbent import Incumbent
from haulout.packing.instance import F64, I32, Instance
from haulout.packing.kernels import ranges_overlap
from haulout.packing.keys import key
from haulout.packing.problem import I64
from haulout.support.jit import interpreted, plain_work

MAX_ROWS = 4_000
_MAX_PLAIN_VISITS = 50_000
"""Rows and columns visited in plain Python while the kernel is not loaded, about two microseconds each."""
_MAX_PLAIN_VISITS_AT_FIRST = 150_000
"""The same if the kernel has to be compiled, which takes several seconds."""
_ORDERS = ("duration", "load-area", "load-duration", "size", "area")
_RUNS = (  # packed, noise, how many orders (0: that of the best placement so far), with the weights learned so far
    (False, 0.02, 2, False),
    (True, 0.003, 5, True),
    (False, 0.02, 0, True),
    (False, 0.05, 2, False),
    (True, 0.02, 2, True),
    (False, 0.1, 0, True),
)
_FIRST_LIMIT = 100
_SEED = 300  # any number; the time for a hard instance varies with it


class CapacitySearch:
    """Branch and bound on one instance. Each call of `ask` is another run."""

    def __init__(self, state: Incumbent) -> None:
        self.state = state
        self.shape = shape_of(state.instance)
        self.keys: F64 = np.array([key(state.instance, name) for name in _ORDERS])
        self.weight = np.ones(state.instance.columns)
        self.runs = 0
        self.spent = 0  # steps in all runs

    def ask(self, capacity: int, steps: int) -> int:
        """SOLVED (offered to the state), INFEASIBLE (the bound rises) or GAVE_UP after `steps` steps."""
        packed, noise, orders, learned = _RUNS[self.runs % len(_RUNS)]
        self.runs += 1
        keys = self.keys[:orders] if orders else self._guide()
        offset = np.zeros(len(self.state.instance), np.int64)
        counters = np.zeros(3, np.int64)
        weight = self.weight if learned else np.ones(len(self.weight))

        def search(steps: int, weight: F64) -> int:
            counters[:] = 0
            seed = _SEED + self.runs
            settings = (keys, packed, noise, seed, _FIRST_LIMIT, steps)
            return _scan_search(self.shape, capacity, *settings, weight, offset, counters)

        few = self._plain_steps(steps)
        answer = GAVE_UP
        if few:
            tried = weight.copy()
            with interpreted():
                answer = search(few, tried)
        if few and (few == steps or answer != GAVE_UP):
            weight[:] = tried
        else:
            answer = search(steps, weight)
        for name, times in zip(("nodes", "failures", "restarts"), counters.tolist(), strict=True):
            self.state.count(name, times)
        self.spent += int(counters[:2].sum())
        if answer == SOLVED:
            self.state.offer(offset, int((offset + self.state.instance.size).max()), "branch and bound")
        elif answer == INFEASIBLE:
            self.state.raise_bound(capacity + 1)
        return answer

    def _plain_steps(self, steps: int) -> int:
        """So many of the first steps of a run are tried in plain Python while the kernel is not loaded."""
        visits = len(self.state.instance) + self.state.instance.columns
        limits = (_MAX_PLAIN_VISITS, _MAX_PLAIN_VISITS_AT_FIRST)
        few = plain_work(_scan_search, steps * visits, limits[0], unstored=limits[1]) // visits
        _scan_search.plain_work += few * visits
        return few

    def _guide(self) -> F64:
        """The order of the best placement so far, lowest first; without one, the first order."""
        if self.state.offset is None:
            return self.keys[:1]
        rank = np.empty(len(self.state.instance))
        rank[np.argsort(-self.state.offset, kind="stable")] = np.arange(len(rank)) / len(rank)
        return rank[np.newaxis]


def shape_of(instance: Instance) -> Shape:
    """The instance with the rows of every column listed."""
    span = instance.range_last - instance.range_first
    owner = np.repeat(np.arange(len(instance), dtype=np.int32), np.diff(instance.range_of))
    begins = np.cumsum(span) - span
    column = np.repeat(instance.range_first - begins, span) + np.arange(int(span.sum()))
    order = np.argsort(column, kind="stable")
    obstacle_of, obstacles = _obstacles(instance)
    return Shape(
        instance.size,
        instance.alignment,
        instance.segment,
        instance.pinned,
        obstacle_of,
        obstacles,
        instance.first,
        instance.last,
        instance.start_of,
        instance.range_of,
        instance.range_first,
        instance.range_last,
        np.searchsorted(column[order], np.arange(instance.columns + 1)).astype(np.int64),
        np.repeat(owner, span)[order],
    )


def _obstacles(instance: Instance) -> tuple[I64, I32]:
    """For every free row, the pinned rows that share a column with it, by ascending offset: starts, and rows."""
    pins = np.flatnonzero(instance.pinned >= 0)
    pins = pins[np.argsort(instance.pinned[pins], kind="stable")]
    found: list[I64] = []
    for row in range(len(instance)) if len(pins) else ():
        near = pins[(instance.first[pins] < instance.last[row]) & (instance.first[row] < instance.last[pins])]
        if instance.pinned[row] >= 0:
            near = near[:0]
        elif instance.has_holes:
            near = near[[_overlap(instance, row, pin) for pin in near.tolist()]]
        found.append(near)
    counts = [len(near) for near in found] or [0] * len(instance)
    flat = np.concatenate(found) if found else np.zeros(0, np.int64)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), flat.astype(np.int32)


def _overlap(instance: Instance, one: int, two: int) -> bool:
    """Whether two rows are live in one column; few are asked for, so plain Python."""
    with interpreted():
        return ranges_overlap(one, two, instance.range_of, instance.range_first, instance.range_last)
