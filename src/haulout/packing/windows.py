"""Buffers that use only a window of their bytes in some ranges: first fit over shapes.

A buffer with windows is several rectangles of time and bytes with one common offset:

    bytes  |      |######|            the lower half, the upper half, the lower half: another buffer fits into the
           |######|      |######|     space that this one leaves free
           time ->

For each two of their rectangles that overlap in time, two shapes forbid each other an open interval of offsets. A new
shape takes the least aligned offset outside the intervals of all placed ones. This is tried in several orders, then
in orders with blame for the buffers that ended above the bound (`squeaky_wheel.py`). O(n) a shape, in whole columns.
"""

from __future__ import annotations

import time

import numpy as np

from haulout.packing.bound import lower_bound
from haulout.packing.incumbent import Progress
from haulout.packing.instance import F64
from haulout.packing.keys import rank
from haulout.packing.problem import I64, LIMIT, Problem
from haulout.packing.single import Budget, check_pins
from haulout.packing.solution import PoolUse, Solution, Status
from haulout.packing.squeaky_wheel import noise
from haulout.support.diagnostics import fail

_TURNS = 60
_VISITS_LIMIT = 40_000_000
_DECAY = 0.9


def solve_windows(problem: Problem, capacity: int | None, budget: Budget, hint: I64 | None = None) -> Solution:
    """The best placement found of a problem with windows, not validated."""
    check_pins(problem)
    bound = lower_bound(problem).size
    goal = bound if capacity is None else max(bound, capacity)
    started = time.monotonic()
    best = np.zeros(len(problem), np.int64)
    peak, method, done, interrupted = -1, "", 0, False
    orders = _orders(problem, hint)
    turns = int(min(_TURNS, _VISITS_LIMIT // max(len(problem.lower), 1) ** 2) * budget.effort)
    blame = np.zeros(len(problem))
    try:
        for turn in range(len(orders) + (turns if budget.time_limit is None else 1 << 30)):
            name, rank = orders[turn % len(orders)]
            offset, end = _first_fit(problem, np.argsort(-(rank + blame), kind="stable"))
            done += 1
            if end >= 0 and (peak < 0 or end < peak):
                best, peak, method = offset, end, name if turn < len(orders) else "squeaky wheel"
                if budget.progress is not None:
                    budget.progress(Progress(peak, bound, method, time.monotonic() - started))
            late = budget.time_limit is not None and time.monotonic() - started >= budget.time_limit
            if 0 <= peak <= goal or (peak >= 0 and late) or (budget.effort == 0 and turn + 1 >= len(orders)):
                break
            high = np.flatnonzero(offset + problem.size > goal)
            blame *= _DECAY
            blame[high] += 0.3 * (0.5 + noise(turn, high))
    except KeyboardInterrupt:
        interrupted = True
        if peak < 0:
            raise
    if peak < 0:
        fail("over-capacity", "no placement was found that ends below 2**62 bytes")
    if capacity is not None and peak > capacity:
        status = Status.INFEASIBLE if bound > capacity else Status.UNSOLVED
    else:
        status = Status.OPTIMAL if peak <= bound else Status.FEASIBLE
    return Solution(
        offset=best,
        peak=peak,
        lower_bound=bound,
        status=status,
        capacity=capacity,
        method=method,
        work={"constructions": done},
        interrupted=interrupted,
        pool=np.zeros(len(problem), np.int64),
        pools=(PoolUse(problem.rules.pools[0].name, peak, bound, capacity),),
    )


def _orders(problem: Problem, hint: I64 | None) -> list[tuple[str, F64]]:
    """Ranks of the buffers in [0, 1), greater first."""
    life = np.zeros(len(problem))
    np.add.at(life, problem.owner, (problem.upper - problem.lower).astype(float))
    size = problem.size.astype(float)
    keys = [("area", life * size), ("duration", life), ("size", size)]
    if hint is not None:
        keys.insert(0, ("hint", -np.where(hint < 0, float(LIMIT), hint)))
    return [(f"shapes by {name}", rank(key)) for name, key in keys]


def _first_fit(problem: Problem, order: I64) -> tuple[I64, int]:
    """Offsets and the highest end, -1 when it exceeds 2**62. Pinned buffers first."""
    low, high = problem.windows
    solid = (problem.upper > problem.lower) & (high > low)
    head = np.searchsorted(problem.owner, np.arange(len(problem) + 1))
    offset = np.where(problem.pinned >= 0, problem.pinned, 0)
    placed = (problem.pinned >= 0)[problem.owner] & solid
    peak = int((offset + problem.size)[(problem.pinned >= 0) & problem.occupies].max(initial=0))
    for b in order.tolist():
        if problem.pinned[b] >= 0:
            continue
        pieces = [k for k in range(head[b], head[b + 1]) if solid[k]]
        if not pieces:
            continue
        begins, ends = [], []
        for k in pieces:
            near = np.flatnonzero(placed & (problem.lower < problem.upper[k]) & (problem.lower[k] < problem.upper))
            base = offset[problem.owner[near]]
            begins.append(base + low[near] - high[k])
            ends.append(base + high[near] - low[k])
        at = _lowest(np.concatenate(begins), np.concatenate(ends), problem, b)
        if at > LIMIT - int(problem.size[b]):
            return offset, -1
        offset[b] = at
        placed[pieces] = True
        peak = max(peak, at + int(problem.size[b]))
    return offset, peak


def _lowest(begin: I64, end: I64, problem: Problem, b: int) -> int:
    """The least offset of buffer b that is aligned, crosses no segment, and is in no open interval (begin, end)."""
    step, segment, size = int(problem.alignment[b]), int(problem.segment[b]), int(problem.size[b])
    order = np.argsort(begin, kind="stable")
    at = 0
    for one, two in zip(begin[order].tolist(), end[order].tolist(), strict=True):
        if one >= at:
            break
        if two > at:
            at = -(-two // step) * step
            if segment and at % segment + size > segment:
                at = (at // segment + 1) * segment
    return at
