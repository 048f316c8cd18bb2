"""Fences between blocks of a program with loops or branches: at the start of a block, where something needs one.

Inside a block the phases have put what is needed. Two accesses of different cores that conflict across blocks, or
across iterations of one block, are ordered by a fence at the start of the block of the later one, and by nothing less
unless a fence already stands on the way: behind the first in its block or before the second in its block. No way
leads from one arm of a branch to the other, but through a loop around both. A block that nothing asks for gets none.

A divergent branch is an atom: no fence may stand in its arms, so what an arm asks for stands at the end of the fork,
and what its own arms have among each other in one run cannot be ordered by fences; the checker reports it.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from haulout.analysis.cfg import control_flow
from haulout.analysis.liveness import block_graph
from haulout.analysis.phases import Phases, shared_accesses
from haulout.analysis.regions import Regions
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.passes.fences.slots import Slots

Touch = tuple[int, int, bool, bool, bool]
"""(block, core, written, no fence before it in its block, no fence behind it)"""


def fences_between(program: Program, found: Regions, stem: str) -> Slots:
    """A fence for each block that needs one, on every core, named `<stem>0`, `<stem>1`, ..."""
    blocks = len(program.blocks) // program.lnc
    needed: set[tuple[int, bool]] = set()
    """(block, at its end)"""
    if found:
        flow = control_flow(block_graph(program))
        behind = [flow.reached_from(block) for block in range(blocks)]
        atoms = [found.atom(block) for block in range(blocks)]
        for touches in _touches(program, atoms).values():
            for late in touches:
                atom = atoms[late[0]]
                place = (late[0], False) if atom == NONE else (found.branches[atom].fork, True)
                for early in touches:
                    # Inside an atom only a later run of it can be held back.
                    same = atom != NONE and atoms[early[0]] == atom
                    if _needs_fence(early, late, behind) and (not same or place[0] in behind[place[0]]):
                        needed.add(place)
    starts = program.starts("instructions", "blocks")
    before, joined, names = [], [], []
    for number, (block, at_end) in enumerate(sorted(needed)):
        for core in range(program.lnc):
            row = core * blocks + block
            before.append(int(starts[row + at_end]))
            joined.append(row)
            names.append(f"{stem}{number}")
    return Slots(np.array(before, np.int32), np.array(joined, np.int32), names)


def outside_atoms(program: Program, found: Regions, phases: Phases) -> Phases:
    """The phases without those that divergent arms ask for."""
    inside = np.array([found.atom(block) != NONE for block in range(len(program.blocks))], bool)
    needed = phases.needed.copy()
    needed[phases.segment[inside[program.instructions.block]]] = 0
    return phases._replace(needed=needed)


def _needs_fence(early: Touch, late: Touch, behind: list[set[int]]) -> bool:
    if early[1] == late[1] or not (early[2] or late[2]):
        return False
    return early[4] and late[3] and late[0] in behind[early[0]]


def _touches(program: Program, atoms: list[int]) -> dict[int, set[Touch]]:
    """Owner location -> how it is touched; blocks and cores by number."""
    rows, blocks = len(program.instructions), len(atoms)
    is_fence = np.zeros(rows + 1, np.int64)
    is_fence[fence_rows(program) + 1] = 1
    fences_before = np.cumsum(is_fence)
    starts = program.starts("instructions", "blocks")
    picked = np.flatnonzero(shared_accesses(program))
    row = program.accesses.instruction[picked]
    block = program.instructions.block[row]
    # A fence in a divergent arm is one that another core may not meet.
    loose = np.array(atoms)[block % blocks] != NONE
    first = loose | (fences_before[row] == fences_before[starts[block]])
    last = loose | (fences_before[row] == fences_before[starts[block + 1]])
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
