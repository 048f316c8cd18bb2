"""Fences between blocks of a program with loops: at the start of a block, where something needs one.

Inside a block the phases have put what is needed. Two accesses of different cores that conflict across blocks, or
across iterations of one block, are ordered by a fence at the start of the block of the later one, and by nothing less
unless a fence already stands on the way: behind the first in its block (when it is the same block, in the iteration
before) or before the second in its block. A block that nothing asks for gets no fence.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from haulout.analysis.loops import find_loops
from haulout.analysis.phases import shared_accesses
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.passes.fences.slots import Slots

Touch = tuple[int, int, bool, bool, bool]
"""(block, core, written, no fence before it in its block, no fence behind it)"""


def loop_slots(program: Program, stem: str) -> Slots:
    """A fence at the start of each block that needs one, on every core, named `<stem>0`, `<stem>1`, ..."""
    found = find_loops(program)
    blocks = len(program.blocks) // program.lnc
    needed: set[int] = set()
    if found:
        for touches in _touches(program, blocks).values():
            for late in touches:
                if late[3] and any(_needs_fence(early, late, found.of_block[late[0]] != NONE) for early in touches):
                    needed.add(late[0])
    starts = program.starts("instructions", "blocks")
    before, joined, names = [], [], []
    for number, block in enumerate(sorted(needed)):
        for core in range(program.lnc):
            row = core * blocks + block
            before.append(int(starts[row]))
            joined.append(row)
            names.append(f"{stem}{number}")
    return Slots(np.array(before, np.int32), np.array(joined, np.int32), names)


def _needs_fence(early: Touch, late: Touch, in_loop: bool) -> bool:
    if early[1] == late[1] or not (early[2] or late[2]):
        return False
    return early[0] != late[0] or (in_loop and early[4])


def _touches(program: Program, blocks: int) -> dict[int, set[Touch]]:
    """Owner location -> how it is touched; blocks and cores by number."""
    rows = len(program.instructions)
    is_fence = np.zeros(rows + 1, np.int64)
    is_fence[fence_rows(program) + 1] = 1
    fences_before = np.cumsum(is_fence)
    starts = program.starts("instructions", "blocks")
    picked = np.flatnonzero(shared_accesses(program))
    row = program.accesses.instruction[picked]
    block = program.instructions.block[row]
    first = fences_before[row] == fences_before[starts[block]]
    last = fences_before[row] == fences_before[starts[block + 1]]
    result: dict[int, set[Touch]] = defaultdict(set)
    for owner, *touch in zip(
        program.owner[program.accesses.location[picked]].tolist(),
        (block % blocks).tolist(),
        program.instruction_core[row].tolist(),
        program.accesses.write[picked].tolist(),
        first.tolist(),
        last.tolist(),
        strict=True,
    ):
        result[owner].add(tuple(touch))
    return result
