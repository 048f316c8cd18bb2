"""The best placement so far, the goal of the search, and when it is over.

Every stage of the search offers placements here and asks `over`. After the first stage there is always a placement,
so a search can end at any moment: by a time limit, by Ctrl-C, by reaching its goal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from haulout.packing.instance import Instance
from haulout.packing.problem import I64


@dataclass(frozen=True, slots=True)
class Progress:
    """What a progress callback gets: best peak and lower bound in bytes, the method, seconds so far."""

    peak: int
    lower_bound: int
    method: str
    seconds: float


@dataclass(slots=True)
class Incumbent:
    """State of one search, in units of `instance`.

    `goal`: a peak that ends the search; `fitting`: it is a capacity, and a proof that nothing fits ends the search
    too. `hint`: offsets in bytes to start from, -1 for none.
    """

    instance: Instance
    goal: int
    bound: int
    fitting: bool = False
    time_limit: float | None = None
    progress: Callable[[Progress], None] | None = None
    hint: I64 | None = None
    offset: I64 | None = None
    peak: int = -1
    method: str = ""
    work: dict[str, int] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def offer(self, offset: I64, peak: int, method: str) -> None:
        """Keep a placement when it is the best so far. `peak` -1: the construction failed."""
        if peak < 0 or (self.offset is not None and peak >= self.peak):
            return
        self.offset, self.peak, self.method = offset.copy(), peak, method
        self.report()

    def raise_bound(self, bound: int) -> None:
        """Record a proof that every peak is at least `bound`."""
        if bound > self.bound:
            self.bound = bound
            if not self.fitting:
                self.goal = bound
            self.report()

    def report(self) -> None:
        """Call the progress callback."""
        if self.progress is not None and self.offset is not None:
            unit = self.instance.unit
            self.progress(Progress(self.peak * unit, self.bound * unit, self.method, self.seconds))

    def count(self, what: str, times: int = 1) -> None:
        """Add to the counters of the solution."""
        self.work[what] = self.work.get(what, 0) + times

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def over(self) -> bool:
        """Whether to stop: the goal is reached or infeasible, or there is a placement and no time left."""
        if self.offset is None:
            return False
        if self.fitting and self.bound > self.goal:
            return True
        return self.peak <= self.goal or (self.time_limit is not None and self.seconds >= self.time_limit)
