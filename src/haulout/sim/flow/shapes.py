"""The control flow that is followed: a sequence of straight blocks, loops and branches in layout, nested properly.

    ^before -> ^header              a loop: the header has `cond` and two successors, the first block of the body and
    ^header -> ^body, ^behind       the block behind the loop; the last block of the body (the latch) leads back to
    ^body ... ^latch -> ^header     the header. Header, body and latch stand together in layout.
    ^behind

    ^fork -> ^then, ^else           a branch: the fork has `cond` and two successors, the first blocks of its arms;
    ^then ... -> ^join              the last block of each arm leads to the join, which stands right behind the second
    ^else ... -> ^join              arm in layout. Without a second arm the second successor is the join.
    ^join

Everything else is refused, with its place. One pass over the blocks of a core; a stack holds what is around.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.labels import place
from haulout.ir.program import Program
from haulout.support.diagnostics import Label, bad_input

_DEEPEST = 1000
"""Loops and branches around each other that are followed; what is around a block is a tuple, so time is quadratic."""


class Region(NamedTuple):
    """A loop, or an arm of a branch."""

    fork: int
    """Number of the branch; NONE: a loop."""
    number: int
    """Of the loop; of the arm: 0 the one that is taken when `cond` is not zero, 1 the other one."""


class LoopBlocks(NamedTuple):
    """A loop in blocks, counted from the function's first: `header:end`."""

    header: int
    end: int
    trip: int


class ForkBlocks(NamedTuple):
    """A branch: arms `fork + 1:other` and `other:join`."""

    fork: int
    other: int
    join: int
    divergent: bool


@dataclass
class Shape:
    """The loops and branches of a function in layout order, and what is around each block."""

    loops: list[LoopBlocks] = field(default_factory=list)
    forks: list[ForkBlocks] = field(default_factory=list)
    around: list[tuple[Region, ...]] = field(default_factory=list)


def successors(program: Program, block: int) -> list[int]:
    """The blocks that a block leads to."""
    begin, end = program.edges.source.searchsorted([block, block + 1]).tolist()
    found: list[int] = program.edges.target[begin:end].tolist()
    return found


def find_shape(program: Program, function: int) -> Shape:
    """The control flow of one function; `bad-input` at the first block that does not fit."""
    return _Finder(program, function).find()


def equal_shapes(program: Program, functions: list[int], shapes: list[Shape]) -> Shape:
    """The shape of all cores; `bad-input` where a core differs from the first one."""
    starts = program.starts("blocks", "functions")
    core = program.function_core[functions[0]]
    for function, shape in zip(functions, shapes, strict=True):
        if shape != shapes[0]:
            if not len(shape.around):
                bad_input(f"core {program.function_core[function]} has other blocks than core {core}")
            at, why = _difference(shape, shapes[0])
            refuse(program, int(starts[function]) + at, f"{why} core {core}")
    return shapes[0]


def _difference(mine: Shape, theirs: Shape) -> tuple[int, str]:
    """The block with which a shape begins to differ from another one, and how."""
    for own, other in zip(_choices(mine), _choices(theirs), strict=False):
        if own != other:
            if isinstance(own, LoopBlocks) and isinstance(other, LoopBlocks) and own[:2] == other[:2]:
                return own.header, "its loop does not run as often as that of"
            if isinstance(own, ForkBlocks) and isinstance(other, ForkBlocks) and own[:3] == other[:3]:
                return own.fork, "its branch is divergent on one core only: here, or on"
            return own[0], "its loop or branch is not that of"
    return 0, "its function has other blocks on"


def _choices(shape: Shape) -> list[LoopBlocks | ForkBlocks]:
    return sorted([*shape.loops, *shape.forks], key=lambda each: each[0])


def refuse(program: Program, block: int, why: str) -> NoReturn:
    """`bad-input` at a block."""
    name = "^" + format_name(program.strings[int(program.blocks.name[block])])
    span = place(program, NONE, int(program.blocks.text_line[block]))
    bad_input(
        f"control flow of this form is not supported: block {name}: {why}",
        Label(f"{name} on core {program.block_core[block]}", span),
    )


class _Open(NamedTuple):
    """A region that the pass is in."""

    region: Region
    end: int
    """The block behind it."""
    leads_to: int
    """Where its last block leads: the header, or the join."""


