"""Offline storage allocation, a library of its own: place buffers with live ranges in as few bytes as possible.

`plan` takes columns and returns offsets; `solve` takes a `Problem`, `sweep` many; `violations` validates a placement.
`plan.py` is the recipe, `rules.py` has the other constraints: pools, aliases, in-place pairs, equal offsets.
docs/packing.md is the front page.

What few callers need is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from haulout.packing.bound import Bound, lower_bound
from haulout.packing.incumbent import Progress
from haulout.packing.plan import plan, solve
from haulout.packing.problem import LIMIT, Problem
from haulout.packing.rules import Pool, Rules
from haulout.packing.solution import PoolUse, Solution, Status
from haulout.packing.validate import violations

if TYPE_CHECKING:
    from haulout.packing.overflow import over_capacity
    from haulout.packing.spilling import Spill, spill
    from haulout.packing.sweeps import SweepRow, sweep
    from haulout.packing.tiers import Tiers, solve_tiers

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
    "SweepRow",
    "Tiers",
    "lower_bound",
    "over_capacity",
    "plan",
    "solve",
    "solve_tiers",
    "spill",
    "sweep",
    "violations",
]

_LATER = {
    "Spill": "haulout.packing.spilling",
    "SweepRow": "haulout.packing.sweeps",
    "Tiers": "haulout.packing.tiers",
    "over_capacity": "haulout.packing.overflow",
    "solve_tiers": "haulout.packing.tiers",
    "spill": "haulout.packing.spilling",
    "sweep": "haulout.packing.sweeps",
}
"""Where the other names are defined."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
