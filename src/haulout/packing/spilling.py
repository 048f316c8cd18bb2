"""Which buffers to leave out of a small memory, so that the others fit and the most weight is kept.

    problem   -> bound       at every moment the kept bytes fit the capacity: a linear program, solved by HiGHS
    bound     -> choice      whole buffers: fix those that are whole, then the largest share, and solve again
    choice    -> placement   the planner; while it does not fit, a buffer that ends too high goes, the lightest one
    placement -> choice      what was left out is tried again, the heaviest for its size first

The bound is the linear program's value: no placement keeps more. Between it and the result are buffers that fit at
every moment and have no common placement, and what the search misses. Pinned buffers stay, unless they alone do not
fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from haulout.packing.conflict_set import subset
from haulout.packing.problem import I64, Column, Problem
from haulout.packing.rules import check_bytes
from haulout.packing.single import Budget, check_pins, solve_single
from haulout.packing.solution import Solution
from haulout.support.diagnostics import bad_input

Bools = NDArray[np.bool_]

_DIVES = 100
"""Linear programs solved for the choice."""
_SHARES = (0.97, 0.93)
"""Of the capacity, for which other choices are made."""
_MAX_REMOVALS = 200
_MAX_RETURNS = 200
"""Placements that are searched for buffers that were left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Spill:
    """`kept`: which buffers are in the memory; `offset`: where, -1 for the others. `weight`: what is kept, of at most
    `bound`."""

    kept: Bools
    offset: I64
    weight: int
    bound: float
    total: int
    """The weight of all buffers."""

    @property
    def ratio(self) -> float:
        """Kept weight over its bound; 1.0 is perfect."""
        return self.weight / self.bound if self.bound > 0 else 1.0


def spill(problem: Problem, capacity: int, weight: Column | None = None, *, effort: float = 1.0) -> Spill:
    """Keep the most weight in `capacity` bytes.

    `weight`: what each buffer is worth, for instance its size (the default) or bytes moved; at least 0. Buffers that
    take no storage are kept. Raises `bad-input` for rules or windows, and where the weights are malformed.
    """
    check_bytes("capacity", capacity)
    if not problem.rules.trivial or problem.window_low is not None:
        bad_input("spilling is for problems of one pool without rules and windows")
    check_pins(problem)
    worth = np.asarray(problem.size if weight is None else weight)
    if worth.shape != problem.size.shape or (len(worth) and (worth.dtype.kind not in "iu" or worth.min() < 0)):
        bad_input(f"`weight` must be {len(problem)} integers of at least 0")
    worth = worth.astype(np.int64)
    budget = Budget(effort=effort)
    live = problem.occupies
    whole = _try(problem, live, capacity, budget)
    total = int(worth.sum())
    if whole is not None:
        return Spill(np.ones(len(problem), bool), whole.offset, total, float(total), total)
    possible = np.flatnonzero(live & (np.maximum(problem.pinned, 0) <= capacity - problem.size))
    free_worth = int(worth[~live].sum())
    chosen, bound = _choose(problem, possible, worth, capacity)
    quick = Budget(effort=0.02 * effort)
    kept, offset = _place(problem, chosen, worth, capacity, quick)
    for share in _SHARES:  # fewer buffers leave space for a placement, which the others then fill
        chosen, _ = _choose(problem, possible, worth, int(capacity * share))
        other = _place(problem, chosen, worth, capacity, quick)
        if worth[other[0]].sum() > worth[kept].sum():
            kept, offset = other
    offset = _take_back(problem, kept, offset, worth, capacity, quick)
    offset = np.where(kept, offset, -1)
    offset[~live] = 0
    kept |= ~live
    return Spill(kept, offset, int(worth[kept].sum()), bound + free_worth, total)


def _columns(problem: Problem, rows: I64) -> tuple[I64, I64]:
    """For the moments that matter, who is live: pairs of a moment and a position in `rows`."""
    ranges = np.flatnonzero((problem.upper > problem.lower) & np.isin(problem.owner, rows))
    lower, upper = problem.lower[ranges], problem.upper[ranges]
    moments = np.unique(lower)
    # A birth right after another, with no death between, has all live buffers of the one before.
    deaths = np.searchsorted(np.sort(upper), moments, side="right")
    last = np.append(np.diff(deaths) > 0, True)
    moments = moments[last]
    first, end = np.searchsorted(moments, lower), np.searchsorted(moments, upper)
    count = end - first
    at = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    return at, np.repeat(np.searchsorted(rows, problem.owner[ranges]), count)


