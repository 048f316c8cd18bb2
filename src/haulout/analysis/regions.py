"""Structured control flow: a function's blocks in layout order are a sequence of straight blocks, loops and branches.

    ^before -> ^header              a loop: the header has `cond` and two successors, the first block of the body and
    ^header -> ^body, ^behind       the block behind the loop; the last block of the body (the latch) leads back to
    ^body ... ^latch -> ^header     the header. Header, body and latch stand together in layout.
    ^behind

    ^fork -> ^then, ^else           a branch: the fork has `cond` and two successors, the first blocks of its arms;
    ^then ... -> ^join              the last block of each arm leads to the join, which stands right behind the second
    ^else ... -> ^join              arm in layout. A branch of one arm leads to that arm, or to the join.
    ^join

Both nest in each other. A header runs once more than the body and belongs to its loop; fork and join belong to what
is around the branch. A *region* is a loop or an arm. Everything else (loops left in the middle, arms that share a
tail, a join that is a loop's header) is refused, with its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import NoReturn

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.labels import place
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.support.diagnostics import Label, bad_input

MOST_DEPTH = 200
"""Loops and branches around each other. They are walked by recursion, here and in the passes."""


@dataclass(frozen=True, slots=True)
class Region:
    """A loop or an arm of a branch. Blocks are rows of `blocks`; `first:last + 1` are its own."""

    first: int
    """The header of a loop."""
    last: int
    """The latch of a loop."""
    parent: int
    """Index of the region around it, NONE when there is none."""
    trip: int = NONE
    """Of a loop: how often the body runs; NONE: not known."""
    branch: int = NONE
    """Of an arm: index of its branch; NONE: a loop."""

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop; else it is an arm."""
        return self.branch == NONE

    @property
    def header(self) -> int:
        """The header of a loop."""
        return self.first

    @property
    def may_not_run(self) -> bool:
        """Whether what stands around it must not lean on it."""
        return self.trip <= 0


@dataclass(frozen=True, slots=True)
class Branch:
    """A choice between arms."""

    fork: int
    """The block that branches."""
    join: int
    """The block where the arms meet again."""
    arms: tuple[int, ...]
    """Indices of its regions: taken when `cond` is not zero, and, where there are two, when it is."""
    parent: int
    """Index of the region around it, NONE when there is none."""
    divergent: bool
    """Whether cores may take different arms."""


@dataclass(frozen=True, slots=True)
class Regions:
    """All regions of a program in layout order, so outer ones before inner ones; the innermost one of each block."""

    regions: list[Region]
    branches: list[Branch]
    of_block: Ids

    def __bool__(self) -> bool:
        return bool(self.regions)

    def around(self, block: int) -> list[int]:
        """Regions that contain a block, the outermost first."""
        found = []
        region = int(self.of_block[block])
        while region != NONE:
            found.append(region)
            region = self.regions[region].parent
        return found[::-1]

    def outermost(self, block: int) -> int:
        """The outermost region that contains a block, NONE when it is in none."""
        around = self.around(block)
        return around[0] if around else NONE

    def loops_around(self, block: int) -> list[int]:
        """Loops that contain a block, the outermost first."""
        return [region for region in self.around(block) if self.regions[region].is_loop]

    def atom(self, block: int) -> int:
        """The outermost divergent branch that has a block in one of its arms, NONE when there is none."""
        branches = [self.regions[region].branch for region in self.around(block)]
        return next((at for at in branches if at != NONE and self.branches[at].divergent), NONE)

    @property
    def headers(self) -> dict[int, int]:
        """Header -> the index of its loop."""
        return {region.first: at for at, region in enumerate(self.regions) if region.is_loop}

    @property
    def forks(self) -> dict[int, int]:
        """Fork -> the index of its branch."""
        return {branch.fork: at for at, branch in enumerate(self.branches)}

    @property
    def joins(self) -> dict[int, int]:
        """Join -> the index of its branch."""
        return {branch.join: at for at, branch in enumerate(self.branches)}


def find_regions(program: Program) -> Regions:
    """The control structure of a program; raises `bad-input` at the first block that does not fit it."""
    return _Finder(program).find()


