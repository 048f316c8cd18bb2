"""Offline storage allocation, as a library of its own: buffers with live ranges, into as few bytes as can be.

`plan` takes columns and gives offsets; `solve` takes a `Problem`. The recipe is in `plan.py`; what may be asked for
besides (pools, aliases, in-place pairs, equal offsets) in `rules.py`. `violations` is the validator.
"""

from haulout.packing.bound import Bound, lower_bound
from haulout.packing.incumbent import Progress
from haulout.packing.overflow import over_capacity
from haulout.packing.plan import plan, solve
from haulout.packing.problem import LIMIT, Problem
from haulout.packing.rules import Pool, Rules
from haulout.packing.solution import PoolUse, Solution, Status
from haulout.packing.validate import violations

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
