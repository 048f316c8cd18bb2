"""Offline storage allocation, a library of its own: place buffers with live ranges in as few bytes as possible.

`plan` takes columns and returns offsets; `solve` takes a `Problem`; `violations` validates a placement. `plan.py` is
the recipe, `rules.py` has the other constraints: pools, aliases, in-place pairs, equal offsets. docs/packing.md is
the front page.
"""

from haulout.packing.bound import Bound, lower_bound
from haulout.packing.incumbent import Progress
from haulout.packing.overflow import over_capacity
from haulout.packing.plan import plan, solve
from haulout.packing.problem import LIMIT, Problem
from haulout.packing.rules import Pool, Rules
from haulout.packing.solution import PoolUse, Solution, Status
from haulout.packing.spill import Spill, spill
from haulout.packing.tiers import Tiers, solve_tiers
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
    "Spill",
    "Status",
    "Tiers",
    "lower_bound",
    "over_capacity",
    "plan",
    "solve",
    "solve_tiers",
    "spill",
    "violations",
]
