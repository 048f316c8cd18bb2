"""What happens at the marks of loops and branches: copies, and the locations that are branched on.

    loop     enter   the initial values go where the state lives
             branch  the header branches on what its condition has written, or, of a ragged loop, on whether it holds
                     on one of the cores
             leave   the new values go where the state lives
    branch   fork    its block branches on what it has written: the predicate, or whether an index is below a limit
             else    the values of the first arm go where the results live
             join    the values of the second arm go there

Most of these copies are none, as arrays share their places (`sharing.py`). A block branches on a location when all
writes of it *in that block* are complete; so where the block computes nothing, that location is a copy. A second arm
without operations and copies needs no block: the fork leads to the join.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeGuard

import numpy as np

from haulout.frontends.hlo.copies import in_sequence
from haulout.frontends.hlo.storage import Copies, Slot, Storage, encode
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, Branch, Loop, Mark, Operation, Stage, Step
from haulout.ir.enums import Kind


def plan_marks(steps: Sequence[Step], storage: Storage) -> None:
    """Fill in what `storage` says of marks; arrays have their homes already."""
    planner = _Planner(storage)
    for step in steps:
        if isinstance(step, Operation):
            planner.here.add(step)
            continue
        storage.copies[step] = planner.copies(step)
        planner.here.clear()
    for step, following in pairwise(steps):
        if _is_mark(step, Stage.ELSE) and _is_mark(following, Stage.JOIN) and not storage.copies[following]:
            storage.one_armed.add(following.branch)


def _is_mark(step: Step, stage: Stage) -> TypeGuard[Mark]:
    return isinstance(step, Mark) and step.stage is stage


class _Planner:
    """Goes from mark to mark."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.here: set[Operation] = set()
        """Operations since the last mark, which are in one block."""
        self._limits: dict[int, Slot] = {}

    def copies(self, mark: Mark) -> Copies:
        region, homes = mark.region, self.storage.homes
        if not mark.decides:
            moved = zip(mark.reads(), mark.targets(), strict=True)
            return in_sequence(((homes[source], homes[target]) for source, target in moved), self.storage.save)
        if isinstance(region, Branch) and region.below is not None:
            self.storage.limits[region] = homes[region.selector.array], self._limit(region, region.below)
        elif not (isinstance(region, Loop) and region.ragged):
            return self._decide(region, *mark.reads())
        self.storage.conditions[region] = self._condition(region)
        return []

    def _decide(self, region: Loop | Branch, predicate: Array) -> Copies:
        """Branch on the predicate's own location, or on a copy."""
        home = self.storage.homes[predicate]
        if predicate.producer in self.here:
            self.storage.conditions[region] = home
            return []
        target = self.storage.conditions[region] = self._condition(region)
        return [(home, target)]

    def _condition(self, region: Loop | Branch) -> Slot:
        source = region.instruction
        part = f".{region.part}" if isinstance(region, Branch) and region.part else ""
        return self.storage.add(f"{source.name}{part}.cond", Kind.INTERNAL, Shape("pred", ()), source)

    def _limit(self, branch: Branch, value: int) -> Slot:
        """A constant, one for all branches that need it."""
        if value not in self._limits:
            data = [encode(np.uint32(value))]
            slot = self.storage.add(f"below.{value}", Kind.CONST, Shape("u32", ()), branch.instruction, data)
            self._limits[value] = slot
        return self._limits[value]
