"""Reads the structure of control flow from blocks, and refuses what is not a sequence of nested loops and forks.

One pass over the blocks in layout order; a stack has the regions around. All cores must have the same blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.labels import block_label, block_name
from haulout.ir.program import Program
from haulout.ir.structure import Arm, Fork, Loop, Region, Structure
from haulout.support.diagnostics import bad_input

MAX_DEPTH = 1000
"""Nesting depth of loops and arms. The regions around a region are a tuple, so memory is quadratic in it."""


def program_structure(program: Program) -> Structure:
    """The structure of all functions, blocks being rows of `blocks`; `bad-input` where cores differ."""
    parser = _Parser(program, range(len(program.blocks)))
    blocks = [range(*each) for each in pairwise(program.starts("blocks", "functions").tolist())]
    for rows in blocks:
        parser.function(rows.start, rows.stop)
    first_of: dict[int, range] = {}
    for name, rows in zip(program.functions.name.tolist(), blocks, strict=True):
        _compare(program, rows, first_of.setdefault(name, rows))
    return parser.structure()


def function_structure(program: Program, functions: Sequence[int]) -> Structure:
    """The structure of a function, given by its row on each core; blocks are counted from its first one.

    `bad-input` where cores differ.
    """
    found = []
    for function in functions:
        rows = block_rows(program, function)
        parser = _Parser(program, rows)
        parser.function(0, len(rows))
        found.append(parser.structure())
    for function in functions[1:]:
        _compare(program, block_rows(program, function), block_rows(program, functions[0]))
    return found[0]


def block_rows(program: Program, function: int) -> range:
    """The rows of a function's blocks."""
    begin, end = np.searchsorted(program.blocks.function, [function, function + 1]).tolist()
    return range(begin, end)


def chain(program: Program, function: int) -> list[int] | None:
    """The rows of a function's blocks in the order in which they run, when each leads to at most one other and all
    are reached, in whatever order they are laid out; else None.
    """
    rows, blocks = block_rows(program, function), program.blocks
    chosen = slice(rows.start, rows.stop)
    if ((blocks.cond[chosen] != NONE) | (blocks.trip[chosen] != NONE) | blocks.divergent[chosen]).any():
        return None
    targets = _targets(program, rows)
    found: dict[int, None] = {}
    at = 0 if targets else NONE
    while at != NONE:
        if at in found or len(targets[at]) > 1:
            return None
        found[at] = None
        at = targets[at][0] if targets[at] else NONE
    return [rows.start + at for at in found] if len(found) == len(rows) else None


def _targets(program: Program, rows: range) -> list[list[int]]:
    """The successors of some blocks, counted from the first of them."""
    cuts = np.searchsorted(program.edges.source, np.arange(rows.start, rows.stop + 1)).tolist()
    targets = (program.edges.target[cuts[0] : cuts[-1]] - rows.start).tolist()
    return [targets[begin - cuts[0] : end - cuts[0]] for begin, end in pairwise(cuts)]


@dataclass(frozen=True, slots=True)
class _Open:
    """A region that the parser is in."""

    number: int
    end: int
    leads_to: int
    """Where its last block leads: the header, or the join."""


