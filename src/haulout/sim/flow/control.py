"""How the blocks of a program run: sections one after the other, some of them again and again, some not at all.

A *section* is a stretch of blocks that run together: a loop's header alone, or straight blocks in a row at one level,
the last of which may be a fork. Without branches everything is one section, the chain of blocks from the entry on,
and cores may have other blocks. With branches all cores have equal blocks, a sequence of nested loops and branches
(`shapes.py`). The header of a loop runs once more than the body; of the arms of a branch one runs, on every core the
same one unless the fork is divergent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.sim.flow.shapes import Region, Shape, equal_shapes, find_shape, successors


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: sections `header:end`."""

    name: str
    """`^header`, as the format writes it."""
    header: int
    end: int
    trip: int
    """How often the program says that the body runs; NONE: it does not say."""
    blocks: tuple[int, ...]
    """The header's row of `blocks`, on each core."""

    @property
    def divergent(self) -> bool:
        """Cores may not leave a loop at different times."""
        return False

    def takes(self, taken: bool) -> str:
        """What a core does at its branch, for a message."""
        return "enters the body" if taken else "leaves the loop"


@dataclass(frozen=True, slots=True)
class Fork:
    """A branch: its arms are sections `section + 1:other` and `other:join`; the second one may be empty."""

    name: str
    """`^fork`, as the format writes it."""
    section: int
    """The one that it ends."""
    other: int
    join: int
    divergent: bool
    """Whether cores may take different arms."""
    blocks: tuple[int, ...]
    """The fork's row of `blocks`, on each core."""
    successors: tuple[str, str]
    """The names of the blocks that it leads to."""

    def takes(self, taken: bool) -> str:
        """What a core does at it, for a message."""
        return f"takes {self.successors[not taken]}"


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks that run one after the other."""

    regions: tuple[Region, ...]
    """The loops and arms around it, outermost first; a header is inside its own loop."""
    path: tuple[int, ...]
    """The loops alone."""
    blocks: tuple[tuple[int, ...], ...]
    """Rows of `blocks`, on each core."""


class Following(NamedTuple):
    """Which section runs next."""

    taken: int
    """When there is nothing to decide, or `cond` is not zero; the number of sections behind the last one."""
    other: int
    """When `cond` is zero."""


@dataclass(frozen=True)
class Nest:
    """The sections of all cores in layout order, and their loops and branches, outer ones before inner ones."""

    sections: tuple[Section, ...]
    loops: tuple[Loop, ...] = ()
    forks: tuple[Fork, ...] = ()

    @cached_property
    def choices(self) -> dict[int, Loop | Fork]:
        """What is decided at the end of a section."""
        return {loop.header: loop for loop in self.loops} | {fork.section: fork for fork in self.forks}

    @cached_property
    def headers(self) -> dict[int, int]:
        """Section -> the loop of which it is the header."""
        return {loop.header: number for number, loop in enumerate(self.loops)}

    @cached_property
    def following(self) -> list[Following]:
        """What runs behind each section."""
        result = []
        for number, section in enumerate(self.sections):
            match self.choices.get(number):
                case Loop(end=end):
                    result.append(Following(number + 1, end))
                case Fork(other=other):
                    result.append(Following(number + 1, other))
                case _:
                    behind = self._behind(number, section)
                    result.append(Following(behind, behind))
        return result

    @property
    def depth(self) -> int:
        """How many loops stand around each other at most."""
        return max((len(section.path) for section in self.sections), default=0)

    def dominates(self, producer: int, consumer: int) -> bool:
        """Whether one section has always run before another one runs."""
        around = self.sections[producer].regions
        if producer in self.headers:
            around = around[:-1]
        return producer <= consumer and self.sections[consumer].regions[: len(around)] == around

    def excludes(self, one: int, other: int) -> bool:
        """Whether two sections stand in different arms of one branch."""
        for mine, theirs in zip(self.sections[one].regions, self.sections[other].regions, strict=False):
            if mine != theirs:
                return mine.fork == theirs.fork != NONE
        return False

    def _behind(self, number: int, section: Section) -> int:
        if section.regions:
            region = section.regions[-1]
            if region.fork == NONE and self.loops[region.number].end == number + 1:
                return self.loops[region.number].header
            if region.fork != NONE and number + 1 == self.forks[region.fork].other:
                return self.forks[region.fork].join
        return number + 1


def find_nest(program: Program, functions: list[int]) -> Nest:
    """The sections of a function, given by its row on each core; `bad-input` at the first block that does not fit."""
    chains = [_chain(program, function) for function in functions]
    if None not in chains:
        return Nest((Section((), (), tuple(tuple(chain or ()) for chain in chains)),))
    shapes = [find_shape(program, function) for function in functions]
    return _nest(program, functions, equal_shapes(program, functions, shapes))


def _chain(program: Program, function: int) -> list[int] | None:
    """All blocks from the entry on, each the only successor of the one before; None when they are something else."""
    first, last = program.starts("blocks", "functions")[function : function + 2].tolist()
    blocks = program.blocks
    if ((blocks.cond != NONE) | (blocks.trip != NONE) | blocks.divergent)[first:last].any():
        return None
    chain: dict[int, None] = {}
    block = first if first < last else NONE
    while block != NONE:
        following = successors(program, block)
        if block in chain or len(following) > 1:
            return None
        chain[block] = None
        block = following[0] if following else NONE
    return list(chain) if len(chain) == last - first else None


def _nest(program: Program, functions: list[int], shape: Shape) -> Nest:
    starts = program.starts("blocks", "functions")
    firsts = [int(starts[function]) for function in functions]
    around, headers = shape.around, {each.header for each in shape.loops}
    # A section ends where a header stands on either side of the seam, or the regions around change.
    cuts = [
        at
        for at in range(len(around) + 1)
        if at in (0, len(around)) or around[at] != around[at - 1] or at in headers or at - 1 in headers
    ]
    section_at = {block: number for number, block in enumerate(cuts)}
    sections = [
        Section(
            around[begin],
            tuple(region.number for region in around[begin] if region.fork == NONE),
            tuple(tuple(range(first + begin, first + end)) for first in firsts),
        )
        for begin, end in pairwise(cuts)
    ]

    def name(block: int) -> str:
        return "^" + format_name(program.strings[int(program.blocks.name[firsts[0] + block])])

    def rows(block: int) -> tuple[int, ...]:
        return tuple(first + block for first in firsts)

    loops = [
        Loop(name(each.header), section_at[each.header], section_at[each.end], each.trip, rows(each.header))
        for each in shape.loops
    ]
    forks = [
        Fork(
            name(each.fork),
            section_at[each.fork + 1] - 1,
            section_at[each.other],
            section_at[each.join],
            each.divergent,
            rows(each.fork),
            (name(each.fork + 1), name(each.other)),
        )
        for each in shape.forks
    ]
    return Nest(tuple(sections), tuple(loops), tuple(forks))
