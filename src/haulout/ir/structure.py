"""Control flow as a structure: the loops and forks of a function, nested in each other, read once from its blocks.

    ^before -> ^header              a loop: the header has `cond` and two successors, the first block of the body and
    ^header -> ^body, ^after        the block after the loop; the last block of the body leads back to the header.
    ^body ... -> ^header            The header belongs to its loop and runs once more than the body.
    ^after

    ^fork -> ^then, ^else           a fork: it has `cond` and two successors, the first blocks of its arms; the last
    ^then ... -> ^join              block of each arm leads to the join, which follows the second arm in layout.
    ^else ... -> ^join              Without a second arm the second successor is the join. Fork and join belong to
    ^join                           the region around. `divergent`: each core takes an arm of its own.

Blocks in layout order are a sequence of straight blocks, loops and forks. A *region* is a loop or an arm: blocks
`begin:end`, so two regions are nested or disjoint. Regions and forks are numbered in layout order, outer before
inner, so a walk from the last to the first is bottom up. Nothing recurses, so nesting may be deep.

A structure covers one function, with blocks counted from its first, or a whole program, with blocks as rows of
`blocks` (`Program.structure`). `read_structure.py` reads it and refuses every other form, with the block and place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from haulout.ir.enums import NONE

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loop:
    """Blocks `begin:end`; the first one is the header."""

    begin: int
    end: int
    parent: int
    """The region around it, NONE at the top."""
    trip: int
    """How often the body runs; NONE: unknown, it may be 0."""

    @property
    def header(self) -> int:
        """The block that decides whether the body runs again."""
        return self.begin

    @property
    def latch(self) -> int:
        """The last block of the body, which leads back to the header."""
        return self.end - 1

    @property
    def body(self) -> range:
        """All blocks but the header."""
        return range(self.begin + 1, self.end)

    @property
    def may_not_run(self) -> bool:
        """Whether there may be no iteration."""
        return self.trip <= 0


@dataclass(frozen=True, slots=True)
class Arm:
    """Blocks `begin:end`, at least one."""

    begin: int
    end: int
    parent: int
    """The region around its fork, NONE at the top."""
    fork: int
    """Number of its fork."""
    side: int
    """0: taken when `cond` is not zero; 1: when it is."""

    @property
    def body(self) -> range:
        """All blocks."""
        return range(self.begin, self.end)


Region = Loop | Arm


@dataclass(frozen=True, slots=True)
class Fork:
    """A block that chooses between two arms, `block + 1:middle` and `middle:join`; the second may have no block."""

    block: int
    middle: int
    join: int
    """The block where the arms end."""
    divergent: bool
    """Whether cores may take different arms."""
    parent: int
    """The region around it, NONE at the top."""
    arms: tuple[int, ...]
    """Its regions, one or two."""

    @property
    def sides(self) -> tuple[range, range]:
        """The blocks of both arms."""
        return range(self.block + 1, self.middle), range(self.middle, self.join)


@dataclass(frozen=True, slots=True)
class Fold(Generic[T]):
    """What `Structure.fold` found for every part."""

    functions: list[T]
    regions: dict[int, T]
    """By the number of the region: of a loop as a whole, and of an arm."""
    forks: dict[int, T]
    """By the number of the fork: of all arms together, without the block that chooses."""


@dataclass(frozen=True)
class Structure:
    """The regions and forks of one function, or of all functions of a program."""

    functions: tuple[range, ...]
    """The blocks of each function."""
    regions: tuple[Region, ...]
    forks: tuple[Fork, ...]
    region_of: tuple[int, ...]
    """Of each block: the innermost region around it, NONE at the top. A header is inside its own loop."""

    def __bool__(self) -> bool:
        """Whether there is a loop or a fork."""
        return bool(self.regions)

    # -- by block ----------------------------------------------------------------------------------------------------

    @cached_property
    def loops(self) -> dict[int, Loop]:
        """The loops by the number of their region."""
        return {number: region for number, region in enumerate(self.regions) if isinstance(region, Loop)}

    @cached_property
    def loop_at(self) -> dict[int, int]:
        """Header -> its loop."""
        return {loop.header: number for number, loop in self.loops.items()}

    @cached_property
    def loop_before(self) -> dict[int, int]:
        """Block that follows a loop -> that loop."""
        return {loop.end: number for number, loop in self.loops.items()}

    @cached_property
    def fork_at(self) -> dict[int, int]:
        """Block that chooses -> its fork."""
        return {fork.block: number for number, fork in enumerate(self.forks)}

    @cached_property
    def join_at(self) -> dict[int, int]:
        """Join -> its fork."""
        return {fork.join: number for number, fork in enumerate(self.forks)}

    def around(self, block: int) -> tuple[int, ...]:
        """The regions around a block, the outermost first."""
        return self.nesting[self.region_of[block]]

    def loops_around(self, block: int) -> tuple[int, ...]:
        """The loops around a block, the outermost first."""
        return self.loop_nesting[self.region_of[block]]

    def divergent_fork(self, block: int) -> int:
        """The outermost divergent fork that has a block in an arm, NONE when there is none."""
        return self._divergent_forks[self.region_of[block]]

    @cached_property
    def _divergent_forks(self) -> list[int]:
        def into(outer: int, number: int, region: Region) -> int:
            if outer == NONE and isinstance(region, Arm) and self.forks[region.fork].divergent:
                return region.fork
            return outer

        return self.descend(NONE, into)

    @cached_property
    def nesting(self) -> list[tuple[int, ...]]:
        """Of each region: the regions around it and itself, the outermost first."""
        return self.descend((), lambda outer, number, region: (*outer, number))

    @cached_property
    def loop_nesting(self) -> list[tuple[int, ...]]:
        """Of each region: the loops among `nesting`."""
        return self.descend((), lambda outer, number, region: (*outer, number) if number in self.loops else outer)

    @cached_property
    def dominator(self) -> list[int]:
        """The immediate dominator of each block; NONE for the first of a function."""
        found = list(range(-1, len(self.region_of) - 1))
        for blocks in self.functions:
            if blocks:
                found[blocks.start] = NONE
        for loop in self.loops.values():
            found[loop.end] = loop.header
        for fork in self.forks:
            found[fork.middle] = found[fork.join] = fork.block
        return found

    @cached_property
    def post_dominator(self) -> list[int]:
        """The immediate post-dominator of each block; NONE for the last of a function."""
        found = list(range(1, len(self.region_of) + 1))
        for blocks in self.functions:
            if blocks:
                found[blocks.stop - 1] = NONE
        for loop in self.loops.values():
            found[loop.header], found[loop.latch] = loop.end, loop.header
        for fork in self.forks:
            found[fork.block] = found[fork.middle - 1] = found[fork.join - 1] = fork.join
        return found

    @cached_property
    def _dominated(self) -> tuple[list[range], list[range]]:
        """The blocks that each block dominates, and those that it post-dominates."""
        wholes = [blocks for blocks in self.functions for _ in blocks]
        dominated, post_dominated = [], []
        for block, number in enumerate(self.region_of):
            region = self.regions[number] if number != NONE else None
            last = block
            if isinstance(region, Loop) and block == region.header:
                # A header dominates what follows its loop, and post-dominates the body.
                last, number = region.latch, region.parent
            body = self.regions[number].body if number != NONE else wholes[block]
            dominated.append(range(block, body.stop))
            post_dominated.append(range(body.start, last + 1))
        return dominated, post_dominated

    def dominates(self, first: int, second: int) -> bool:
        """Whether every path from the entry to block `second` passes block `first`."""
        return second in self._dominated[0][first]

    def post_dominates(self, last: int, first: int) -> bool:
        """Whether every path from block `first` to the end of the function passes block `last`."""
        return first in self._dominated[1][last]

    def common_region(self, first: int, second: int) -> int:
        """The innermost region around two blocks, NONE when there is none."""
        number = self.region_of[first]
        while number != NONE and not self.regions[number].begin <= second < self.regions[number].end:
            number = self.regions[number].parent
        return number

    def common_loop(self, first: int, second: int) -> int:
        """The innermost loop around two blocks, NONE when there is none."""
        number = self.common_region(first, second)
        while number != NONE and number not in self.loops:
            number = self.regions[number].parent
        return number

    def left_region(self, block: int, other: int) -> int:
        """The outermost region around a block that is not around another one, NONE when there is none."""
        around, common = self.around(block), self.common_region(block, other)
        at = around.index(common) + 1 if common != NONE else 0
        return around[at] if at < len(around) else NONE

    def separating_fork(self, first: int, second: int) -> int:
        """The fork that has two blocks in different arms, NONE when there is none."""
        sides = [self.left_region(first, second), self.left_region(second, first)]
        if NONE in sides:
            return NONE
        forks = [NONE if isinstance(arm := self.regions[side], Loop) else arm.fork for side in sides]
        return forks[0] if forks[0] == forks[1] else NONE

    # -- walks -------------------------------------------------------------------------------------------------------

    def items(self, begin: int, end: int) -> Iterator[int | Loop | Fork]:
        """What runs one after the other in blocks `begin:end` of one region: blocks, loops, and forks, each after
        its block.
        """
        block = begin
        while block < end:
            if (number := self.loop_at.get(block)) is not None:
                yield self.loops[number]
                block = self.loops[number].end
                continue
            yield block
            block += 1
            if (number := self.fork_at.get(block - 1)) is not None:
                yield self.forks[number]
                block = self.forks[number].join

    def fold(
        self,
        block: Callable[[int], T],
        sequence: Callable[[list[T]], T],
        loop: Callable[[Loop, T, T], T],
        fork: Callable[[Fork, list[T]], T],
        functions: Sequence[range] | None = None,
    ) -> Fold[T]:
        """Combine values bottom up, of all functions or of some.

        `block(number)`; `sequence(values)` of what runs one after the other; `loop(loop, header, body)`;
        `fork(fork, arms)`, with one or two arms.
        """
        functions = self.functions if functions is None else functions
        regions: dict[int, T] = {}
        forks: dict[int, T] = {}

        def value(item: int | Loop | Fork) -> T:
            match item:
                case Loop():
                    return regions[self.loop_at[item.header]]
                case Fork():
                    return forks[self.fork_at[item.block]]
                case _:
                    return block(item)

        def whole(blocks: range) -> T:
            return sequence([value(item) for item in self.items(blocks.start, blocks.stop)])

        for blocks in functions:
            first, last = (bisect_left(self.regions, at, key=_begin) for at in (blocks.start, blocks.stop))
            for number in range(last - 1, first - 1, -1):
                region = self.regions[number]
                inside = whole(region.body)
                regions[number] = loop(region, block(region.header), inside) if isinstance(region, Loop) else inside
                if isinstance(region, Arm) and region.side == 0:
                    # The other arm comes later in layout, so it is done.
                    each = self.forks[region.fork]
                    forks[region.fork] = fork(each, [regions[arm] for arm in each.arms])
        return Fold([whole(blocks) for blocks in functions], regions, forks)

    def descend(self, top: T, into: Callable[[T, int, Region], T]) -> list[T]:
        """Values top down: `into(value of the parent, number, region)` for each region, then `top`, so that `NONE` as
        an index finds it.
        """
        found = [top] * (len(self.regions) + 1)
        for number, region in enumerate(self.regions):
            found[number] = into(found[region.parent], number, region)
        return found


def _begin(region: Region) -> int:
    return region.begin


Walk = Iterator["Walk"]
"""A generator that yields, instead of calling itself, a generator for what is inside."""


def run(walk: Walk) -> None:
    """Run a walk to its end, however deep it goes."""
    stack = [walk]
    while stack:
        inside = next(stack[-1], None)
        if inside is None:
            stack.pop()
        else:
            stack.append(inside)
