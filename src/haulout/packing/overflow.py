"""The diagnostic of a placement that does not fit: which bytes are needed, when, and for which buffers.

It describes the first pool that overflows. It lists a set of buffers that cannot fit together, when one is known
(`conflict_set.py`). Its moment is the one with the most live bytes, if these exceed the capacity; otherwise a moment
at which the topmost buffer of the best placement is live.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from haulout.packing.bound import live_at, lower_bound
from haulout.packing.conflict_set import conflict_set, subset
from haulout.packing.problem import I64, Problem
from haulout.packing.solution import Solution, Status
from haulout.packing.storages import merge
from haulout.support.diagnostics import Diagnostic, Label, Severity

_MAX_LISTED = 12


def over_capacity(problem: Problem, solution: Solution, names: Sequence[str] | None = None) -> Diagnostic:
    """The diagnostic `over-capacity` of a solution that exceeds a capacity. `names`: of the buffers."""
    rules = problem.rules
    number = _first_overflow(problem, solution)
    pool = rules.pools[number]
    use = solution.pools[number]
    capacity = use.capacity
    assert capacity is not None
    members, part, offset = _part(problem, solution, number)
    infeasible = solution.status is Status.INFEASIBLE
    sure = infeasible or use.lower_bound > capacity
    whole = problem.window_low is None
    found = conflict_set(part, capacity, proved=sure and rules.trivial) if whole else None

    bound = lower_bound(part)
    top = int(np.argmax(np.where(part.occupies, offset + part.size, -1)))
    hard = bound.size > capacity and bound.moment is not None
    moment = bound.moment if hard and bound.moment is not None else int(part.lower[np.searchsorted(part.owner, top)])
    live = live_at(part, moment)

    def name(b: int) -> str:
        return f"buffer {members[b] if names is None else names[members[b]]}"

    size = part.reserved
    biggest = live[np.lexsort((live, -size[live]))].tolist()
    listed = list(found.buffers) if found is not None else biggest
    labels = [Label(f"{name(b)}: {size[b]} bytes") for b in listed[:_MAX_LISTED]]
    if len(listed) > _MAX_LISTED:
        labels.append(Label(f"and {len(listed) - _MAX_LISTED} more buffers"))
    where = f" in pool {pool.name}" if len(rules.pools) > 1 else ""
    choice = any(len(rules.pools_of(int(b))) > 1 for b in members.tolist())
    notes = [
        f"every placement needs at least {use.lower_bound} bytes" + (" of these buffers" if choice else ""),
        f"at time {moment}, {len(live)} buffers of {int(size[live].astype(object).sum())} bytes are live",
        f"the largest hole at that time is {largest_hole(part, offset, live, capacity)} bytes",
    ]
    if found is not None:
        notes.append(_describe(len(found.buffers), found.minimal))
    verdict = "the buffers cannot fit" if infeasible else "no placement found that fits"
    return Diagnostic(
        "over-capacity",
        Severity.ERROR,
        f"{verdict}{where}: the best placement needs {use.peak} bytes, the capacity is {capacity}",
        tuple(labels),
        tuple(notes),
        (f"shorten or shrink a buffer that is live at time {moment}",),
    )


def _describe(count: int, minimal: bool) -> str:
    """The note on the listed buffers."""
    if count == 1:
        return "the listed buffer does not fit by itself"
    if not minimal:
        return f"the {count} listed buffers cannot fit together"
    return f"the {count} listed buffers cannot fit together; no smaller part of them is known to be too large"


def _first_overflow(problem: Problem, solution: Solution) -> int:
    end = solution.offset + problem.size
    for number, use in enumerate(solution.pools):
        mine = problem.occupies & (solution.pool == number)
        if use.capacity is not None and bool((end[mine] > use.capacity).any()):
            return number
    return 0


def _part(problem: Problem, solution: Solution, number: int) -> tuple[I64, Problem, I64]:
    """The contents of a pool: a buffer for each storage, the problem of these storages, their offsets."""
    if problem.rules.trivial:
        return np.arange(len(problem)), problem, solution.offset
    storages = merge(problem, solution.in_place)
    first = np.unique(storages.of, return_index=True)[1]
    mine = np.flatnonzero(solution.pool[first] == number)
    return first[mine], subset(storages.problem, mine), solution.offset[first[mine]]


def largest_hole(problem: Problem, offset: I64, live: I64, capacity: int) -> int:
    """The longest interval of bytes below `capacity` that the `live` buffers leave free."""
    order = live[np.argsort(offset[live], kind="stable")]
    end, hole = 0, 0
    for b in order.tolist():
        hole = max(hole, min(int(offset[b]), capacity) - end)
        end = max(end, int(offset[b]) + int(problem.size[b]))
    return max(hole, capacity - end)
