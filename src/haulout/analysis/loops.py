"""Structured control flow: a function's blocks in layout order are a sequence of nested loops and straight blocks.

    preheader -> ^header            a loop: the header has `cond` and two successors, the first body block and the
    ^header -> ^body, ^behind       block behind the loop; the last body block (the latch) leads back to the header.
    ^body ... ^latch -> ^header     Header, body and latch stand together in layout.
    ^behind

The header runs once more than the body. Everything else (branches that join, loops left in the middle, blocks that
only some cores run) is refused, with its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.ir.verify import place
from haulout.support.diagnostics import Label, bad_input


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop. Blocks are rows of `blocks`."""

    header: int
    last: int
    """The latch: the last block of the loop in layout."""
    parent: int
    """Index of the loop around it, NONE when there is none."""
    trip: int
    """How often the body runs; NONE: not known."""

    @property
    def may_run_zero_times(self) -> bool:
        """Whether what stands around it must not lean on it."""
        return self.trip <= 0


@dataclass(frozen=True, slots=True)
class Loops:
    """All loops of a program, outer ones before inner ones, and the innermost loop of each block."""

    loops: list[Loop]
    of_block: Ids

    def __bool__(self) -> bool:
        return bool(self.loops)

    def around(self, block: int) -> list[int]:
        """Loops that contain a block, the outermost first."""
        found = []
        loop = int(self.of_block[block])
        while loop != NONE:
            found.append(loop)
            loop = self.loops[loop].parent
        return found[::-1]

    def outermost(self, block: int) -> int:
        """The outermost loop that contains a block, NONE when it is in none."""
        around = self.around(block)
        return around[0] if around else NONE


def find_loops(program: Program) -> Loops:
    """The loop structure; raises `bad-input` at the first block that does not fit it."""
    blocks, edges = program.blocks, program.edges
    starts = program.starts("edges", "blocks").tolist()
    successors = [edges.target[starts[row] : starts[row + 1]].tolist() for row in range(len(blocks))]
    function = blocks.function.tolist()
    of_block = np.full(len(blocks), NONE, np.int32)
    loops: list[Loop] = []
    open_loops: list[int] = []
    for row, targets in enumerate(successors):
        following = row + 1 if row + 1 < len(blocks) and function[row + 1] == function[row] else NONE
        if blocks.divergent[row]:
            _refuse(program, row, "cores may take different branches here")
        if len(targets) == 2:
            body, behind = targets
            if blocks.cond[row] == NONE:
                _refuse(program, row, "it has two successors and no cond")
            if body != following or behind <= row + 1 or function[behind - 1] != function[row]:
                _refuse(program, row, "its successors are not a loop's body and the block behind the loop")
            if open_loops and behind > loops[open_loops[-1]].last:
                _refuse(program, row, "its loop does not end inside the loop around it")
            parent = open_loops[-1] if open_loops else NONE
            loops.append(Loop(row, behind - 1, parent, int(blocks.trip[row])))
            open_loops.append(len(loops) - 1)
        elif blocks.cond[row] != NONE or blocks.trip[row] != NONE:
            _refuse(program, row, "cond and trip belong to the header of a loop")
        of_block[row] = open_loops[-1] if open_loops else NONE
        if open_loops and row == loops[open_loops[-1]].last and len(targets) != 2:
            if targets != [loops[open_loops[-1]].header]:
                _refuse(program, row, "the last block of a loop must lead back to its header")
            # Several loops never end in one block: the outer latch leads to the outer header.
            open_loops.pop()
        elif len(targets) == 1 and targets[0] != following:
            _refuse(program, row, "it does not lead to the next block")
        elif not targets and (following != NONE or open_loops):
            _refuse(program, row, "the function returns before its last block")
    return Loops(loops, of_block)


def _refuse(program: Program, row: int, why: str) -> NoReturn:
    name = program.strings[int(program.blocks.name[row])]
    span = place(program, NONE, int(program.blocks.text_line[row]))
    bad_input(
        f"control flow of this form is not supported yet: block ^{name}: {why}",
        Label(f"^{name} on core {program.block_core[row]}", span),
    )


@dataclass(frozen=True, slots=True)
class Copy:
    """A block in an unrolled list: which, and in which copy of each loop around it (outermost first)."""

    block: int
    loops: tuple[int, ...]
    copies: tuple[int, ...]


def unrolled(program: Program, found: Loops, skipped: frozenset[int]) -> list[Copy]:
    """All blocks in the order in which they run when every loop runs twice, those in `skipped` not at all.

    A header stands in the list once more than its body. A loop that is known to run once has one copy.
    """
    return _unroll(found, range(len(program.blocks)), skipped, (), ())


def _unroll(
    found: Loops, blocks: range, skipped: frozenset[int], loops: tuple[int, ...], copies: tuple[int, ...]
) -> list[Copy]:
    result: list[Copy] = []
    row = blocks.start
    headers = {loop.header: index for index, loop in enumerate(found.loops)}
    while row < blocks.stop:
        index = headers.get(row)
        if index is None or index in loops:
            result.append(Copy(row, loops, copies))
            row += 1
            continue
        loop = found.loops[index]
        times = 0 if index in skipped or loop.trip == 0 else 1 if loop.trip == 1 else 2
        for copy in range(times + 1):
            inside = (*copies, copy)
            result.append(Copy(row, (*loops, index), inside))
            if copy < times:
                result += _unroll(found, range(row + 1, loop.last + 1), skipped, (*loops, index), inside)
        row = loop.last + 1
    return result


def variants(program: Program, found: Loops) -> list[frozenset[int]]:
    """Which loops not to run, for every list that must be looked at; the same ones on all cores.

    None skipped; then, when some may run zero times, all of those, and each alone when there are several: an edge
    around a loop must not lean on what only runs inside it.
    """
    core = program.block_core[[loop.header for loop in found.loops]].tolist() if found else []
    ordinal = [index - core.index(each) for index, each in enumerate(core)]
    zero = [index for index, loop in enumerate(found.loops) if loop.may_run_zero_times]
    chosen = [frozenset[int]()]
    if zero:
        chosen.append(frozenset(zero))
    kinds = sorted({ordinal[index] for index in zero})
    if len(kinds) > 1:
        chosen += [frozenset(index for index in zero if ordinal[index] == kind) for kind in kinds]
    return chosen
