"""One space for all cores: another core may reuse the storage of a location after a fence.

Two locations of one core conflict when their lifetimes on its list overlap. Locations of different cores conflict
when their epochs overlap, since only a fence orders two cores. These conflicts are not overlaps on one time axis: the
rows of two cores have no common order inside an epoch. So `haulout.packing.conflict_fit` places the locations.

    core 0, epoch 0   core 0, epoch 1        a and c, b and c: different epochs, so c may take the bytes of either
    [- a -)[- b -)                           a and b: one core, disjoint, so they may share
    core 1, epoch 0   core 1, epoch 1
                      [--- c ---)

Here only fences outside loops and forks end an epoch. One inside may run never, or it may separate an iteration from
itself and not from the next.

Bound: in one epoch, each core's most bytes live at one time, summed over the cores. A location that nothing accesses
conflicts with none, but the space is at least as large as it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.lifetimes import Lifetimes, lifetimes, partial_outputs
from haulout.analysis.straightline import epochs
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.packing.conflict_fit import Buffers, fit_conflicts

MAX_LOCATIONS = 4_000
"""With more locations, no joint space is tried: the time of a placement grows with the square."""


class JointPlan(NamedTuple):
    """Offsets of the given rows, the end of the highest, and a lower bound of that end."""

    offset: Ints
    peak: int
    lower_bound: int


def joint_peak(program: Program) -> int | None:
    """The bytes that a joint space takes with the fences so far; None: it has too many locations."""
    locations = program.locations
    rows = np.flatnonzero((locations.space <= Space.DRAM_SHARED) & (locations.remote_name == NONE))
    return plan_joint(program, rows, lifetimes(program)).peak if len(rows) <= MAX_LOCATIONS else None


def joint_bound(program: Program) -> int:
    """The fewest bytes that a joint space may take with the fences so far."""
    locations, life = program.locations, lifetimes(program)
    rows = np.flatnonzero((locations.space <= Space.DRAM_SHARED) & (locations.remote_name == NONE))
    used = rows[(life.end[rows] > life.begin[rows]) & (locations.size[rows] > 0)]
    epoch = epochs(program, once=True).astype(np.int64)
    return _bound(program, location_buffers(program, used, life, epoch), epoch)


def plan_joint(program: Program, rows: Ints, life: Lifetimes) -> JointPlan:
    """Place the locations `rows`, of all cores, in one space."""
    used = rows[(life.end[rows] > life.begin[rows]) & (program.locations.size[rows] > 0)]
    epoch = epochs(program, once=True).astype(np.int64)
    buffers = location_buffers(program, used, life, epoch)
    buffers = buffers._replace(size=-(-buffers.size // buffers.alignment) * buffers.alignment)  # as in partitions
    bound = _bound(program, buffers, epoch)
    offset = np.zeros(len(rows), np.int64)
    largest = int(program.locations.size[rows].max(initial=0))
    if not len(used):
        return JointPlan(offset, largest, largest)
    span, length = (buffers.last - buffers.first).astype(float), (buffers.end - buffers.begin).astype(float)
    keys = [span * buffers.size, buffers.size.astype(float), length * buffers.size, span * 1e6 + length]
    placed, peak = fit_conflicts(buffers, keys, bound)
    offset[np.isin(rows, used)] = placed
    return JointPlan(offset, max(peak, largest), max(bound, largest))


def location_buffers(program: Program, rows: Ints, life: Lifetimes, epoch: Ints) -> Buffers:
    """The locations `rows`, which are used, with their lifetimes on the owner's list and in epochs."""
    first, last = location_epochs(program, rows, life, epoch)
    return Buffers(
        program.locations.size[rows].astype(np.int64),
        np.maximum(program.locations.align[rows], 1).astype(np.int64),
        program.location_core[rows].astype(np.int64),
        life.begin[rows],
        life.end[rows],
        first,
        last,
    )


def location_epochs(program: Program, rows: Ints, life: Lifetimes, epoch: Ints) -> tuple[Ints, Ints]:
    """The half-open range of epochs in which each location is live; `epoch` is that of each instruction."""
    accesses = program.accesses
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
    first, last = np.where(permanent, 0, first)[rows], np.where(lasting, count, last)[rows]
    if program.structure and len(epoch):
        # A lifetime may reach beyond the accesses: over a loop, and to where a condition is read.
        after = np.searchsorted(program.instruction_core, np.arange(program.lnc), side="right")
        after = after[program.location_core[rows]]  # of the owner's core, the position after its last row
        begin, end = (
            np.where(each < after, epoch[np.minimum(each, after - 1)], count - 1)
            for each in (life.begin[rows], life.end[rows] - 1)
        )
        first, last = np.minimum(first, begin), np.maximum(last, end + 1)
    return first, last


def _bound(program: Program, buffers: Buffers, epoch: Ints) -> int:
    """The largest epoch: the sum over the cores of the most bytes that each has live at one time in it."""
    if not len(buffers.size):
        return 0
    count = int(epoch.max(initial=0)) + 1
    best = np.zeros(count, np.int64)
    for core in range(program.lnc):
        mine = np.flatnonzero(buffers.group == core)
        rows = np.flatnonzero(program.instruction_core == core)
        if not len(mine) or not len(rows):
            continue
        first = int(rows[0])
        change = np.zeros(len(rows) + 2, np.int64)
        np.add.at(change, buffers.begin[mine] - first, buffers.size[mine])
        np.subtract.at(change, np.minimum(buffers.end[mine] - first, len(rows) + 1), buffers.size[mine])
        live = np.cumsum(change)[: len(rows)]
        peak = np.zeros(count, np.int64)
        np.maximum.at(peak, epoch[rows], live)
        best += peak
    return int(best.max())
