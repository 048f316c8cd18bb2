"""One space for all cores: another core may reuse the storage of a location after a fence.

Two locations of one core conflict when their lifetimes on its list overlap. Locations of different cores conflict
when their epochs overlap, since only a fence orders two cores. These conflicts are not overlaps on one time axis: the
rows of two cores have no common order inside an epoch. So `haulout.packing.conflict_fit` places the locations.

    core 0, epoch 0   core 0, epoch 1        a and c, b and c: different epochs, so c may take the bytes of either
    [- a -)[- b -)                           a and b: one core, disjoint, so they may share
    core 1, epoch 0   core 1, epoch 1
                      [--- c ---)

Bound: in one epoch, each core's most bytes live at one time, summed over the cores. A location that nothing accesses
conflicts with none, but the space is at least as large as it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.analysis.lifetimes import Lifetimes, partial_outputs
from haulout.analysis.straightline import epochs
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ints
from haulout.packing.conflict_fit import fit_conflicts

MAX_LOCATIONS = 3_000
"""With more locations, no joint space is tried: the time of a placement grows with the square."""


class JointPlan(NamedTuple):
    """Offsets of the given rows, the end of the highest, and a lower bound of that end."""

    offset: Ints
    peak: int
    lower_bound: int


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    """The locations to place: half-open ranges of rows of the owner's list, and of epochs."""

    core: Ints
    begin: Ints
    end: Ints
    first_epoch: Ints
    last_epoch: Ints
    size: Ints
    align: Ints

    def conflicts(self, k: int) -> Bools:
        """Which locations conflict with location k, itself included."""
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
    largest = int(program.locations.size[rows].max(initial=0))
    if not len(used):
        return JointPlan(offset, largest, largest)
    span, length = (item.last_epoch - item.first_epoch).astype(float), (item.end - item.begin).astype(float)
    keys = [span * item.size, item.size.astype(float), length * item.size, span * 1e6 + length]
    placed, peak = fit_conflicts(item.size, item.align, item.conflicts, keys, bound)
    offset[np.isin(rows, used)] = placed
    return JointPlan(offset, max(peak, largest), max(bound, largest))


def location_epochs(program: Program, rows: Ints) -> tuple[Ints, Ints]:
    """The half-open range of epochs in which each location is live, as `lifetimes` says."""
    accesses, epoch = program.accesses, epochs(program).astype(np.int64)
    count = int(epoch.max(initial=0)) + 1
    first = np.full(len(program.locations), count, np.int64)
    last = np.zeros(len(program.locations), np.int64)
    owner = program.owner[accesses.location]
    known = owner != NONE
    np.minimum.at(first, owner[known], epoch[accesses.instruction[known]])
    np.maximum.at(last, owner[known], epoch[accesses.instruction[known]] + 1)
    kind = program.locations.kind
    lasting = kind != Kind.INTERNAL
    permanent = lasting & ((kind != Kind.OUTPUT) | (first == count) | partial_outputs(program))
    return np.where(permanent, 0, first)[rows], np.where(lasting, count, last)[rows]


def _bound(program: Program, item: _Item) -> int:
    """The largest epoch: the sum over the cores of the most bytes that each has live at one time in it."""
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
