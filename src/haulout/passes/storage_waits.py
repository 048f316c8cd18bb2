"""Places for locations where fewer instructions wait for storage.

Lifetimes on the list decide which locations may share bytes, but engines run ahead of one another: the next user of
some bytes may come late in the list and early in time. Order 84 then adds an edge that makes it wait. The makespan
estimate, before there are such edges, tells when each location is used; `haulout.packing.fewer_waits` moves those
that would wait to bytes that are free at that time. A fence, a dependence or a common engine that orders two
locations already is in the estimate, so they do not wait. No peak rises.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from haulout.analysis.lifetimes import Lifetimes
from haulout.analysis.makespan import makespan
from haulout.analysis.straightline import epochs
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ints
from haulout.packing.conflict_fit import Buffers
from haulout.packing.fewer_waits import with_fewer_waits
from haulout.passes.joint_space import location_buffers
from haulout.target import Target

NEVER = 1 << 62


def fewer_waits(
    program: Program, life: Lifetimes, address: Ints, spaces: Iterable[tuple[Bools, int, int]], target: Target
) -> Ints:
    """Addresses with which instructions wait less for storage, by an estimate.

    `spaces`: of each space its locations, its begin, and the bytes that they may take.
    """
    start, done = use_times(program, target)
    epoch = epochs(program, once=True).astype(np.int64)
    found = address.copy()
    used = np.flatnonzero((life.end > life.begin) & (program.locations.size > 0))
    every = location_buffers(program, used, life, epoch)
    for locations, begin, size in spaces:
        mine = locations[used]
        rows, buffers = used[mine], Buffers(*(column[mine] for column in every))
        found[rows] = begin + with_fewer_waits(buffers, start[rows], done[rows], address[rows] - begin, size)
    return found


def use_times(program: Program, target: Target) -> tuple[Ints, Ints]:
    """When the owner's core first starts to access each location, and when it is done, in nanoseconds.

    What other cores access is behind a fence. A location that its core does not access waits for none.
    """
    estimate = makespan(program, target)
    accesses = program.accesses
    owner, row = program.owner[accesses.location], accesses.instruction
    mine = (owner != NONE) & (program.location_core[owner] == program.instruction_core[row])
    start, done = np.full(len(program.locations), NEVER), np.zeros(len(program.locations), np.int64)
    np.minimum.at(start, owner[mine], np.rint(estimate.begin * 1e3).astype(np.int64)[row[mine]])
    np.maximum.at(done, owner[mine], np.rint(estimate.finish * 1e3).astype(np.int64)[row[mine]])
    return start, done
