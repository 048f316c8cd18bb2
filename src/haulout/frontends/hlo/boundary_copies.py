"""Copies at the boundaries of loops and branches, and the locations that blocks branch on.

    loop     enter   copies the initial values to the location of the state
             branch  the header branches on the condition; in a divergent loop, on the condition of any core
             leave   copies the new values to the location of the state
    branch   fork    the block branches on a predicate, or on whether an index is below a limit
             else    copies the values of the first arm to the location of the results
             join    copies the values of the second arm there

Most of these copies are not needed, because coalesced arrays share a location (`coalescing.py`). A block branches on
a location when all writes of it *in that block* are complete. If the block computes nothing, that location is a copy.
A second arm without operations and copies needs no block: the fork branches to the join.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeGuard

import numpy as np

from haulout.frontends.hlo.parallel_copies import sequentialize
from haulout.frontends.hlo.storage import Copies, Slot, Storage, encode
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, Boundary, Branch, Loop, Operation, Stage, Step
from haulout.ir.enums import Kind


def plan_boundaries(steps: Sequence[Step], storage: Storage) -> None:
    """Fill in what `storage` has for boundaries. Arrays have their homes already."""
    planner = _Planner(storage)
    for step in steps:
        if isinstance(step, Operation):
            planner.here.add(step)
            continue
        storage.copies[step] = planner.copies(step)
        planner.here.clear()
    for step, following in pairwise(steps):
        if _is_boundary(step, Stage.ELSE) and _is_boundary(following, Stage.JOIN) and not storage.copies[following]:
            storage.one_armed.add(following.branch)


def _is_boundary(step: Step, stage: Stage) -> TypeGuard[Boundary]:
    return isinstance(step, Boundary) and step.stage is stage


class _Planner:
    """Goes from boundary to boundary."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.here: set[Operation] = set()
        """Operations since the last boundary, which are in one block."""
        self._limits: dict[int, Slot] = {}

    def copies(self, boundary: Boundary) -> Copies:
        region, homes = boundary.region, self.storage.homes
        if not boundary.decides:
            moved = zip(boundary.reads(), boundary.targets(), strict=True)
            return sequentialize(((homes[source], homes[target]) for source, target in moved), self.storage.save)
        if isinstance(region, Branch) and region.below is not None:
            self.storage.limits[region] = homes[region.selector.array], self._limit(region, region.below)
        elif not (isinstance(region, Loop) and region.divergent):
            return self._decide(region, *boundary.reads())
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