class _Parser:
    """One pass over some blocks, counted from the first of them; a stack has the regions around."""

    def __init__(self, program: Program, rows: range) -> None:
        self.program, self.rows = program, rows
        self.targets = _targets(program, rows)
        blocks, chosen = program.blocks, slice(rows.start, rows.stop)
        self.has_cond: list[bool] = (blocks.cond[chosen] != NONE).tolist()
        self.trip: list[int] = blocks.trip[chosen].tolist()
        self.divergent: list[bool] = blocks.divergent[chosen].tolist()
        self.functions: list[range] = []
        self.regions: list[Region] = []
        self.forks: list[Fork] = []
        self.region_of: list[int] = []
        self.open: list[_Open] = []
        self.joins: set[int] = set()

    def structure(self) -> Structure:
        """What was read."""
        return Structure(tuple(self.functions), tuple(self.regions), tuple(self.forks), tuple(self.region_of))

    def function(self, begin: int, stop: int) -> None:
        """Read the blocks of a function."""
        self.functions.append(range(begin, stop))
        for at in range(begin, stop):
            self.close(at)
            targets, end = self.targets[at], self.open[-1].end if self.open else stop
            if len(targets) != 2:
                self.straight(at, targets, end)
                continue
            if not self.has_cond[at]:
                self.refuse(at, "has two successors but no cond")
            if at + 1 < targets[1] <= end and self.targets[targets[1] - 1] == [at]:
                self.loop(at, targets, end)
            else:
                self.fork(at, targets, end)

    def close(self, at: int) -> None:
        """Leave the regions that end before a block; enter the second arm where the first one ends."""
        while self.open and self.open[-1].end == at:
            region = self.regions[self.open.pop().number]
            if isinstance(region, Arm) and at < self.forks[region.fork].join:
                self.enter_arm(at, self.forks[region.fork].join, region.fork, 1)

    def straight(self, at: int, targets: list[int], end: int) -> None:
        """A block without a choice."""
        self.region_of.append(self.open[-1].number if self.open else NONE)
        if len(targets) > 2:
            self.refuse(at, f"has {len(targets)} successors, expected at most two")
        if self.has_cond[at] or self.trip[at] != NONE:
            self.refuse(at, "has cond or trip, which need two successors")
        if self.divergent[at]:
            self.refuse(at, "is divergent, which needs two successors")
        wanted = at + 1 if at + 1 < end else self.open[-1].leads_to if self.open else NONE
        if targets == ([] if wanted == NONE else [wanted]):
            return
        if wanted == NONE:
            self.refuse(at, f"leads to {self.name(targets[0])}, but is the last block of its function")
        if not targets:
            self.refuse(at, "has no successor, but is not the last block of its function")
        what = "next block"
        if at + 1 == end:
            is_loop = isinstance(self.regions[self.open[-1].number], Loop)
            what = "header of its loop" if is_loop else "join of its fork"
        self.refuse(at, f"must lead to {self.name(wanted)}, the {what}")

    def loop(self, at: int, targets: list[int], end: int) -> None:
        """A loop, from its header on."""
        if at in self.joins:
            self.refuse(at, "is the join of a fork and the header of a loop; insert an empty block between")
        if self.divergent[at]:
            self.refuse(at, "is the header of a loop, which cannot be divergent")
        if targets[0] != at + 1:
            self.refuse(at, "is the header of a loop; its first successor must be the next block")
        if targets[1] >= end:
            self.refuse(at, "is the header of a loop that no block of the same region follows; insert an empty one")
        self.enter(at, Loop(at, targets[1], self.open[-1].number if self.open else NONE, self.trip[at]), at)
        self.region_of.append(self.open[-1].number)

    def fork(self, at: int, targets: list[int], end: int) -> None:
        """A fork, from its block on."""
        if self.trip[at] != NONE:
            self.refuse(at, "is a fork; only the header of a loop can have trip")
        first, middle = targets
        if first != at + 1 or middle <= first:
            self.refuse(at, "is a fork; its first successor must be the next block, its second one a later block")
        leave = self.targets[middle - 1]
        join = leave[0] if len(leave) == 1 else NONE
        if not middle <= join < end:
            self.refuse(at, "is a fork whose arms do not end in one block of the same region; insert an empty one")
        around = self.open[-1].number if self.open else NONE
        self.region_of.append(around)
        self.joins.add(join)
        self.forks.append(Fork(at, middle, join, self.divergent[at], around, ()))
        self.enter_arm(first, middle, len(self.forks) - 1, 0)

    def enter_arm(self, begin: int, end: int, number: int, side: int) -> None:
        """An arm, from its first block on."""
        each = self.forks[number]
        arms = (*each.arms, len(self.regions))
        self.forks[number] = Fork(each.block, each.middle, each.join, each.divergent, each.parent, arms)
        self.enter(begin, Arm(begin, end, each.parent, number, side), each.join)

    def enter(self, at: int, region: Region, leads_to: int) -> None:
        """Enter a region."""
        if len(self.open) == MAX_DEPTH:
            self.refuse(at, f"is inside more than {MAX_DEPTH} loops and arms")
        self.open.append(_Open(len(self.regions), region.end, leads_to))
        self.regions.append(region)

    def name(self, at: int) -> str:
        """`^name` of a block."""
        return block_name(self.program, self.rows[at])

    def refuse(self, at: int, why: str) -> NoReturn:
        """`bad-input` at a block."""
        _refuse(self.program, self.rows[at], why)


def _compare(program: Program, rows: range, first: range) -> None:
    """Refuse blocks of a function that differ from those of the first core."""
    if rows == first:
        return
    core = program.block_core[first.start] if first else NONE
    targets, blocks = (_targets(program, rows), _targets(program, first)), program.blocks
    for row, twin, mine, theirs in zip(rows, first, *targets, strict=False):
        if mine != theirs:
            _refuse(program, row, f"has other successors than on core {core}")
        if blocks.trip[row] != blocks.trip[twin]:
            here, there = (f"trip={blocks.trip[at]}" if blocks.trip[at] != NONE else "no trip" for at in (row, twin))
            _refuse(program, row, f"has {here}, but {there} on core {core}")
        if blocks.divergent[row] != blocks.divergent[twin]:
            here, there = ("is", "not ") if blocks.divergent[row] else ("is not", "")
            _refuse(program, row, f"{here} divergent, but {there}on core {core}")
    if len(rows) != len(first):
        more = max(rows, first, key=len)
        _refuse(program, more[min(len(rows), len(first))], "is not on all cores")


def _refuse(program: Program, row: int, why: str) -> NoReturn:
    bad_input(f"unsupported control flow: block {block_name(program, row)} {why}", block_label(program, row))
