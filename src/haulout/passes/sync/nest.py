"""What stands before what in every run: blocks that dominate, loops around two rows, signals that surely lie between.

Blocks are rows of `blocks` in layout order. The block behind a loop is entered from the loop's header, whatever the
body did; both arms of a branch and its join are entered from the fork, whichever arm runs; every other block from the
one before it in layout. So `entered_from` is the tree of dominators.

    ^entry → ^header → ^body → ^latch          entered_from:  header ← entry, body ← header, latch ← body,
                └──────────────→ ^behind                      behind ← header

    ^fork → ^then ──────→ ^join                               then ← fork, else ← fork, join ← fork
         └─→ ^else ──────↗

What lies between two places differs from run to run. A loop that is passed counts with its fewest and its most turns,
a branch with the least and the most of its arms: `Count`. Where the two are equal the count is a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.analysis.regions import Regions
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints

MOST = 2**62
"""Counts of signals from here on are treated as not known."""


@dataclass(frozen=True, slots=True)
class Nest:
    """The control flow of a whole program as this pass needs it."""

    found: Regions
    starts: Ints
    """Instructions of block b: rows `starts[b]:starts[b + 1]`."""
    entered_from: Ids
    """Block -> the block whose end is known to be its entry; NONE for the first of a function."""
    loop_at: dict[int, int]
    """Block -> the loop that it is the header of."""
    branch_at: dict[int, int]
    """Block -> the branch that it is the fork of."""
    loop_behind: dict[int, int]
    """Block -> the loop that it stands right behind."""
    joined: dict[int, int]
    """Block -> the branch that it is the join of."""

    def dominates(self, first: int, second: int) -> bool:
        """Whether every run that comes to block `second` has been in block `first`."""
        while second > first:
            second = int(self.entered_from[second])
        return first == second

    def innermost_common(self, first: int, second: int) -> int:
        """The innermost loop around two blocks, NONE when there is none."""
        common = NONE
        for one, other in zip(self.found.loops_around(first), self.found.loops_around(second), strict=False):
            if one != other:
                break
            common = one
        return common

    @property
    def divergent(self) -> Bools:
        """Blocks that some cores may run while others do not."""
        found = self.found
        apart = [not region.is_loop and found.branches[region.branch].divergent for region in found.regions]
        for index, region in enumerate(found.regions):
            apart[index] |= region.parent != NONE and apart[region.parent]
        # NONE picks the entry behind the last region's.
        return np.array([*apart, False])[found.of_block]

    def rows_of(self, region: int) -> tuple[int, int]:
        """Rows of a loop, header included, or of an arm."""
        item = self.found.regions[region]
        return int(self.starts[item.first]), int(self.starts[item.last + 1])


def make_nest(program: Program, found: Regions) -> Nest:
    """The nest of a program whose regions are `found`."""
    blocks = len(program.blocks)
    entered = np.arange(blocks, dtype=np.int32) - 1
    function = program.blocks.function
    entered[np.flatnonzero(np.append(True, function[1:] != function[:-1])[:blocks])] = NONE
    behind = {loop.last + 1: index for index, loop in enumerate(found.regions) if loop.is_loop}
    for block, index in behind.items():
        entered[block] = found.regions[index].header
    for branch in found.branches:
        for arm in branch.arms:
            entered[found.regions[arm].first] = branch.fork
        entered[branch.join] = branch.fork
    starts = program.starts("instructions", "blocks")
    return Nest(found, starts, entered, found.headers, found.forks, behind, found.joins)


class Count(NamedTuple):
    """How many signals, in the run that has the fewest and in the one that has the most."""

    least: int
    most: int

    def plus(self, other: Count) -> Count:
        """One after the other."""
        return Count(self.least + other.least, min(self.most + other.most, MOST))

    def either(self, other: Count) -> Count:
        """The one or the other."""
        return Count(min(self.least, other.least), max(self.most, other.most))

    def times(self, trip: int) -> Count:
        """`trip` times, NONE: any number of times."""
        if trip == NONE:
            return Count(0, MOST if self.most else 0)
        return Count(self.least * trip, min(self.most * trip, MOST))


NOTHING = Count(0, 0)


class Between:
    """Signals of one semaphore: how many stand before a place, and how many lie between two places, in every run.

    `at[k]` is the number of signals in the function's rows before its k-th.
    """

    def __init__(self, nest: Nest, first_row: int, at: Ints) -> None:
        self.nest, self.first_row, self.at = nest, first_row, at
        self._of_region: dict[int, Count] = {}

    def rows(self, begin: int, end: int) -> int:
        """Signals of rows `begin:end`, each counted once."""
        return int(self.at[end - self.first_row] - self.at[begin - self.first_row])

    def block(self, block: int) -> Count:
        """Signals of a block."""
        count = self.rows(int(self.nest.starts[block]), int(self.nest.starts[block + 1]))
        return Count(count, count)

    # -- what is passed in whole ---------------------------------------------------------------------------------

    def sequence(self, begin: int, end: int) -> Count:
        """Blocks `begin:end` of one region, with the loops and branches among them in whole."""
        total, block, nest = NOTHING, begin, self.nest
        while block < end:
            if block in nest.loop_at:
                total = total.plus(self.loop(nest.loop_at[block]))
                block = nest.found.regions[nest.loop_at[block]].last + 1
                continue
            total = total.plus(self.block(block))
            if block in nest.branch_at:
                total = total.plus(self.arms(nest.branch_at[block]))
                block = nest.found.branches[nest.branch_at[block]].join
            else:
                block += 1
        return total

    def body(self, region: int) -> Count:
        """An arm, or one turn of a loop without its header."""
        if region not in self._of_region:
            item = self.nest.found.regions[region]
            self._of_region[region] = self.sequence(item.first + item.is_loop, item.last + 1)
        return self._of_region[region]

    def loop(self, region: int) -> Count:
        """All turns of a loop, and the header's last run."""
        item = self.nest.found.regions[region]
        header = self.block(item.header)
        return header.plus(self.body(region)).times(item.trip).plus(header)

    def arms(self, branch: int) -> Count:
        """Whichever arm is taken; a branch of one arm may run neither."""
        first, *more = self.nest.found.branches[branch].arms
        return self.body(first).either(self.body(more[0]) if more else NOTHING)

    # -- between two places --------------------------------------------------------------------------------------

    def ahead(self, first: int, second: int) -> Count:
        """From the end of block `first`'s latest run to the start of block `second`, which it dominates.

        `first` is NONE: from the start of the function.
        """
        total, nest = NOTHING, self.nest
        while second != first:
            source = int(nest.entered_from[second])
            if second in nest.joined:
                total = total.plus(self.arms(nest.joined[second]))
            if source != first:
                passed = second in nest.loop_behind
                total = total.plus(self.loop(nest.loop_behind[second]) if passed else self.block(source))
            second = source
        return total

    def rest(self, row: int, block: int, loop: int) -> Count:
        """From behind `row`'s last run in a turn of `loop`, around it, to the end of that turn."""
        nest, regions = self.nest, self.nest.found.regions
        end = int(nest.starts[block + 1])
        total = Count(*[self.rows(row + 1, end)] * 2)
        region, here = int(nest.found.of_block[block]), block + 1
        if block in nest.branch_at:
            branch = nest.branch_at[block]
            total, here = total.plus(self.arms(branch)), nest.found.branches[branch].join
        leaving = regions[region].is_loop and block == regions[region].header and region != loop
        while True:
            item = regions[region]
            if not leaving:
                total = total.plus(self.sequence(here, item.last + 1))
            if region == loop:
                return total
            if item.is_loop:
                if not leaving:
                    # The header runs once more to leave.
                    total = total.plus(self.block(item.header))
                here = item.last + 1
            else:
                here = nest.found.branches[item.branch].join
            region, leaving = item.parent, False

    def forward(self, producer: int, block: int, row: int, row_block: int) -> Count:
        """Between the latest run of `producer` and `row`, which it dominates."""
        if block == row_block:
            count = self.rows(producer + 1, row)
            return Count(count, count)
        ends = self.rows(producer + 1, int(self.nest.starts[block + 1]))
        ends += self.rows(int(self.nest.starts[row_block]), row)
        return self.ahead(block, row_block).plus(Count(ends, ends))

    def carried(self, producer: int, block: int, row: int, row_block: int, loop: int) -> Count:
        """Between the latest run of `producer` in the turn before of `loop`, and `row` in this one."""
        header = self.nest.found.regions[loop].header
        turn = self.rest(producer, block, loop)
        return turn.plus(self.forward(int(self.nest.starts[header]) - 1, header, row, row_block))

    def before(self, row: int, block: int) -> int | None:
        """How many stand before `row` whenever it runs; None when that is not one number."""
        for loop in self.nest.found.loops_around(block):
            if self.rows(*self.nest.rows_of(loop)):
                return None
        here = self.rows(int(self.nest.starts[block]), row)
        total = self.ahead(NONE, block).plus(Count(here, here))
        return total.least if total.least == total.most < MOST else None
