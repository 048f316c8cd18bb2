"""Lifetimes in programs with loops, as ranges of list positions.

Epochs. Outside loops they are cut by the fences outside loops, since a loop may run zero times. Inside a loop, what
lies between two fences of one block is an epoch of that block. (The fence that closes an epoch belongs to it: a core
may have nothing else there.) An access by another core in the first or last stretch of a block in a loop has no such
bounds: the back edge is met before a fence is. It occupies the outermost loop around it, and the epoch outside that
this loop lies in.

Values. A location that is touched inside a loop and outside it is live in the whole loop. So is one whose value is
carried from iteration to iteration: whose first access in the loop does not write all of it. The writes before the
first read count together: pieces that do not meet and make up the whole.
"""

from __future__ import annotations

import numpy as np

from haulout.analysis.loops import Loops
from haulout.analysis.overlap import Extents, _scan_meets, extents
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import NONE
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.support.jit import interpreted

MOST_PIECES = 64


def loop_ranges(program: Program, found: Loops, access: Ints) -> tuple[Ints, Ints]:
    """Rows that each access occupies on its owner's list."""
    starts = program.starts("instructions", "blocks")
    first_block = np.searchsorted(program.block_core, np.arange(program.lnc))
    fences = fence_rows(program).tolist()
    block_of = program.instructions.block
    by_block: dict[int, list[int]] = {}
    for row in fences:
        by_block.setdefault(int(block_of[row]), []).append(row)
    outer = [
        [row for row in fences if program.instruction_core[row] == core and found.of_block[block_of[row]] == NONE]
        for core in range(program.lnc)
    ]
    core_begin = np.searchsorted(program.instruction_core, np.arange(program.lnc + 1)).tolist()

    def outside(core: int, block: int) -> tuple[int, int]:
        """The epoch outside loops around a block's first row, on a core's list."""
        row = int(starts[block])
        before = [fence for fence in outer[core] if fence < row]
        behind = [fence for fence in outer[core] if fence >= row]
        return before[-1] + 1 if before else core_begin[core], (behind[0] if behind else core_begin[core + 1]) + 1

    first, last = np.empty(len(access), np.int64), np.empty(len(access), np.int64)
    rows = program.accesses.instruction[access].tolist()
    owners = program.location_core[program.owner[program.accesses.location[access]]].tolist()
    for at, (row, owner) in enumerate(zip(rows, owners, strict=True)):
        first[at], last[at] = row, row + 1
        core = int(program.instruction_core[row])
        if core == owner:
            continue
        block = int(block_of[row])
        # Blocks are the same on all cores: the owner's block of the same number.
        theirs = block - int(first_block[core]) + int(first_block[owner])
        mine_before = sum(fence < row for fence in by_block.get(block, []))
        their_fences = by_block.get(theirs, [])
        if found.of_block[block] == NONE:
            index = sum(fence < row for fence in outer[core])
            bounds = [core_begin[owner] - 1, *outer[owner], core_begin[owner + 1]]
            index = min(index, len(bounds) - 2)
            first[at], last[at] = bounds[index] + 1, bounds[index + 1] + 1
        elif 0 < mine_before < len(their_fences):
            first[at], last[at] = their_fences[mine_before - 1] + 1, their_fences[mine_before] + 1
        else:
            loop = found.loops[found.outermost(theirs)]
            begin, _ = outside(owner, loop.header)
            _, end = outside(owner, loop.last)
            first[at], last[at] = min(begin, int(starts[loop.header])), max(end, int(starts[loop.last + 1]))
    return first, last


def cover_loops(program: Program, found: Loops, access: Ints, begin: Ints, end: Ints) -> None:
    """Widen lifetimes, in place, over loops that a value is live around or lives into."""
    starts = program.starts("instructions", "blocks")
    spans = [(int(starts[loop.header]), int(starts[loop.last + 1])) for loop in found.loops]
    for each in found.loops:
        # The branch reads its condition when the header ends.
        cond = int(program.owner[program.blocks.cond[each.header]])
        begin[cond] = min(begin[cond], int(starts[each.header + 1]) - 1)
        end[cond] = max(end[cond], int(starts[each.header + 1]))
    owner = program.owner[program.accesses.location[access]]
    by_owner = np.argsort(owner, kind="stable")
    cuts = np.searchsorted(owner[by_owner], np.arange(len(program.locations) + 1)).tolist()
    core_of_owner, x = program.location_core, extents(program)
    with interpreted():
        for location in np.unique(owner).tolist():
            mine = access[by_owner[cuts[location] : cuts[location + 1]]]
            core = int(core_of_owner[location])
            shift = int(np.searchsorted(program.block_core, core))
            inside = _home_loop(program, found, mine, shift)
            if inside != NONE and not _written_first(program, found, x, mine, shift, inside):
                loop = inside
                while found.loops[loop].parent != NONE:
                    loop = found.loops[loop].parent
                begin[location] = min(begin[location], spans[loop][0])
                end[location] = max(end[location], spans[loop][1])
            # Inner loops first: what reaches out of one covers it, and may then reach into the next.
            for low, high in reversed(spans):
                meets = begin[location] < high and low < end[location]
                if meets and not (low <= begin[location] and end[location] <= high):
                    begin[location], end[location] = min(begin[location], low), max(end[location], high)


def _home_loop(program: Program, found: Loops, accesses: Ints, shift: int) -> int:
    """The innermost loop, on the owner's core, that contains every access; NONE when there is none."""
    chains = []
    for row in program.accesses.instruction[accesses].tolist():
        block = int(program.instructions.block[row])
        core = int(program.instruction_core[row])
        theirs = block - int(np.searchsorted(program.block_core, core)) + shift
        chains.append(found.around(theirs))
    common = chains[0]
    for chain in chains[1:]:
        common = [loop for loop, other in zip(common, chain, strict=False) if loop == other]
    return common[-1] if common else NONE


def _written_first(program: Program, found: Loops, x: Extents, accesses: Ints, shift: int, home: int) -> bool:
    """Whether every iteration of `home` writes the location in whole before it reads any of it."""
    rows = program.accesses.instruction[accesses]
    order = accesses[np.lexsort((program.accesses.write[accesses], program.instructions.seq[rows]))]
    size = int(program.locations.size[program.accesses.location[order[0]]])
    pieces: list[int] = []
    covered = 0
    for access in order.tolist():
        row = int(program.accesses.instruction[access])
        block = int(program.instructions.block[row])
        theirs = block - int(np.searchsorted(program.block_core, program.instruction_core[row])) + shift
        if not program.accesses.write[access] or int(found.of_block[theirs]) != home:
            return False
        pattern = program.pattern(int(program.accesses.pattern[access])) or Pattern(0, size)
        if pattern.is_unknown or len(pieces) == MOST_PIECES:
            return False
        if any(_scan_meets(x, access, piece) for piece in pieces):
            return False
        pieces.append(access)
        covered += pattern.nbytes
        if covered >= size:
            return True
    return False