class _Finder:
    """One walk over the blocks of each function, by recursion over what contains what."""

    def __init__(self, program: Program) -> None:
        blocks, edges = program.blocks, program.edges
        starts = program.starts("edges", "blocks").tolist()
        self.program = program
        self.successors = [edges.target[starts[row] : starts[row + 1]].tolist() for row in range(len(blocks))]
        self.has_cond = (blocks.cond != NONE).tolist()
        self.trip, self.divergent = blocks.trip.tolist(), blocks.divergent.tolist()
        self.of_block: Ids = np.full(len(blocks), NONE, np.int32)
        self.regions: list[Region] = []
        self.branches: list[Branch] = []
        self.depth = 0

    def find(self) -> Regions:
        """Function by function."""
        starts = self.program.starts("blocks", "functions").tolist()
        for first, end in pairwise(starts):
            if first < end:
                self._sequence(first, end, NONE, NONE)
        self._compare(starts)
        return Regions(self.regions, self.branches, self.of_block)

    def _compare(self, starts: list[int]) -> None:
        """All cores have the same blocks: the passes find each other's by number."""
        first_of: dict[int, int] = {}
        for function, name in enumerate(self.program.functions.name.tolist()):
            first, end = starts[function : function + 2]
            twin = first_of.setdefault(name, function)
            begin, stop = starts[twin : twin + 2]
            for row, other in zip_longest(range(first, end), range(begin, stop)):
                if row is None or other is None or self._shape(row, first) != self._shape(other, begin):
                    core = self.program.function_core[twin if row is not None else function]
                    self._refuse(other if row is None else row, f"its function has other blocks on core {core}")

    def _shape(self, row: int, first: int) -> tuple[list[int], int, bool]:
        """How a block runs, with its successors counted from the function's first block."""
        return [target - first for target in self.successors[row]], self.trip[row], self.divergent[row]

    def _sequence(self, first: int, end: int, leads_to: int, around: int) -> None:
        """Blocks `first:end`, the last of which leads to `leads_to` (NONE: it returns), inside region `around`."""
        if self.depth > MOST_DEPTH:
            self._refuse(first, f"more than {MOST_DEPTH} loops and branches stand around it")
        self.depth += 1
        row = first
        while row < end:
            targets = self.successors[row]
            if len(targets) == 2:
                if row + 1 < targets[1] <= end and self.successors[targets[1] - 1] == [row]:
                    row = self._loop(row, targets, end, around)
                else:
                    row = self._branch(row, targets, end, around)
                continue
            if len(targets) > 2:
                self._refuse(row, "it has more than two successors")
            self.of_block[row] = around
            if self.has_cond[row] or self.trip[row] != NONE:
                self._refuse(row, "cond and trip belong to a block with two successors")
            if self.divergent[row]:
                self._refuse(row, "divergent belongs to a block with two successors")
            wanted = [row + 1] if row + 1 < end else [] if leads_to == NONE else [leads_to]
            if targets != wanted:
                self._refuse_exit(row, targets, wanted, around)
            row += 1
        self.depth -= 1

    def _loop(self, row: int, targets: list[int], end: int, around: int) -> int:
        """A loop whose header is `row`; the block behind it."""
        body, behind = targets
        if not self.has_cond[row]:
            self._refuse(row, "it has two successors and no cond")
        if self.divergent[row]:
            self._refuse(row, "the trips of a loop may not differ between cores")
        if body != row + 1:
            self._refuse(row, "the first successor of a loop's header must be the next block")
        if behind >= end:
            self._refuse(row, "no block stands behind its loop in what is around it; an empty one will do")
        index = len(self.regions)
        self.regions.append(Region(row, behind - 1, around, trip=int(self.trip[row])))
        self.of_block[row] = index
        self._sequence(body, behind, row, index)
        return behind

    def _branch(self, row: int, targets: list[int], end: int, around: int) -> int:
        """A branch whose fork is `row`; its join."""
        first, second = targets
        if not self.has_cond[row]:
            self._refuse(row, "it has two successors and no cond")
        if self.trip[row] != NONE:
            self._refuse(row, "trip belongs to the header of a loop")
        if first != row + 1 or second <= first:
            self._refuse(row, "its first successor must be the next block, and its second one a block behind that")
        leave = self.successors[second - 1]
        join = leave[0] if len(leave) == 1 else NONE
        if not second <= join < end:
            self._refuse(row, "its arms do not meet in a block of what is around it; an empty one will do")
        self.of_block[row] = around
        index = len(self.branches)
        self.branches.append(Branch(row, join, (), around, bool(self.divergent[row])))
        arms = []
        for begin, stop in ((first, second), (second, join)):
            if begin < stop:
                arms.append(len(self.regions))
                self.regions.append(Region(begin, stop - 1, around, branch=index))
                self._sequence(begin, stop, join, arms[-1])
        self.branches[index] = Branch(row, join, tuple(arms), around, bool(self.divergent[row]))
        targets = self.successors[join]
        if len(targets) == 2 and self.successors[targets[1] - 1] == [join]:
            self._refuse(join, "it is the join of a branch and the header of a loop; put an empty block between")
        return join

    def _refuse_exit(self, row: int, targets: list[int], wanted: list[int], around: int) -> NoReturn:
        if not wanted:
            self._refuse(row, "the last block of a function leads to another one")
        if not targets:
            self._refuse(row, "the function returns before its last block")
        name = self.program.strings[int(self.program.blocks.name[wanted[0]])]
        if around != NONE and row == self.regions[around].last:
            what = "header of its loop" if self.regions[around].is_loop else "join of its branch"
            self._refuse(row, f"it does not lead to ^{name}, the {what}")
        self._refuse(row, f"it does not lead to ^{name}, the next block")

    def _refuse(self, row: int, why: str) -> NoReturn:
        program = self.program
        name = program.strings[int(program.blocks.name[row])]
        span = place(program, NONE, int(program.blocks.text_line[row]))
        bad_input(
            f"control flow of this form is not supported: block ^{name}: {why}",
            Label(f"^{name} on core {program.block_core[row]}", span),
        )
