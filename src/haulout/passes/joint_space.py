"""One space for all cores: storage of one core is used again by another, with a fence between.

Two locations of one core conflict when their lifetimes on its list meet. Two of different cores conflict when their
epochs do: between cores only a fence orders anything. That is no interval problem (the rows of two cores have no
common order inside an epoch), so locations are placed by first and best fit over the conflicts themselves, in several
orders; whoever stands above the bound goes earlier in the next round.

    core 0, epoch 0   core 0, epoch 1        a and c, b and c: different epochs, so c may take the bytes of either
    [- a -)[- b -)                           a and b: one core, disjoint, so they may share
    core 1, epoch 0   core 1, epoch 1
                      [--- c ---)

Bound: in one epoch, each core's most bytes live at one time, summed over the cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from haulout.analysis.lifetimes import Lifetimes
from haulout.analysis.straightline import epochs
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ints

MOST = 3_000
"""Locations up to which the joint space is tried: a placement takes time that grows with the square."""
_ROUNDS = 6
_DECAY = 0.9


class JointPlan(NamedTuple):
    """Offsets of the rows given, where the highest ends, and the bytes that no placement goes below."""

    offset: Ints
    peak: int
    lower_bound: int


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    """What is placed, a row each: epochs half-open, rows of the owner's list half-open."""

    core: Ints
    begin: Ints
    end: Ints
    first_epoch: Ints
    last_epoch: Ints
    size: Ints
    align: Ints

    def conflicts(self, k: int) -> Bools:
        """Which rows conflict with row k (itself among them)."""
        together = (self.first_epoch < self.last_epoch[k]) & (self.first_epoch[k] < self.last_epoch)
        rows = (self.begin < self.end[k]) & (self.begin[k] < self.end)
        found: Bools = np.where(self.core == self.core[k], rows, together)
        return found


def plan_joint(program: Program, rows: Ints, life: Lifetimes) -> JointPlan:
    """Place the locations `rows`, of all cores, in one space. Straight-line programs only."""
    used = rows[(life.end[rows] > life.begin[rows]) & (program.locations.size[rows] > 0)]
    first, last = location_epochs(program, used)
    item = _Item(
        program.location_core[used].astype(np.int64),
        life.begin[used],
        life.end[used],
        first,
        last,
        program.locations.size[used].astype(np.int64),
        np.maximum(program.locations.align[used], 1).astype(np.int64),
    )
    bound = _bound(program, item)
    offset = np.zeros(len(rows), np.int64)
    if not len(used):
        return JointPlan(offset, 0, 0)
    placed, peak = _search(item, bound)
    offset[np.isin(rows, used)] = placed
    return JointPlan(offset, peak, bound)


def location_epochs(program: Program, rows: Ints) -> tuple[Ints, Ints]:
    """Epochs in which each location is touched, by whomever, as a half-open range; all of them for lasting ones."""
    accesses, epoch = program.accesses, epochs(program).astype(np.int64)
    count = int(epoch.max(initial=0)) + 1
    first = np.full(len(program.locations), count, np.int64)
    last = np.zeros(len(program.locations), np.int64)
    owner = program.owner[accesses.location]
    known = owner != NONE
    np.minimum.at(first, owner[known], epoch[accesses.instruction[known]])
    np.maximum.at(last, owner[known], epoch[accesses.instruction[known]] + 1)
    lasting = program.locations.kind[rows] != Kind.INTERNAL
    return np.where(lasting, 0, first[rows]), np.where(lasting, count, last[rows])


def _bound(program: Program, item: _Item) -> int:
    """Over all epochs, the largest sum over the cores of what each has live at one time in that epoch."""
    if not len(item.core):
        return 0
    epoch = epochs(program).astype(np.int64)
    count = int(epoch.max(initial=0)) + 1
    best = np.zeros(count, np.int64)
    for core in range(program.lnc):
        mine = np.flatnonzero(item.core == core)
        rows = np.flatnonzero(program.instruction_core == core)
        if not len(mine) or not len(rows):
            continue
        first = int(rows[0])
        change = np.zeros(len(rows) + 2, np.int64)
        np.add.at(change, item.begin[mine] - first, item.size[mine])
        np.subtract.at(change, np.minimum(item.end[mine] - first, len(rows) + 1), item.size[mine])
        live = np.cumsum(change)[: len(rows)]
        peak = np.zeros(count, np.int64)
        np.maximum.at(peak, epoch[rows], live)
        best += peak
    return int(best.max())


def _search(item: _Item, bound: int) -> tuple[Ints, int]:
    """The best of several orders, each tried by first and by best fit."""
    n = len(item.size)
    span = (item.last_epoch - item.first_epoch).astype(float)
    life = (item.end - item.begin).astype(float)
    keys = [span * item.size, item.size.astype(float), life * item.size, span * 1e6 + life]
    best: tuple[Ints, int] | None = None
    blame = np.zeros(n)
    for turn in range(len(keys) + _ROUNDS):
        key = _rank(keys[turn % len(keys)]) + blame
        order = np.lexsort((np.arange(n), -key))
        for tight in (False, True):
            offset = _fit(item, order, tight)
            peak = int((offset + item.size).max())
            if best is None or peak < best[1]:
                best = offset, peak
            if peak <= bound:
                return offset, peak
        blame *= _DECAY
        blame[offset + item.size > bound] += 0.3
    assert best is not None
    return best


def _rank(key: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    rank = np.empty(len(key))
    rank[np.argsort(key, kind="stable")] = np.arange(len(key)) / len(key)
    return rank


def _fit(item: _Item, order: Ints, tight: bool) -> Ints:
    """Each row into the lowest, or the tightest, gap that the conflicting rows placed before leave it."""
    offset = np.full(len(order), -1, np.int64)
    for k in order.tolist():
        near = np.flatnonzero(item.conflicts(k) & (offset >= 0))
        near = near[np.argsort(offset[near], kind="stable")]
        ends = np.maximum.accumulate(np.concatenate([[0], (offset + item.size)[near]]))
        step = int(item.align[k])
        places = -(-ends // step) * step
        room = np.append(offset[near], 1 << 62) - places
        fits = np.flatnonzero(room >= item.size[k])
        offset[k] = places[fits[np.argmin(room[fits])] if tight else fits[0]]
    return offset