def _choose(problem: Problem, rows: I64, worth: I64, capacity: int) -> tuple[Bools, float]:
    """Buffers whose bytes fit at every moment, and the most that any choice keeps."""
    chosen = np.zeros(len(problem), bool)
    if not len(rows):
        return chosen, 0.0
    from scipy import optimize
    from scipy.sparse import csr_array

    linprog: Any = optimize.linprog  # its types know no sparse matrices
    at, who = _columns(problem, rows)
    # The topmost buffer may leave bytes of its last unit unused, so the relaxation counts sizes, not reserved bytes.
    size = problem.size[rows].astype(np.float64) / max(capacity, 1)
    load = csr_array((size[who], (at, who)), shape=(int(at.max()) + 1, len(rows)))
    price = worth[rows].astype(np.float64)
    scale = max(float(price.max()), 1.0)
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    bound = float(price.sum())
    whole = np.zeros(len(rows), bool)
    pins = problem.pinned[rows] >= 0
    for number in range(_DIVES):
        limit = np.ones(load.shape[0])
        relaxed = linprog(
            -price / scale,
            A_ub=load,
            b_ub=limit,
            bounds=list(zip(low.tolist(), high.tolist(), strict=True)),
            method="highs",
        )
        if relaxed.x is None:
            break
        share = np.clip(relaxed.x, 0.0, 1.0)
        if number == 0:
            bound = min(bound, float(-relaxed.fun * scale) * (1 + 1e-9))
        whole = share > 1 - 1e-6
        part = np.flatnonzero(~whole & (share > 1e-6))
        if not len(part):
            break
        # Fix what is whole, and of the rest the largest share; what no longer fits cannot be kept.
        low[whole] = 1.0
        low[part[np.lexsort((part, -price[part], -share[part], ~pins[part]))[0]]] = 1.0
        room = limit - load @ low
        least = np.full(len(rows), np.inf)
        np.minimum.at(least, who, room[at])
        high[(low == 0) & (size > least + 1e-9)] = 0.0
        if (room < -1e-9).any():
            break
    chosen[rows[whole]] = True
    return chosen, bound


def _try(problem: Problem, kept: Bools, capacity: int, budget: Budget) -> Solution | None:
    """A placement of the kept buffers alone, with offsets for all buffers; None if none is found that fits."""
    rows = np.flatnonzero(kept)
    solution = solve_single(subset(problem, rows), capacity, budget)
    if not solution.fits:
        return None
    offset = np.zeros(len(problem), np.int64)
    offset[rows] = solution.offset
    return replace(solution, offset=offset)


def _place(problem: Problem, chosen: Bools, worth: I64, capacity: int, budget: Budget) -> tuple[Bools, I64]:
    """Leave out more until the rest has a placement."""
    kept = chosen.copy()
    value = worth / np.maximum(problem.size, 1)
    offset = np.zeros(len(problem), np.int64)
    for turn in range(_MAX_REMOVALS + 1):
        rows = np.flatnonzero(kept)
        part = subset(problem, rows)
        solution = solve_single(part, capacity, budget if turn < 8 else budget.without_search())
        offset[:] = 0
        offset[rows] = solution.offset
        if solution.fits:
            break
        high = rows[solution.offset + part.size > capacity]
        if turn == _MAX_REMOVALS:
            kept[high] = False  # the others keep their places
            break
        loose = high[problem.pinned[high] < 0]
        pool = loose if len(loose) else high
        kept[pool[np.lexsort((pool, worth[pool], value[pool]))[0]]] = False
    return kept, offset


def _take_back(problem: Problem, kept: Bools, offset: I64, worth: I64, capacity: int, budget: Budget) -> I64:
    """Add what still fits to `kept`; the offsets."""
    value = worth / np.maximum(problem.size, 1)
    out = np.flatnonzero(problem.occupies & ~kept)
    out = out[np.lexsort((out, -worth[out], -value[out]))][:_MAX_RETURNS]
    for b in out.tolist():
        kept[b] = True
        found = _try(problem, kept, capacity, budget) if _may_fit(problem, kept, capacity) else None
        if found is None:
            kept[b] = False
        else:
            offset = found.offset
    return offset


def _may_fit(problem: Problem, kept: Bools, capacity: int) -> bool:
    """Whether the bytes in use fit at every moment."""
    ranges = np.flatnonzero((problem.upper > problem.lower) & kept[problem.owner])
    time = np.concatenate([problem.upper[ranges], problem.lower[ranges]])
    size = problem.size[problem.owner[ranges]]
    change = np.concatenate([-size, size])[np.argsort(time, kind="stable")]
    return int(np.cumsum(change).max(initial=0)) <= capacity
