"""Offline storage allocation, as a library of its own: buffers with live ranges, into as few bytes as can be.

`plan` takes columns and gives offsets; `solve` takes a `Problem`. The recipe is in `plan.py`; what may be asked for
besides (pools, aliases, in-place pairs, equal offsets) in `rules.py`. `violations` is the validator.
"""

from haulout.passes.allocator.bound import Bound, lower_bound
from haulout.passes.allocator.incumbent import Progress
from haulout.passes.allocator.overflow import over_capacity
from haulout.passes.allocator.plan import plan, solve
from haulout.passes.allocator.problem import LIMIT, Problem
from haulout.passes.allocator.rules import Pool, Rules
from haulout.passes.allocator.solution import PoolUse, Solution, Status
from haulout.passes.allocator.validate import violations

__all__ = [
    "LIMIT",
    "Bound",
    "Pool",
    "PoolUse",
    "Problem",
    "Progress",
    "Rules",
    "Solution",
    "Status",
    "lower_bound",
    "over_capacity",
    "plan",
    "solve",
    "violations",
]
