"""Offline storage allocation, as a library of its own: buffers with live ranges, into as few bytes as can be.

`plan` takes columns and gives offsets; `solve` takes a `Problem`. The recipe is in `plan.py`.
"""

from haulout.passes.allocator.bound import Bound, lower_bound
from haulout.passes.allocator.incumbent import Progress
from haulout.passes.allocator.plan import plan, solve
from haulout.passes.allocator.problem import LIMIT, Problem
from haulout.passes.allocator.solution import Solution, Status
from haulout.passes.allocator.validate import violations

__all__ = [
    "LIMIT",
    "Bound",
    "Problem",
    "Progress",
    "Solution",
    "Status",
    "lower_bound",
    "plan",
    "solve",
    "violations",
]
