"""The result: offsets, their quality, and what is proved."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from haulout.packing.problem import I64


class Status(enum.StrEnum):
    """What is known about a placement."""

    OPTIMAL = "optimal"  # the peak equals a lower bound, so no placement is smaller
    FEASIBLE = "feasible"  # it fits; a smaller one may exist
    INFEASIBLE = "infeasible"  # proved: no placement fits the capacity; the offsets ignore it
    UNSOLVED = "unsolved"  # no placement found that fits the capacity, no proof; the offsets ignore it


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The use of one pool, in bytes: the end of its highest buffer, and a lower bound for the buffers in it.

    Another assignment of buffers to pools may have another bound.
    """

    name: str
    peak: int
    lower_bound: int
    capacity: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A placement. `peak`, `lower_bound` and `capacity` are bytes.

    `peak` is the end of the highest buffer, its size as reserved; with several pools, the sum over them. `work`
    counts the steps of the search (dives, best fits, nodes of branch and bound, ...); `interrupted`: Ctrl-C ended it.
    `pool` is the pool of each buffer, `pools` the use of each; `in_place` are the pairs of the problem whose output
    took over its input's storage; `reuse_pairs`, with `spread`, counts the pairs of buffers that share bytes at
    different times.
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
        """Whether the placement is within the capacity, if there is one."""
        return self.status in (Status.OPTIMAL, Status.FEASIBLE)
