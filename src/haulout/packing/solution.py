"""The answer: offsets, how good they are, and what is proved."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from haulout.packing.problem import I64


class Status(enum.StrEnum):
    """What is known about a placement."""

    OPTIMAL = "optimal"  # the peak equals a lower bound, so no placement is smaller
    FEASIBLE = "feasible"  # it fits, and may not be the smallest
    INFEASIBLE = "infeasible"  # proved: nothing fits the capacity; the offsets are the best without it
    UNSOLVED = "unsolved"  # nothing found that fits the capacity, and no proof; the offsets are the best without it


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What one pool holds, in bytes: where its highest buffer ends, and what every placement needs there.

    `lower_bound` is of the buffers that were put into this pool; others may have had a choice.
    """

    name: str
    peak: int
    lower_bound: int
    capacity: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A placement. `peak`, `lower_bound` and `capacity` are bytes.

    `peak` is where the highest buffer ends, its size as reserved; with several pools, the sum over them. `work`
    counts what the search did (dives, best fits, nodes of the branch and bound, ...); `interrupted` tells that
    Ctrl-C ended it. `pool` is the pool of each buffer, `pools` what each holds; `in_place` are the pairs of the
    problem whose output took over its input's storage; `reuse_pairs` counts the pairs of buffers that share bytes
    at different times, where spare memory was spent on avoiding them (else None).
    """

    offset: I64
    peak: int
    lower_bound: int
    status: Status
    capacity: int | None = None
    method: str = ""
    work: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    pool: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    pools: tuple[PoolUse, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    reuse_pairs: int | None = None

    @property
    def ratio(self) -> float:
        """Peak over lower bound; 1.0 is perfect."""
        return self.peak / self.lower_bound if self.lower_bound else 1.0

    @property
    def fits(self) -> bool:
        """Whether the placement is within the capacity (or there is none)."""
        return self.status in (Status.OPTIMAL, Status.FEASIBLE)
