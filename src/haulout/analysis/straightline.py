"""Straight-line order: positions, fences and epochs of every instruction.

A function is straight-line when its blocks form one chain in layout order; then an instruction's row is its position
on its core. A *fence* is a `core_barrier` on engine `all` of all cores: everything before it on its core completes
first, nothing after it starts. Fences cut a core's list into *epochs*; the entry of a function cuts too, since all
cores enter it quiescent. Epoch k of one core and epoch k of another are the same stretch of time.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids
from haulout.ir.verify import place
from haulout.support.diagnostics import Label, bad_input


def require_straight_line(program: Program) -> None:
    """Raise `bad-input` at the first block that branches, loops or leaves the layout order."""
    blocks, edges = program.blocks, program.edges
    starts = program.starts("edges", "blocks")
    count = np.diff(starts)
    last = np.ones(len(blocks), bool)
    last[:-1] = blocks.function[1:] != blocks.function[:-1]
    follows = np.full(len(blocks), NONE, np.int64)
    one = count == 1
    follows[one] = edges.target[starts[:-1][one]]
    chained = np.where(last, count == 0, one & (follows == np.arange(len(blocks)) + 1))
    wrong = np.flatnonzero(~chained | (blocks.trip != NONE) | (blocks.cond != NONE))
    if len(wrong):
        row = int(wrong[0])
        name = program.strings[int(blocks.name[row])]
        bad_input(
            f"control flow is not supported yet: block ^{name} does not lead straight to the next block",
            Label(f"^{name} on core {program.block_core[row]}", place(program, NONE, int(blocks.text_line[row]))),
        )


def fence_mask(program: Program, *, permanent: bool = False) -> Bools:
    """Whether each row of `barriers` is a fence; with `permanent`, only the user's own, which no pass removes."""
    barriers = program.barriers
    everyone = (1 << program.lnc) - 1
    full = (barriers.cores == 0) | (barriers.cores == everyone)
    mask: Bools = full & (program.instructions.engine[barriers.instruction] == Engine.ALL)
    return mask & (barriers.made_by == NONE) if permanent else mask


def fence_rows(program: Program, *, permanent: bool = False) -> Ids:
    """Instructions that are fences, in row order."""
    return program.barriers.instruction[fence_mask(program, permanent=permanent)]


def last_fence(program: Program, fences: Ids) -> Ids:
    """For each instruction the last of `fences` before it in its function; NONE when there is none."""
    rows = len(program.instructions)
    marks = np.full(rows + 1, NONE, np.int32)
    marks[fences + 1] = fences
    result: Ids = np.maximum.accumulate(marks[:rows]) if rows else marks[:0]
    function = program.instruction_function
    foreign = (result == NONE) | (function[result] != function)
    return np.where(foreign, NONE, result).astype(np.int32)


def epochs(program: Program) -> Ids:
    """Epoch of each instruction, counted from 0 on every core; a fence belongs to the epoch that it ends."""
    rows = len(program.instructions)
    cuts = np.zeros(rows + 1, np.int64)
    cuts[fence_rows(program) + 1] += 1
    # Functions are the same on all cores, in the same order or not: give function names a rank by the first core.
    function = program.instruction_function
    entry = np.zeros(rows, np.int64)
    entry[1:] = function[1:] != function[:-1]
    core = program.instruction_core
    total = np.cumsum(cuts[:rows] + entry)
    first = np.searchsorted(core, np.arange(program.lnc)) if rows else np.zeros(program.lnc, np.int64)
    base = total[np.minimum(first, max(rows - 1, 0))] if rows else first
    return (total - base[core]).astype(np.int32)
