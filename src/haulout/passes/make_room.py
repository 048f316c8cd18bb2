"""Room in `seq`: an operation that becomes several instructions needs a value for each.

The parts of an operation are ordered, so they need different times. All cores share the time axis: later operations
of the source are shifted equally on all cores.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import INT64_MAX, Bools, Ints
from haulout.support.diagnostics import bad_input


def make_room(program: Program, wide: Bools, parts: int) -> Program:
    """Shift `seq` so that each instruction of the mask `wide` has `parts` values, its own and the next ones.

    If m of them share a time t on one core, they take `parts` values each, in list order. Other instructions of time
    t keep their place in the list: before the first wide one they stay at t, after a wide one they take its last
    value, so they stay before all of time t + 1. Without `seq` nothing changes.
    """
    instructions, cores = program.instructions, program.instruction_core
    seq = instructions.seq
    wide = wide & (seq != NONE)
    if not wide.any():
        return program
    # group by time: the most wide ones on a core
    times, which = np.unique(seq[wide], return_inverse=True)
    per_core = np.bincount(which * program.lnc + cores[wide], minlength=len(times) * program.lnc)
    most = per_core.reshape(len(times), program.lnc).max(axis=1)
    later = np.append(0, np.cumsum(parts * most - 1))
    shift = later[np.searchsorted(times, seq)]
    # group by (core, time), in list order: wide ones of the group before each row
    rows = np.flatnonzero(np.isin(seq, times))
    order = rows[np.lexsort((rows, seq[rows], cores[rows]))]
    before: Ints = np.cumsum(wide[order]) - wide[order]
    starts = np.ones(len(order), bool)
    starts[1:] = (np.diff(seq[order]) != 0) | (np.diff(cores[order]) != 0)
    before -= np.maximum.accumulate(np.where(starts, before, 0))
    shift[order] += np.where(wide[order], parts * before, np.maximum(parts * before - 1, 0))
    last = int(seq.max())
    if last > INT64_MAX - int(shift.max()):
        row = int(np.argmax(seq))
        bad_input(f"seq={last} leaves no room for the parts of operations", instruction_label(program, row))
    return program.replace(instructions=instructions.replace(seq=np.where(seq == NONE, NONE, seq + shift)))
