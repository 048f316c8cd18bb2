"""A minimal set of buffers that cannot fit together, for the report of a problem that is over capacity.

If more bytes than the capacity are live at one moment, the set has the largest buffers of that moment, as many as
exceed the capacity. Otherwise, if branch and bound proved the problem infeasible, buffers are removed as long as the
rest is provably infeasible: first in large parts, then one by one. In both cases no proper subset is known to be
infeasible. The second method stops after a number of proofs and then says that the set may not be minimal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from haulout.packing.bound import live_at, lower_bound
from haulout.packing.problem import I64, Problem
from haulout.packing.single import Budget, solve_single
from haulout.packing.solution import Status

_MAX_PROOFS = 120
_MAX_BUFFERS = 400
"""With more buffers, no set is searched by proofs."""


@dataclass(frozen=True, slots=True)
class ConflictSet:
    """Buffers that cannot fit together, ascending; `minimal`: no proper subset is known not to fit."""

    buffers: tuple[int, ...]
    minimal: bool
    moment: int | None
    """When they are live together, if there is such a moment."""


def conflict_set(problem: Problem, capacity: int, proved: bool) -> ConflictSet | None:
    """A set of buffers that does not fit `capacity`, or None when none is known.

    `proved`: whether the whole problem is known not to fit. The rules of the problem are ignored.
    """
    alone = np.flatnonzero(problem.occupies & (np.maximum(problem.pinned, 0) > capacity - problem.size))
    if len(alone):
        return ConflictSet((int(alone[0]),), True, None)
    bound = lower_bound(problem)
    if bound.moment is not None:
        crowd = _crowd(problem, live_at(problem, bound.moment), capacity)
        if crowd is not None:
            return ConflictSet(crowd, True, bound.moment)
    if not proved or len(problem) > _MAX_BUFFERS:
        return None
    return _by_proofs(problem, capacity)


def _crowd(problem: Problem, live: I64, capacity: int) -> tuple[int, ...] | None:
    """The fewest of the buffers `live` at one moment that exceed the capacity, the largest of them."""
    order = live[np.lexsort((live, -problem.reserved[live]))]
    spare = np.maximum.accumulate(
        problem.reserved[order] - problem.size[order]
    )  # the unused bytes of the topmost one
    too_many = np.flatnonzero(np.cumsum(problem.reserved[order].astype(object)) - spare > capacity)
    if not len(too_many):
        return None
    chosen = order[: int(too_many[0]) + 1]
    if (problem.alignment[chosen] == problem.granule).all() and spare[len(chosen) - 1] == 0:
        return tuple(np.sort(chosen).tolist())
    # With unused bytes in the topmost unit, or gaps between alignments, fewer buffers may be enough.
    for b in chosen[::-1][:_MAX_PROOFS].tolist():
        rest = np.sort(chosen[chosen != b])
        if _exceeds(problem, rest, capacity) or _is_refused(problem, rest, capacity):
            chosen = chosen[chosen != b]
    return tuple(np.sort(chosen).tolist())


def _exceeds(problem: Problem, chosen: I64, capacity: int) -> bool:
    """Whether buffers side by side end above the capacity in every order."""
    granule = int(np.gcd.reduce(problem.alignment[chosen])) if len(chosen) else 1
    size = problem.size[chosen].tolist()
    reserved = [-(-each // granule) * granule for each in size]
    spared = max((r - s for r, s in zip(reserved, size, strict=True)), default=0)
    return bool(sum(reserved) - spared > capacity)


def _by_proofs(problem: Problem, capacity: int) -> ConflictSet:
    kept = np.flatnonzero(problem.occupies)
    proofs = 0
    part = max(len(kept) // 2, 1)
    while True:
        at = 0
        while at < len(kept) and proofs < _MAX_PROOFS:
            rest = np.concatenate([kept[:at], kept[at + part :]])
            proofs += 1
            if _is_refused(problem, rest, capacity):
                kept = rest
            else:
                at += part
        if part == 1 or proofs >= _MAX_PROOFS:
            break
        part = max(part // 2, 1)
    return ConflictSet(tuple(kept.tolist()), proofs < _MAX_PROOFS, None)


def _is_refused(problem: Problem, buffers: I64, capacity: int) -> bool:
    """Whether these buffers alone provably do not fit."""
    solution = solve_single(subset(problem, buffers), capacity, Budget(effort=0.1))
    return solution.status is Status.INFEASIBLE


def subset(problem: Problem, buffers: I64) -> Problem:
    """The problem of some buffers, ascending, without its rules."""
    ranges = np.flatnonzero(np.isin(problem.owner, buffers))
    return replace(
        Problem.of([], [], []),
        lower=problem.lower[ranges],
        upper=problem.upper[ranges],
        owner=np.searchsorted(buffers, problem.owner[ranges]),
        size=problem.size[buffers],
        alignment=problem.alignment[buffers],
        pinned=problem.pinned[buffers],
        segment=problem.segment[buffers],
    )
