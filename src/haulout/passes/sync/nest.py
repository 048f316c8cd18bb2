"""What stands before what in every run: blocks that dominate, loops around two rows, signals that surely lie between.

Blocks are rows of `blocks` in layout order. The block behind a loop is entered from the loop's header, whatever the
body did; every other block from the one before it in layout. So `entered_from` is the tree of dominators.

    ^entry → ^header → ^body → ^latch          entered_from:  header ← entry, body ← header, latch ← body,
                └──────────────→ ^behind                      behind ← header
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.analysis.loops import Loops
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Ids, Ints

MOST = 2**62
"""Counts of signals beyond this are treated as not known."""


@dataclass(frozen=True, slots=True)
class Nest:
    """The control flow of a whole program as this pass needs it."""

    found: Loops
    starts: Ints
    """Instructions of block b: rows `starts[b]:starts[b + 1]`."""
    entered_from: Ids
    """Block -> the block whose end is known to be its entry; NONE for the first of a function."""
    header_of: dict[int, int]
    """Block -> index of the loop that it is the header of."""

    def dominates(self, first: int, second: int) -> bool:
        """Whether every run that comes to block `second` has been in block `first`."""
        while second > first:
            second = int(self.entered_from[second])
        return first == second

    def innermost_common(self, first: int, second: int) -> int:
        """The innermost loop around two blocks, NONE when there is none."""
        common = NONE
        for one, other in zip(self.found.around(first), self.found.around(second), strict=False):
            if one != other:
                break
            common = one
        return common

    def rows_of(self, loop: int) -> tuple[int, int]:
        """Rows of a loop, header included."""
        item = self.found.loops[loop]
        return int(self.starts[item.header]), int(self.starts[item.last + 1])


def make_nest(program: Program, found: Loops) -> Nest:
    """The nest of a program whose loops are `found`."""
    blocks = len(program.blocks)
    entered = np.arange(blocks, dtype=np.int32) - 1
    function = program.blocks.function
    entered[np.flatnonzero(np.append(True, function[1:] != function[:-1])[:blocks])] = NONE
    for loop in found.loops:
        if loop.last + 1 < blocks and function[loop.last + 1] == function[loop.header]:
            entered[loop.last + 1] = loop.header
    headers = {loop.header: index for index, loop in enumerate(found.loops)}
    return Nest(found, program.starts("instructions", "blocks"), entered, headers)


class Between:
    """Signals of one semaphore: how many stand before a place, and how many lie between two places, in every run.

    `at[k]` is the number of signals in the function's rows before its k-th. A loop that is passed through counts
    with the fewest trips that it can have, so what is counted is never more than what a run does.
    """

    def __init__(self, nest: Nest, first_row: int, at: Ints) -> None:
        self.nest, self.first_row, self.at = nest, first_row, at

    def rows(self, begin: int, end: int) -> int:
        """Signals of rows `begin:end`, each counted once."""
        return int(self.at[end - self.first_row] - self.at[begin - self.first_row])

    def block(self, block: int) -> int:
        """Signals of a block."""
        return self.rows(int(self.nest.starts[block]), int(self.nest.starts[block + 1]))

    def passed(self, begin: int, end: int) -> int:
        """The least of blocks `begin:end`, loops in whole; the two ends stand at one depth."""
        total, block = 0, begin
        while block < end:
            loop = self.nest.header_of.get(block)
            if loop is None:
                total += self.block(block)
                block += 1
                continue
            item = self.nest.found.loops[loop]
            trips = max(item.trip, 0)
            total += (trips + 1) * self.block(block) + trips * self.passed(block + 1, item.last + 1)
            block = item.last + 1
        return total

    def to(self, begin: int, row: int, block: int) -> int:
        """The least from the start of block `begin` to `row` in `block`, in the first turn of loops around it."""
        total, here = 0, begin
        while here < block:
            loop = self.nest.header_of.get(here)
            if loop is not None and self.nest.found.loops[loop].last < block:
                last = self.nest.found.loops[loop].last
                total += self.passed(here, last + 1)
                here = last + 1
            else:
                total += self.block(here)
                here += 1
        return total + self.rows(int(self.nest.starts[block]), row)

    def leave(self, row: int, block: int, loop: int) -> tuple[int, int]:
        """The least behind `row`'s last turn until the loops inside `loop` are left: (signals, the block there)."""
        loops, starts = self.nest.found.loops, self.nest.starts
        total = self.rows(row + 1, int(starts[block + 1]))
        here = block + 1
        inside = self.nest.found.around(block)
        inside = inside[inside.index(loop) + 1 :] if loop != NONE else inside
        for index in reversed(inside):
            item = loops[index]
            if block != item.header:
                # The turn is ended, and the header runs once more to leave.
                total += self.passed(here, item.last + 1) + self.block(item.header)
            here = item.last + 1
            block = NONE
        return total, here

    def forward(self, producer: int, block: int, row: int, row_block: int) -> int:
        """The least between the latest run of `producer` and `row`, which it dominates."""
        if block == row_block:
            return self.rows(producer + 1, row)
        total, here = self.leave(producer, block, self.nest.innermost_common(block, row_block))
        return total + self.to(here, row, row_block)

    def carried(self, producer: int, block: int, row: int, row_block: int, loop: int) -> int:
        """The least between the latest run of `producer` in the turn before of `loop`, and `row` in this one."""
        item = self.nest.found.loops[loop]
        if block == item.header:
            total, here = self.rows(producer + 1, int(self.nest.starts[block + 1])), block + 1
        else:
            total, here = self.leave(producer, block, loop)
        return total + self.passed(here, item.last + 1) + self.to(item.header, row, row_block)

    def before(self, row: int, block: int, first_block: int) -> int | None:
        """How many stand before `row` whenever it runs; None when that is not one number."""
        loops = self.nest.found.loops
        for loop in self.nest.found.around(block):
            if self.rows(*self.nest.rows_of(loop)):
                return None
        for index, loop_ in enumerate(loops):
            passed = first_block <= loop_.header and loop_.last < block
            if passed and loop_.trip == NONE and self.rows(*self.nest.rows_of(index)):
                return None
        total = self.to(first_block, row, block)
        return total if total < MOST else None
