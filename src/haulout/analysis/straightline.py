"""List order: positions, fences and epochs of every instruction.

An instruction's row is its position on its core's list; without loops, that is also the order in time.
A *fence* is a `core_barrier` on engine `all` of all cores: everything before it on its core completes
first, and nothing after it starts earlier. Fences cut a core's list into *epochs*; so does the entry of a function,
since all cores enter it quiescent. Epoch k of one core and epoch k of another are the same stretch of time.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids


def fence_mask(program: Program, *, permanent: bool = False) -> Bools:
    """Whether each row of `barriers` is a fence; with `permanent`, only the user's own, which no pass removes."""
    barriers = program.barriers
    mask: Bools = program.core_sets.full & (program.instructions.engine[barriers.instruction] == Engine.ALL)
    return mask & (barriers.made_by == NONE) if permanent else mask


def fence_rows(program: Program, *, permanent: bool = False) -> Ids:
    """Instructions that are fences, in row order."""
    return program.barriers.instruction[fence_mask(program, permanent=permanent)]


def epochs(program: Program, *, once: bool = False) -> Ids:
    """Epoch of each instruction, counted from 0 on every core; a fence belongs to the epoch that it ends.

    With `once`, only fences outside loops and forks count: these run exactly once, so they are an order in time.
    """
    rows = len(program.instructions)
    cuts = np.zeros(rows + 1, np.int64)
    fences = fence_rows(program)
    if once and program.structure:
        outside = np.array(program.structure.region_of, np.int64) == NONE
        fences = fences[outside[program.instructions.block[fences]]]
    cuts[fences + 1] += 1
    # A function begins a new epoch.
    function = program.instruction_function
    entry = np.zeros(rows, np.int64)
    entry[1:] = function[1:] != function[:-1]
    core = program.instruction_core
    total = np.cumsum(cuts[:rows] + entry)
    first = np.searchsorted(core, np.arange(program.lnc)) if rows else np.zeros(program.lnc, np.int64)
    base = total[np.minimum(first, max(rows - 1, 0))] if rows else first
    return (total - base[core]).astype(np.int32)