class _Finder:
    """The pass over one function's blocks."""

    def __init__(self, program: Program, function: int) -> None:
        self.program = program
        self.first, last = program.starts("blocks", "functions")[function : function + 2].tolist()
        blocks = program.blocks
        self.targets = [
            [target - self.first for target in successors(program, row)] for row in range(self.first, last)
        ]
        self.has_cond = (blocks.cond[self.first : last] != NONE).tolist()
        self.trip: list[int] = blocks.trip[self.first : last].tolist()
        self.divergent: list[bool] = blocks.divergent[self.first : last].tolist()
        self.open: list[_Open] = []
        self.shape = Shape()

    def find(self) -> Shape:
        """Block by block."""
        joins = set()
        for at, targets in enumerate(self.targets):
            self._close(at)
            end = self.open[-1].end if self.open else len(self.targets)
            if len(targets) != 2:
                self._straight(at, targets, end)
            elif at + 1 < targets[1] <= end and self.targets[targets[1] - 1] == [at]:
                if at in joins:
                    self._refuse(
                        at, "it is the join of a branch and the header of a loop; put an empty block between"
                    )
                self._loop(at, targets, end)
            else:
                joins.add(self._fork(at, targets, end))
        return self.shape

    def _close(self, at: int) -> None:
        """Leave the regions that end before a block; enter the second arm where the first one ends."""
        while self.open and self.open[-1].end == at:
            region = self.open.pop().region
            if region.fork != NONE and region.number == 0:
                fork = self.shape.forks[region.fork]
                if fork.other < fork.join:
                    self.open.append(_Open(Region(region.fork, 1), fork.join, fork.join))

    def _straight(self, at: int, targets: list[int], end: int) -> None:
        self._note()
        if len(targets) > 2:
            self._refuse(at, "it has more than two successors")
        if self.has_cond[at] or self.trip[at] != NONE:
            self._refuse(at, "cond and trip belong to a block with two successors")
        if self.divergent[at]:
            self._refuse(at, "divergent belongs to a block with two successors")
        leads_to = [self.open[-1].leads_to] if self.open else []
        wanted = [at + 1] if at + 1 < end else leads_to
        if targets == wanted:
            return
        if not wanted:
            self._refuse(at, "the last block of a function leads to another one")
        if not targets:
            self._refuse(at, "the function returns before its last block")
        name = self._name(wanted[0])
        if at + 1 < end:
            self._refuse(at, f"it does not lead to {name}, the next block")
        is_loop = self.open[-1].region.fork == NONE
        what = "header of its loop" if is_loop else "join of its branch"
        self._refuse(at, f"it does not lead to {name}, the {what}")

    def _loop(self, at: int, targets: list[int], end: int) -> None:
        if not self.has_cond[at]:
            self._refuse(at, "it has two successors and no cond")
        if self.divergent[at]:
            self._refuse(at, "the trips of a loop may not differ between cores")
        if targets[0] != at + 1:
            self._refuse(at, "the first successor of a loop's header must be the next block")
        if targets[1] >= end:
            self._refuse(at, "no block stands behind its loop in what is around it; an empty one will do")
        self._enter(at, Region(NONE, len(self.shape.loops)), targets[1], at)
        self.shape.loops.append(LoopBlocks(at, targets[1], self.trip[at]))
        self._note()

    def _fork(self, at: int, targets: list[int], end: int) -> int:
        """A branch; its join."""
        if not self.has_cond[at]:
            self._refuse(at, "it has two successors and no cond")
        if self.trip[at] != NONE:
            self._refuse(at, "trip belongs to the header of a loop")
        first, other = targets
        if first != at + 1 or other <= first:
            self._refuse(at, "its first successor must be the next block, and its second one a block behind that")
        leave = self.targets[other - 1]
        join = leave[0] if len(leave) == 1 else NONE
        if not other <= join < end:
            self._refuse(at, "its arms do not meet in a block of what is around it; an empty one will do")
        self._note()
        self._enter(at, Region(len(self.shape.forks), 0), other, join)
        self.shape.forks.append(ForkBlocks(at, other, join, self.divergent[at]))
        return join

    def _enter(self, at: int, region: Region, end: int, leads_to: int) -> None:
        if len(self.open) == _DEEPEST:
            self._refuse(at, f"more than {_DEEPEST} loops and branches around each other")
        self.open.append(_Open(region, end, leads_to))

    def _note(self) -> None:
        self.shape.around.append(tuple(each.region for each in self.open))

    def _name(self, at: int) -> str:
        return "^" + format_name(self.program.strings[int(self.program.blocks.name[self.first + at])])

    def _refuse(self, at: int, why: str) -> NoReturn:
        refuse(self.program, self.first + at, why)
