"""The report when a placement does not fit: what is needed, when, by whom, and what is free there.

With a bound above the capacity the moment is where the bound is reached: what is live then cannot fit together,
whatever the placement. Otherwise it is the moment at which the best placement found stands highest.
"""

from __future__ import annotations

import numpy as np

from haulout.passes.allocator.bound import live_at, lower_bound
from haulout.passes.allocator.problem import I64, Problem
from haulout.passes.allocator.solution import Solution, Status
from haulout.support.diagnostics import Diagnostic, Label, Severity

_SHOWN = 12


def over_capacity(problem: Problem, solution: Solution) -> Diagnostic:
    """The diagnostic `over-capacity` of a solution that exceeds its capacity."""
    assert solution.capacity is not None
    bound = lower_bound(problem)
    hard = bound.size > solution.capacity and bound.moment is not None
    top = int(np.argmax(np.where(problem.occupies, solution.offset + problem.size, -1)))
    start = int(problem.lower[np.searchsorted(problem.owner, top)])
    moment = bound.moment if hard and bound.moment is not None else start
    live = live_at(problem, moment)
    hole = largest_hole(problem, solution.offset, live, solution.capacity)
    proved = "cannot fit" if solution.status is Status.INFEASIBLE else "no placement found that fits"
    size = problem.reserved
    biggest = live[np.lexsort((live, -size[live]))]
    too_many = np.flatnonzero(np.cumsum(size[biggest]) > solution.capacity)
    crowd = f"; the {too_many[0] + 1} largest of them do not fit together" if len(too_many) else ""
    shown = [Label(f"buffer {b}: {size[b]} bytes") for b in biggest[:_SHOWN].tolist()]
    if len(live) > _SHOWN:
        shown.append(Label(f"and {len(live) - _SHOWN} smaller buffers"))
    return Diagnostic(
        "over-capacity",
        Severity.ERROR,
        f"{proved}: the best placement needs {solution.peak} bytes, the capacity is {solution.capacity}",
        tuple(shown),
        (
            f"every placement needs at least {solution.lower_bound} bytes",
            f"at time {moment}, {len(live)} buffers of {int(size[live].sum())} bytes are live{crowd}",
            f"the largest hole at that time is {hole} bytes",
        ),
        (f"shorten or shrink a buffer that is live at time {moment}",),
    )


def largest_hole(problem: Problem, offset: I64, live: I64, capacity: int) -> int:
    """The longest run of bytes below `capacity` that none of the `live` buffers takes."""
    order = live[np.argsort(offset[live], kind="stable")]
    end, hole = 0, 0
    for b in order.tolist():
        hole = max(hole, min(int(offset[b]), capacity) - end)
        end = max(end, int(offset[b]) + int(problem.size[b]))
    return max(hole, capacity - end)
