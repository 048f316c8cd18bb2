"""The answer: offsets, how good they are, and what is proved."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from haulout.passes.allocator.problem import I64


class Status(enum.StrEnum):
    """What is known about a placement."""

    OPTIMAL = "optimal"  # the peak equals a lower bound, so no placement is smaller
    FEASIBLE = "feasible"  # it fits, and may not be the smallest
    INFEASIBLE = "infeasible"  # proved: nothing fits the capacity; the offsets are the best without it
    UNSOLVED = "unsolved"  # nothing found that fits the capacity, and no proof; the offsets are the best without it


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A placement. `peak`, `lower_bound` and `capacity` are bytes.

    `peak` is where the highest buffer ends, its size as reserved. `work` counts what the search did (dives,
    best fits, nodes of the branch and bound, ...); `interrupted` tells that Ctrl-C ended it.
    """

    offset: I64
    peak: int
    lower_bound: int
    status: Status
    capacity: int | None = None
    method: str = ""
    work: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def ratio(self) -> float:
        """Peak over lower bound; 1.0 is perfect."""
        return self.peak / self.lower_bound if self.lower_bound else 1.0

    @property
    def fits(self) -> bool:
        """Whether the placement is within the capacity (or there is none)."""
        return self.status in (Status.OPTIMAL, Status.FEASIBLE)
