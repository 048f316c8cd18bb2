"""What happens at the marks of loops and branches: copies, and the locations that are branched on.

    loop     enter   the initial values go where the state lives
             branch  the header branches on what its condition has written
             leave   the new values go where the state lives
    branch   fork    its block branches on what it has written: the predicate, or whether an index is below a limit
             else    the values of the first arm go where the results live
             join    the values of the second arm go there

Most of these copies are none, as arrays share their places (`sharing.py`). A block branches on a location when all
writes of it *in that block* are complete; so where the block computes nothing, that location is a copy. A second arm
without operations and copies needs no block: the fork leads to the join.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeGuard

import numpy as np

from haulout.frontends.hlo.copies import in_sequence
from haulout.frontends.hlo.storage import Copies, Slot, Storage, encode
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import (
    Array,
    Branch,
    BranchMark,
    Loop,
    Mark,
    Operation,
    Phase,
    Stage,
    Step,
    View,
)
from haulout.ir.enums import Kind


def plan_marks(steps: Sequence[Step], storage: Storage) -> None:
    """Fill in what `storage` says of marks; arrays have their homes already."""
    planner = _Planner(storage)
    for step in steps:
        if isinstance(step, Operation):
            planner.here.add(step)
            continue
        storage.copies[step] = planner.branch(step) if isinstance(step, BranchMark) else planner.loop(step)
        planner.here.clear()
    for step, following in pairwise(steps):
        if _is_mark(step, Stage.ELSE) and _is_mark(following, Stage.JOIN) and not storage.copies[following]:
            storage.one_armed.add(following.branch)


def _is_mark(step: Step, stage: Stage) -> TypeGuard[BranchMark]:
    return isinstance(step, BranchMark) and step.stage is stage


class _Planner:
    """Goes from mark to mark."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.here: set[Operation] = set()
        """Operations since the last mark, which are in one block."""
        self._limits: dict[int, Slot] = {}

    def loop(self, mark: Mark) -> Copies:
        loop = mark.loop
        match mark.phase:
            case Phase.ENTER:
                return self._in_sequence((each.init.array, each.state) for each in loop.carried)
            case Phase.BRANCH:
                return self._decide(loop, loop.condition)
            case Phase.LEAVE:
                return self._in_sequence((each.new.array, each.state) for each in loop.carried)

    def branch(self, mark: BranchMark) -> Copies:
        branch = mark.branch
        match mark.stage:
            case Stage.FORK:
                if branch.below is None:
                    return self._decide(branch, branch.selector)
                selector = self.storage.homes[branch.selector.array]
                self.storage.limits[branch] = selector, self._limit(branch, branch.below)
                self.storage.conditions[branch] = self._condition(branch)
                return []
            case Stage.ELSE:
                return self._in_sequence((each.then.array, each.result) for each in branch.merged)
            case Stage.JOIN:
                return self._in_sequence((each.other.array, each.result) for each in branch.merged)

    def _in_sequence(self, copies: Iterable[tuple[Array, Array]]) -> Copies:
        homes = self.storage.homes
        return in_sequence(((homes[source], homes[target]) for source, target in copies), self.storage.save)

    def _decide(self, region: Loop | Branch, predicate: View) -> Copies:
        """Branch on the predicate's own location, or on a copy."""
        home = self.storage.homes[predicate.array]
        if predicate.array.producer in self.here:
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
