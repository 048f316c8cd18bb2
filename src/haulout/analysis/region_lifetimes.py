"""Lifetimes in programs with loops and forks, as ranges of list positions.

Layout order is an order in time of what runs once: block of the fork, first arm, second arm and join follow each
other, and of two arms only one runs. So the hull of the positions of accesses is a lifetime, if two things are added.

Epochs. Outside regions they are cut by the fences outside regions, since a loop may run zero times, and an arm may
not be taken. Inside a region, what is between two fences of one block is an epoch of that block. (The fence that
closes an epoch belongs to it: a core may have nothing else there.) An access by another core before the first or
after the last fence of a block in a region has no such bounds. It occupies the outermost region around it, and the
epoch outside that has this region. So does one in an arm of a divergent fork: where its core is tells nothing of
where the owner is. (So the value of a location that two cores touch in such an arm needs no analysis: it is held.)

Values. A location that is touched inside a loop and outside it is live in the whole loop. So is one whose value is
carried from iteration to iteration: one that is live into the header (`liveness.py`). Writes count when they write
the whole before it is read, in pieces that are disjoint and make up the whole if need be. An arm has no such
boundary: what is live into it, or out of it, is live in the part of the list between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from haulout.analysis.liveness import carried_values
from haulout.analysis.overlap import _scan_meets, extents
from haulout.analysis.straightline import fence_rows
from haulout.ir.enums import NONE, Kind
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.support.jit import interpreted

MAX_PIECES = 64


def region_ranges(program: Program, access: Ints) -> tuple[Ints, Ints]:
    """Rows that each access occupies on its owner's list."""
    structure, starts = program.structure, program.starts("instructions", "blocks").tolist()
    blocks = len(program.blocks) // program.lnc
    block_of, core_of = program.instructions.block, program.instruction_core
    in_block: dict[int, list[int]] = defaultdict(list)
    outer: list[list[int]] = [[] for _ in range(program.lnc)]
    for row in fence_rows(program).tolist():
        block = int(block_of[row])
        in_block[block].append(row)
        if structure.region_of[block] == NONE:
            outer[int(core_of[row])].append(row)
    core_begin = np.searchsorted(core_of, np.arange(program.lnc + 1)).tolist()
    bounds = [[core_begin[core] - 1, *outer[core], core_begin[core + 1]] for core in range(program.lnc)]
    """Of each core: what ends its epochs outside regions, and the position before its first row."""
    rows = program.accesses.instruction[access]
    owners = program.location_core[program.owner[program.accesses.location[access]]].tolist()
    first, last = rows.astype(np.int64), rows.astype(np.int64) + 1
    for at, (row, core, block, owner) in enumerate(
        zip(rows.tolist(), core_of[rows].tolist(), block_of[rows].tolist(), owners, strict=True)
    ):
        if core == owner:
            continue
        # Blocks are the same on all cores: the owner's block of the same number.
        theirs = block + (owner - core) * blocks
        if structure.region_of[block] == NONE:
            index = min(bisect_left(outer[core], row), len(bounds[owner]) - 2)
            first[at], last[at] = bounds[owner][index] + 1, bounds[owner][index + 1] + 1
            continue
        mine, others = bisect_left(in_block[block], row), in_block[theirs]
        if structure.divergent_fork(block) == NONE and 0 < mine < len(others):
            first[at], last[at] = others[mine - 1] + 1, others[mine] + 1
        else:
            outermost = structure.regions[structure.around(theirs)[0]]
            before, after = (bisect_left(outer[owner], starts[end]) for end in (outermost.begin, outermost.end))
            first[at], last[at] = bounds[owner][before] + 1, bounds[owner][after + 1] + 1
    return first, last


def cover_loops(program: Program, access: Ints, begin: Ints, end: Ints) -> None:
    """Widen lifetimes, in place: to where conditions are read, over loops that values live around or reach into."""
    structure, starts = program.structure, program.starts("instructions", "blocks").tolist()
    fences = set(fence_rows(program).tolist())
    for block in np.flatnonzero(program.blocks.cond != NONE).tolist():
        # The condition is read when the block ends: after a fence that ends the block, in the next epoch.
        cond, last = int(program.owner[program.blocks.cond[block]]), starts[block + 1] - 1
        begin[cond] = min(begin[cond], last)
        end[cond] = max(end[cond], last + 1 + (last in fences))
    spans = {number: (starts[loop.begin], starts[loop.end]) for number, loop in structure.loops.items()}
    block_of, core_of = program.instructions.block.tolist(), program.instruction_core.tolist()

    def loops_at(core: int, row: int) -> list[tuple[int, int]]:
        """Rows of the loops around a row of a core, the outermost first; none after the core's last row."""
        if row >= len(core_of) or core_of[row] != core:
            return []
        return [spans[loop] for loop in structure.loops_around(block_of[row])]

    for location, header in _carried(program, access):
        low, high = spans[structure.loop_at[header]]
        begin[location], end[location] = min(begin[location], low), max(end[location], high)
    for location in np.flatnonzero(begin < end).tolist():
        core, first, last = int(program.location_core[location]), int(begin[location]), int(end[location]) - 1
        # What reaches out of a loop covers it: the outermost loop around one end that is not around the other.
        begin[location] = next((low for low, high in loops_at(core, first) if not low <= last < high), first)
        end[location] = next((high for low, high in loops_at(core, last) if not low <= first < high), last + 1)


