"""The structure of a function as a list of steps, for kernels: events, and where forks and loops begin and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from haulout.checker.flow.constants import Settled
from haulout.ir.enums import NONE
from haulout.ir.schema import Column, Ids
from haulout.ir.structure import Fork, Loop, Structure

EVENTS, FORK, ELSE, JOIN, LOOP, LATCH, EXIT, SPLIT, PART, MERGE = range(10)
"""Kinds of steps. From `SPLIT` to `MERGE` the arms of all cores are walked in parts."""

Cuts = Sequence[Sequence[Sequence[int]]]
"""Of each arm of a fork, on each core: its meetings, as events in list order."""


class Steps:
    """The steps of a function, where `schedule` lists the events of each block; `begin` is the first event of each
    core in each block. Forks with cuts are walked in parts: for their arms this makes the schedule.
    """

    def __init__(
        self, structure: Structure, settled: Settled, begin: Column, schedule: Ids, cuts: Mapping[int, Cuts]
    ) -> None:
        self.structure, self.settled = structure, settled
        self.begin, self.schedule, self.cuts = begin, schedule, cuts
        self.before = begin.sum(axis=0) - begin[:, 0].sum()
        self.window: tuple[int, int, int] | None = None
        """Of a part of an arm: its events, from and until, and how far they are from their places in the schedule."""
        self.rows: list[tuple[int, int, int, int]] = []
        self.loops: list[tuple[int, int, int, int]] = []
        self.forks: list[tuple[int, int, int, int]] = []
        self._sequence(range(len(structure.region_of)), NONE)

    def columns(self) -> tuple[Column, Column, Column]:
        """Steps, loops and forks, as `Text` has them."""
        parts = self.rows, self.loops, self.forks
        steps, loops, forks = (np.array(each, np.int32).reshape(-1, 4) for each in parts)
        return steps, loops, forks

    def _events(self, block: int, core: int) -> None:
        if self.window is not None:
            low, high, shift = self.window
            first, end = max(int(self.begin[core, block]), low), min(int(self.begin[core, block + 1]), high)
            if end > first:
                self.rows.append((EVENTS, first + shift, end + shift, NONE))
            return
        first, end = int(self.before[block]), int(self.before[block + 1])
        if core != NONE:  # listed core after core
            size = self.begin[:, block + 1] - self.begin[:, block]
            first += int(size[:core].sum())
            end = first + int(size[core])
        if end > first:
            self.rows.append((EVENTS, first, end, NONE))

    def _elsewhere(self, core: int, begin: int, end: int) -> bool:
        """Whether the events of a core in some blocks are in another part of the arm."""
        if self.window is None:
            return False
        first, last = int(self.begin[core, begin]), int(self.begin[core, end])
        return first == last or not self.window[0] <= first < self.window[1]

    def _sequence(self, blocks: range, core: int) -> None:
        for item in self.structure.items(blocks.start, blocks.stop):
            if isinstance(item, Loop):
                if not self._elsewhere(core, item.begin, item.end):
                    self._loop(item, core)
            elif isinstance(item, Fork):
                if self._elsewhere(core, item.block + 1, item.join):
                    continue
                number = self.structure.fork_at[item.block]
                if number in self.cuts:
                    self._parts(item, self.cuts[number])
                    continue
                alone = item.divergent and core == NONE
                for each in range(len(self.begin)) if alone else (core,):
                    if (side := self.settled.side(number, each)) != NONE:
                        self._sequence(item.sides[side], each)
                    else:
                        self._fork(item, each)
            else:
                self._events(item, core)

    def _fork(self, fork: Fork, core: int) -> None:
        number = len(self.forks)
        self.forks.append((fork.block + 1, fork.middle, fork.join, core))
        self.rows.append((FORK, number, core, NONE))
        self._sequence(fork.sides[0], core)
        self.rows.append((ELSE, number, core, NONE))
        self._sequence(fork.sides[1], core)
        self.rows.append((JOIN, number, core, NONE))

    def _loop(self, loop: Loop, core: int) -> None:
        number = len(self.loops)
        self.loops.append((loop.begin, loop.end, loop.trip, core))
        self.rows.append((LOOP, number, core, NONE))
        if loop.trip:  # else the body never runs, and the header does once
            self._events(loop.header, core)
            self._sequence(loop.body, core)
        self.rows.append((LATCH, number, core, NONE))
        self._events(loop.header, core)
        self.rows.append((EXIT, number, core, NONE))

    def _parts(self, fork: Fork, cuts: Cuts) -> None:
        """Both arms on all cores until their first meeting, that meeting, and so on."""
        number, cores = len(self.forks), range(len(self.begin))
        self.forks.append((fork.block + 1, fork.middle, fork.join, NONE))
        self.rows.append((SPLIT, number, NONE, NONE))
        at = int(self.before[fork.block + 1])
        for meeting in range(len(cuts[0][0]) + 1):
            for side, blocks in enumerate(fork.sides):
                for core in cores:
                    low, high = (int(self.begin[core, block]) for block in (blocks.start, blocks.stop))
                    low = cuts[side][core][meeting - 1] + 1 if meeting else low
                    high = cuts[side][core][meeting] if meeting < len(cuts[0][0]) else high
                    self.schedule[at : at + high - low] = np.arange(low, high)
                    self.rows.append((PART, number, core, side))
                    self.window = low, high, at - low
                    self._sequence(blocks, core)
                    at += high - low
            if meeting < len(cuts[0][0]):
                met = [each[meeting] for side in cuts for each in side]
                self.schedule[at : at + len(met)] = met
                self.rows.append((EVENTS, at, at + len(met), NONE))
                at += len(met)
        self.window = None
        self.rows.append((MERGE, number, NONE, NONE))
