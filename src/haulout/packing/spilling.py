"""Which buffers to leave out of a small memory, so that the others fit and the most weight is kept.

    problem   -> choice      at every moment the kept bytes fit the capacity: an integer program, solved by HiGHS
    choice    -> refused     if the planner proves that a choice has no placement, the program gets a constraint: one
                             of its buffers goes; then it is solved again
    choice    -> placement   the planner; while it does not fit, a buffer that ends too high goes, the lightest one
    placement -> choice      what was left out is tried again, the heaviest for its size first, also for a lighter one

The bound is that of the integer program: no placement keeps more. Between it and the result are what HiGHS leaves
open within its limits, buffers that fit at every moment and have no common placement, and what the search misses.
Pinned buffers stay, unless they alone do not fit.

A program with very many coefficients is solved for shares of buffers, once; the greatest shares that fit are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from haulout.packing.conflict_set import conflict_set, subset
from haulout.packing.problem import I64, Column, Problem
from haulout.packing.rules import check_bytes
from haulout.packing.single import Budget, check_pins, solve_single
from haulout.packing.solution import Solution, Status
from haulout.support.c_output import c_output_to_stderr
from haulout.support.diagnostics import bad_input

Bools = NDArray[np.bool_]

_GAP = 0.004
"""HiGHS stops when the choice is so near to its bound,"""
_ROWS_OF_NODES = 600
"""or after so many nodes of its tree, over the number of buffers: a count, so that the result depends on no time."""
_MAX_INTEGER = 300_000
"""Coefficients of an integer program; one of so many takes a second."""
_MAX_REFUSED = 40
"""Choices that are proved to have no placement."""
_MAX_PROVED = 24
"""With more buffers in a choice, no proof is searched: it takes long, and one constraint says little."""
_NEAR = 0.99
"""A placement that keeps so much of its choice ends the search for others."""
_MAX_LIMIT = 1 << 20
"""Units of capacity in a program; tolerances of HiGHS are absolute."""
_SHARES = (0.96,)
"""Of the capacity, for which other choices are made."""
_MAX_REMOVALS = 200
_MAX_RETURNS = 20
"""Placements that are searched for buffers that were left out."""
_MAX_SWAPS = 8
"""Lighter buffers that are left out instead, one at a time."""


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
    whole = _try(problem, live, capacity, budget) if _may_fit(problem, live, capacity) else None
    total = int(worth.sum())
    if whole is not None:
        return Spill(np.ones(len(problem), bool), whole.offset, total, float(total), total)
    possible = np.flatnonzero(live & (np.maximum(problem.pinned, 0) <= capacity - problem.size))
    free_worth = int(worth[~live].sum())
    quick = Budget(effort=0.02 * effort)
    model = _Model.of(problem, possible, worth, capacity)
    chosen, bound = model.solve()
    for _ in range(_MAX_REFUSED):
        refused = _refused(problem, chosen, capacity, quick)
        if refused is None:
            break
        model.refuse(refused)
        chosen, bound = model.solve()
    kept, offset = _place(problem, chosen, worth, capacity, quick)
    for share in _SHARES:  # fewer buffers leave space for a placement, which the others then fill
        if worth[kept].sum() >= _NEAR * worth[chosen].sum():
            break
        other = _place(problem, model.solve(share)[0], worth, capacity, quick)
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
    last = np.append(np.diff(deaths) > 0, True)[: len(moments)]
    moments = moments[last]
    first, end = np.searchsorted(moments, lower), np.searchsorted(moments, upper)
    count = end - first
    at = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    return at, np.repeat(np.searchsorted(rows, problem.owner[ranges]), count)


@dataclass(slots=True)
class _Model:
    """The integer program: keep `rows` or not; at no moment more bytes than fit.

    `at`, `who`: the coefficients, of moments and positions in `rows`. `refusals`: not all of these are kept.
    """

    problem: Problem
    rows: I64
    price: NDArray[np.float64]
    load: NDArray[np.float64]
    limit: float
    at: I64
    who: I64
    refusals: list[I64]

    @classmethod
    def of(cls, problem: Problem, rows: I64, worth: I64, capacity: int) -> _Model:
        at, who = _columns(problem, rows)
        # The topmost buffer may leave bytes of its last unit unused, so the program counts sizes, not reserved bytes.
        # In units that divide all sizes, numbers are small and sums exact.
        unit = max(int(np.gcd.reduce(problem.size[rows])), 1)
        scale = max(1.0, capacity // unit / _MAX_LIMIT)
        size = (problem.size[rows] // unit).astype(np.float64) / scale
        return cls(problem, rows, worth[rows].astype(np.float64), size[who], capacity // unit / scale, at, who, [])

    def refuse(self, buffers: I64) -> None:
        """From now on, one of `buffers` is left out."""
        self.refusals.append(np.searchsorted(self.rows, buffers))

    def solve(self, share: float = 1.0) -> tuple[Bools, float]:
        """Buffers whose bytes fit `share` of the capacity at every moment, and the most that any choice keeps."""
        chosen = np.zeros(len(self.problem), bool)
        if not len(self.rows):
            return chosen, 0.0
        from scipy import optimize
        from scipy.sparse import csr_array

        moments = int(self.at.max(initial=-1)) + 1
        counts = [len(each) for each in self.refusals]
        matrix = csr_array(
            (
                np.concatenate([self.load, np.ones(sum(counts))]),
                (
                    np.concatenate([self.at, moments + np.repeat(np.arange(len(counts)), counts)]),
                    np.concatenate([self.who, *self.refusals]),
                ),
            ),
            shape=(moments + len(counts), len(self.rows)),
        )
        limit = np.concatenate(
            [
                np.full(moments, np.floor(share * self.limit) if share < 1.0 else self.limit),
                np.array(counts, np.float64) - 1,
            ]
        )
        scale = max(float(self.price.max()), 1.0)
        pins = self.problem.pinned[self.rows] >= 0
        whole = len(self.load) <= _MAX_INTEGER
        nodes = max(1, _ROWS_OF_NODES // len(self.rows))
        solver: Any = optimize.milp  # its types know no sparse matrices
        with c_output_to_stderr():  # HiGHS prints remarks on its heuristics
            found = solver(
                -self.price / scale,
                integrality=np.full(len(self.rows), int(whole)),
                bounds=optimize.Bounds(pins.astype(np.float64), 1),
                constraints=optimize.LinearConstraint(matrix, -np.inf, limit),
                options={"mip_rel_gap": _GAP, "node_limit": nodes, "presolve": False} if whole else {},
            )
        every = float(self.price.sum())
        if found.x is None:
            return chosen, every
        best = -(found.mip_dual_bound if whole else found.fun) * scale
        part = np.clip(found.x, 0.0, 1.0)
        room = limit.copy()
        columns = matrix.tocsc()
        for k in np.lexsort((np.arange(len(part)), -self.price, -part, ~pins)).tolist():
            if part[k] < 1e-6:
                break
            mine = slice(columns.indptr[k], columns.indptr[k + 1])
            if (columns.data[mine] <= room[columns.indices[mine]] + 1e-6).all():
                room[columns.indices[mine]] -= columns.data[mine]
                chosen[self.rows[k]] = True
        return chosen, min(every, best * (1 + 1e-9))


def _refused(problem: Problem, chosen: Bools, capacity: int, budget: Budget) -> I64 | None:
    """Buffers of the choice that provably do not fit together; None if that is not known."""
    rows = np.flatnonzero(chosen)
    if len(rows) > _MAX_PROVED:
        return None
    part = subset(problem, rows)
    if solve_single(part, capacity, budget).status is not Status.INFEASIBLE:
        return None
    found = conflict_set(part, capacity, True)
    return None if found is None else rows[list(found.buffers)]


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
    """Add to `kept` what still fits, or what fits in the place of a lighter buffer; the offsets."""
    value = worth / np.maximum(problem.size, 1)
    out = np.flatnonzero(problem.occupies & ~kept)
    tries = 0
    for b in out[np.lexsort((out, -worth[out], -value[out]))].tolist():
        lighter = np.flatnonzero(kept & problem.occupies & (worth < worth[b]) & (problem.pinned < 0))
        lighter = lighter[np.lexsort((lighter, worth[lighter]))][:_MAX_SWAPS]
        for goes in (None, *lighter.tolist()):
            other = kept.copy()
            other[b] = True
            if goes is not None:
                other[goes] = False
            if tries == _MAX_RETURNS or not _may_fit(problem, other, capacity):
                continue
            tries += 1
            found = _try(problem, other, capacity, budget)
            if found is not None:
                kept[:] = other
                offset = found.offset
                break
    return offset


def _may_fit(problem: Problem, kept: Bools, capacity: int) -> bool:
    """Whether the bytes in use fit at every moment."""
    ranges = np.flatnonzero((problem.upper > problem.lower) & kept[problem.owner])
    time = np.concatenate([problem.upper[ranges], problem.lower[ranges]])
    size = problem.size[problem.owner[ranges]]
    change = np.concatenate([-size, size])[np.argsort(time, kind="stable")]
    return int(np.cumsum(change).max(initial=0)) <= capacity
