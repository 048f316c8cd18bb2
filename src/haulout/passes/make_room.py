"""Values of `seq` for the parts of operations: an operation that becomes several instructions needs one for each.

The parts of one operation follow each other, so they need different times; equal ones would be no order. All cores
share the time axis: what comes later in the source is shifted on all of them alike.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import INT64_MAX, Bools, Ints
from haulout.support.diagnostics import bad_input


def make_room(program: Program, wide: Bools, parts: int) -> Program:
    """Shift `seq` so that each instruction of the mask `wide` has `parts` values, its own and those behind it.

    Where m of them share a time t on one core, they take `parts` values each, in list order. What shares their time
    follows its place in the list of its core: before the first it stays, behind one it goes with that one's last
    value, so that it stays before everything of time t + 1. Without `seq` nothing changes.
    """
    instructions, cores = program.instructions, program.instruction_core
    seq = instructions.seq
    wide = wide & (seq != NONE)
    if not wide.any():
        return program
    # group by time: the most wide ones that a core has there
    times, which = np.unique(seq[wide], return_inverse=True)
    per_core = np.bincount(which * program.lnc + cores[wide], minlength=len(times) * program.lnc)
    most = per_core.reshape(len(times), program.lnc).max(axis=1)
    behind = np.append(0, np.cumsum(parts * most - 1))
    shift = behind[np.searchsorted(times, seq)]
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
