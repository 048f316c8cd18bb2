"""How many signals of one semaphore come before a place, and between two places, in every run.

What is between two places differs from run to run. A loop that is passed counts with its fewest and its most
iterations, a fork with the least and the most of its arms: `Count`. Where the two are equal the count is a constant.

From a block to one that it dominates the walk climbs the tree of dominators; to the end of an iteration it climbs
that of post-dominators. What a step passes is a block, a loop as a whole, or the arms of a fork:

    ^entry → ^header → ^body → ^latch          dominator:  header ← entry, body ← header, latch ← body,
                └──────────────→ ^after                    after ← header

    ^fork → ^then ──────→ ^join                            then ← fork, else ← fork, join ← fork
         └─→ ^else ──────↗
"""

from __future__ import annotations

from bisect import bisect_left
from functools import reduce
from typing import NamedTuple

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.ir.structure import Fork, Loop

COUNT_LIMIT = 2**62
"""Counts of signals from here on are treated as not known."""


class Count(NamedTuple):
    """How many signals, in the run that has the fewest and in the one that has the most."""

    least: int
    most: int

    def plus(self, other: Count) -> Count:
        """One after the other."""
        return Count(self.least + other.least, min(self.most + other.most, COUNT_LIMIT))

    def either(self, other: Count) -> Count:
        """The one or the other."""
        return Count(min(self.least, other.least), max(self.most, other.most))

    def times(self, trip: int) -> Count:
        """`trip` times, NONE: any number of times."""
        if trip == NONE:
            return Count(0, COUNT_LIMIT if self.most else 0)
        return Count(self.least * trip, min(self.most * trip, COUNT_LIMIT))


NOTHING = Count(0, 0)


class Between:
    """Signals of one semaphore in a function: how many are before a place, and between two places, in every run."""

    def __init__(self, program: Program, function: int, signals: Ids) -> None:
        self.structure = program.structure
        self.starts: list[int] = program.starts("instructions", "blocks").tolist()
        self.signals: list[int] = signals.tolist()
        blocks = self.structure.functions[function]
        self.passed = self.structure.fold(self.block, _sequence, _loop, _fork, [blocks])

    def rows(self, begin: int, end: int) -> Count:
        """Signals of rows `begin:end`, each counted once."""
        count = bisect_left(self.signals, end) - bisect_left(self.signals, begin)
        return Count(count, count)

    def block(self, block: int) -> Count:
        """Signals of a block."""
        return self.rows(self.starts[block], self.starts[block + 1])

    def ahead(self, first: int, second: int) -> Count:
        """From the end of block `first`'s latest run to the start of block `second`, which it dominates.

        `first` is NONE: from the start of the function.
        """
        total, structure = NOTHING, self.structure
        while second != first:
            source = structure.dominator[second]
            if second in structure.join_at:
                total = total.plus(self.passed.forks[structure.join_at[second]])
            if source != first:
                passed = structure.loop_before.get(second)
                total = total.plus(self.block(source) if passed is None else self.passed.regions[passed])
            second = source
        return total

    def rest(self, row: int, block: int, loop: int) -> Count:
        """From after `row`'s last run in an iteration of `loop`, around it, to the end of that iteration."""
        structure, header = self.structure, self.structure.loops[loop].header
        total = self.rows(row + 1, self.starts[block + 1])
        after = block + 1 if block == header else structure.post_dominator[block]
        while after != header:
            if block in structure.fork_at:
                total = total.plus(self.passed.forks[structure.fork_at[block]])
            # A header that comes later begins its loop; one that is led back to runs a last time.
            begins = after in structure.loop_at and after > block
            passed = self.passed.regions[structure.loop_at[after]] if begins else self.block(after)
            total = total.plus(passed)
            block, after = after, structure.post_dominator[after]
        return total

    def forward(self, producer: int, block: int, row: int, row_block: int) -> Count:
        """Between the latest run of `producer` and `row`, which it dominates."""
        if block == row_block:
            return self.rows(producer + 1, row)
        ends = self.rows(producer + 1, self.starts[block + 1]).plus(self.rows(self.starts[row_block], row))
        return self.ahead(block, row_block).plus(ends)

    def carried(self, producer: int, block: int, row: int, row_block: int, loop: int) -> Count:
        """Between the latest run of `producer` in the previous iteration of `loop`, and `row` in this one."""
        header = self.structure.loops[loop].header
        turn = self.rest(producer, block, loop)
        return turn.plus(self.forward(self.starts[header] - 1, header, row, row_block))

    def before(self, row: int, block: int) -> int | None:
        """How many come before `row` whenever it runs; None when that is not one number."""
        for loop in (self.structure.loops[number] for number in self.structure.loops_around(block)):
            if self.rows(self.starts[loop.begin], self.starts[loop.end]).most:
                return None
        total = self.ahead(NONE, block).plus(self.rows(self.starts[block], row))
        return total.least if total.least == total.most < COUNT_LIMIT else None


def _sequence(parts: list[Count]) -> Count:
    return reduce(Count.plus, parts, NOTHING)


def _loop(loop: Loop, header: Count, body: Count) -> Count:
    """All iterations, and the last run of the header."""
    return header.plus(body).times(loop.trip).plus(header)


def _fork(fork: Fork, arms: list[Count]) -> Count:
    """The arm that is taken; a fork of one arm may run none."""
    first, *others = arms
    return first.either(others[0] if others else NOTHING)
