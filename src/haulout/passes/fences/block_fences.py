"""Fences between blocks of a program with loops or forks: at the start of a block, where something needs one.

Inside a block the phases have put what is needed. Two accesses of different cores that conflict across blocks, or
across iterations of one block, are ordered by a fence at the start of the block of the later one, and by nothing less
unless a fence is already on the path: after the first in its block or before the second in its block. No path leads
from one arm of a fork to the other, but through a loop around both. A block that nothing asks for gets none.
Conflicts are those of whole locations: `exact_cover.py` looks at bytes, in programs that it can take.

A divergent fork is an atom: no fence may be in its arms, so what an arm asks for goes to the end of the fork's block,
and what its own arms have among each other in one run cannot be ordered by fences; the checker reports it.
"""

from __future__ import annotations

import numpy as np

from haulout.analysis.phases import Phases, shared_accesses
from haulout.analysis.straightline import fence_rows
from haulout.ir.atomics import access_sorts
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.structure import Loop, Structure
from haulout.passes.fences.slots import Slots

Range = tuple[int, int]
"""Block numbers, the second one not included."""


def fences_between(program: Program, stem: str) -> Slots:
    """A fence for each block that needs one, on every core, named `<stem>0`, `<stem>1`, ..."""
    blocks = len(program.blocks) // program.lnc
    starts = program.starts("instructions", "blocks")
    before, joined, names = [], [], []
    for number, (block, at_end) in enumerate(_needed(program) if program.structure else []):
        for core in range(program.lnc):
            row = core * blocks + block
            before.append(int(starts[row + at_end]))
            joined.append(row)
            names.append(f"{stem}{number}")
    return Slots(np.array(before, np.int32), np.array(joined, np.int32), names)


def outside_atoms(program: Program, phases: Phases) -> Phases:
    """The phases without those that divergent arms ask for."""
    divergent = program.structure.divergent_fork
    inside = np.array([divergent(block) != NONE for block in range(len(program.blocks))], bool)
    needed = phases.needed.copy()
    needed[phases.segment[inside[program.instructions.block]]] = 0
    return phases._replace(needed=needed)


def _needed(program: Program) -> list[tuple[int, bool]]:
    """(block, whether at its end) of each fence, in layout order.

    An access asks for one when some block that leads to it holds one of another core with no fence behind it there:
    when of all accesses to the location in the ranges of those blocks not all are its own core's.
    """
    structure, blocks = program.structure, len(program.blocks) // program.lnc
    places = [
        (at, False) if (fork := structure.divergent_fork(at)) == NONE else (structure.forks[fork].block, True)
        for at in range(blocks)
    ]
    begins = {block: function.start for function in structure.functions for block in function}
    ranges = [_leading(structure, begins[block], block, at_end) for block, at_end in places]
    picked = np.flatnonzero(shared_accesses(program))
    row = program.accesses.instruction[picked]
    owner = program.owner[program.accesses.location[picked]].astype(np.int64)
    own = owner * program.lnc + program.instruction_core[row]
    block = (program.instructions.block[row] % blocks).astype(np.int64)
    sort = access_sorts(program)[picked]
    written, atomic = sort == 0, sort // 2
    first, last = _unfenced(program, np.array([at_end for _, at_end in places], bool), row)
    asks = np.zeros(len(picked), bool)
    meetings = [(last, first & written), (last & (sort != 1), first & (sort == 1))]
    for kind in np.unique(atomic[atomic > 0]).tolist():  # atomics of one kind ask for nothing between each other
        meetings.append((last & (atomic != kind), first & (atomic == kind)))
    for early, late in meetings:
        everyone, mine = (np.sort(key[early] * blocks + block[early]) for key in (owner, own))
        for number in range(max(map(len, ranges), default=0)):
            low, high = np.array([each[number] if number < len(each) else (0, 0) for each in ranges], np.int64).T
            met = _between(everyone, owner * blocks, low[block], high[block])
            asks |= late & (met > _between(mine, own * blocks, low[block], high[block]))
    return sorted({places[at] for at in np.unique(block[asks]).tolist()})


def _between(keys: Ints, base: Ints, low: Ints, high: Ints) -> Ints:
    """How many of some ascending keys are in `base + low : base + high`."""
    return np.searchsorted(keys, base + high) - np.searchsorted(keys, base + low)


def _leading(structure: Structure, begin: int, block: int, at_end: bool) -> list[Range]:
    """Blocks from which a path of one edge at least leads to a block of the function that begins at `begin`, or to
    its end: all of the outermost loop around it and all before that, but for the other arms of the forks around.
    """
    end = block + at_end
    ranges = []
    for region in (structure.regions[number] for number in structure.around(block)):
        if isinstance(region, Loop):
            end = region.end
            break
        if region.side == 1:
            ranges.append((begin, structure.forks[region.fork].block + 1))
            begin = region.begin
    return [*ranges, (begin, end)]


def _unfenced(program: Program, in_atom: Bools, row: Ids) -> tuple[Bools, Bools]:
    """Whether no fence stands before each of some instructions in its block, and whether none stands behind it."""
    is_fence = np.zeros(len(program.instructions) + 1, np.int64)
    is_fence[fence_rows(program) + 1] = 1
    fences_before = np.cumsum(is_fence)
    starts = program.starts("instructions", "blocks")
    block = program.instructions.block[row]
    # A fence in a divergent arm is one that another core may not meet.
    loose = in_atom[block % len(in_atom)]
    first: Bools = loose | (fences_before[row] == fences_before[starts[block]])
    last: Bools = loose | (fences_before[row] == fences_before[starts[block + 1]])
    return first, last