@dataclass(slots=True)
class _Touched:
    """How one location is touched."""

    accesses: dict[int, list[int]] = field(default_factory=dict)
    """Block number -> accesses there, in source order; blocks ascend."""
    conditions: set[int] = field(default_factory=set)
    """Blocks of which it is the condition."""

    def blocks(self) -> list[int]:
        """Where it is touched."""
        return sorted({*self.accesses, *self.conditions})


def _carried(program: Program, access: Ints) -> list[tuple[int, int]]:
    """(location, header of the outermost loop, on its owner's core, that its value lives around)."""
    structure, blocks = program.structure, len(program.blocks) // program.lnc
    written = _WrittenFirst(program)
    candidates: list[tuple[int, list[int]]] = []
    exposed, killed = [0] * blocks, [0] * blocks
    for location, touched in _touches(program, access, blocks).items():
        common = structure.common_region(min(touched.blocks()), max(touched.blocks()))
        headers = [structure.loops[loop].header for loop in structure.loop_nesting[common]]
        if not headers or (not touched.conditions and written.in_region(touched, common)):
            continue
        bit = 1 << len(candidates)
        candidates.append((location, headers))
        for block in touched.blocks():
            reads, kills = written.in_block(touched, block)
            exposed[block] |= bit if reads else 0
            killed[block] |= bit if kills else 0
    live = carried_values(program, exposed, killed) if candidates else {}
    shift = (program.location_core * blocks).tolist()
    return [
        (location, carriers[0] + shift[location])
        for number, (location, headers) in enumerate(candidates)
        if (carriers := [header for header in headers if live[header] >> number & 1])
    ]


def _touches(program: Program, access: Ints, blocks: int) -> dict[int, _Touched]:
    """Internal owner locations and how they are touched; in the order in which they are declared."""
    accesses = program.accesses
    internal = program.locations.kind == Kind.INTERNAL
    owner = program.owner[accesses.location[access]]
    access, owner = access[internal[owner]], owner[internal[owner]]
    row = accesses.instruction[access]
    block, core = program.instructions.block[row] % blocks, program.instruction_core[row]
    cores = np.zeros((len(program.locations), program.lnc), bool)
    cores[owner, core] = True
    # Equal times on several cores say nothing of the order: reads first. On one core the list does.
    listed = np.where(cores.sum(axis=1)[owner] == 1, row, NONE)
    order = np.lexsort((accesses.write[access], listed, program.instructions.seq[row], block, owner))
    found: dict[int, _Touched] = defaultdict(_Touched)
    for location, at, place in zip(owner[order].tolist(), access[order].tolist(), block[order].tolist(), strict=True):
        found[location].accesses.setdefault(place, []).append(at)
    for place in np.flatnonzero(program.blocks.cond != NONE).tolist():
        cond = int(program.owner[program.blocks.cond[place]])
        if internal[cond]:
            found[cond].conditions.add(place % blocks)
    return dict(sorted(found.items()))


def _touches_once(pattern: Pattern) -> bool:
    """Whether it is known that no byte is touched twice: every stride is beyond all that the smaller ones reach."""
    if pattern.is_unknown:
        return False
    reach = pattern.run
    for stride, count in sorted((abs(stride), count) for stride, count in pattern.dims if count > 1):
        if stride < reach:
            return False
        reach += stride * (count - 1)
    return True


class _WrittenFirst:
    """Whether a location is written in whole before it is read."""

    def __init__(self, program: Program) -> None:
        self.program, self.x = program, extents(program)
        self.moving = set(program.steps.access.tolist())

    def in_block(self, touched: _Touched, block: int) -> tuple[bool, bool]:
        """(some read is exposed, it is written in whole) in one block, which reads its condition at its end."""
        inside = touched.accesses.get(block, [])
        reads, kills = self._judge(inside, inside)
        return reads or (block in touched.conditions and not kills), kills

    def in_region(self, touched: _Touched, region: int) -> bool:
        """Whether every run of a region that contains all accesses writes all of it first."""
        direct = [
            at
            for block, accesses in touched.accesses.items()
            if self.program.structure.region_of[block] == region
            for at in accesses
        ]
        reads, kills = self._judge(list(chain.from_iterable(touched.accesses.values())), direct)
        return kills and not reads

    def _judge(self, accesses: list[int], counting: list[int]) -> tuple[bool, bool]:
        """(a read comes before the whole is written, the whole is written); of writes those that surely happen."""
        program, surely = self.program, set(counting)
        pieces: list[int] = []
        covered, reads = 0, False
        with interpreted():
            for access in accesses:
                if not program.accesses.write[access]:
                    reads = True
                    continue
                size = int(program.locations.size[program.accesses.location[access]])
                pattern = program.pattern(int(program.accesses.pattern[access])) or Pattern(0, size)
                if access not in surely or access in self.moving or not _touches_once(pattern):
                    continue
                if len(pieces) == MAX_PIECES or any(_scan_meets(self.x, access, piece) for piece in pieces):
                    continue
                pieces.append(access)
                covered += pattern.nbytes
                if covered >= size:
                    return reads, True
        return reads, False
