"""Sections: the blocks of a function that run together, and the structure of loops and forks over them.

A section is the header of a loop alone, or neighbouring blocks of one region, the last of which may be a fork. A
function without loops and forks is one section, the chain of its blocks from the entry on, and cores may have
different blocks. Otherwise all cores have equal blocks. The header of a loop runs once more than the body. One arm of
a fork runs, the same one on every core unless the fork is divergent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.read_structure import block_rows, chain, function_structure
from haulout.ir.structure import Fork, Loop, Structure


@dataclass(frozen=True)
class Sections:
    """The sections of a function in layout order."""

    structure: Structure
    """Its blocks are the sections."""
    blocks: tuple[tuple[tuple[int, ...], ...], ...]
    """[section][core]: rows of `blocks`."""

    def __len__(self) -> int:
        return len(self.blocks)

    @cached_property
    def choices(self) -> dict[int, Loop | Fork]:
        """What the last block of a section chooses for: the next iteration of a loop, or an arm of a fork."""
        loops: dict[int, Loop | Fork] = {loop.header: loop for loop in self.structure.loops.values()}
        return loops | {fork.block: fork for fork in self.structure.forks}

    @cached_property
    def following(self) -> list[tuple[int, int]]:
        """The section that runs after each one: when `cond` is not zero, and when it is; NONE at the end."""
        result = [(section, section) for section in self.structure.post_dominator]
        for section, choice in self.choices.items():
            result[section] = section + 1, choice.end if isinstance(choice, Loop) else choice.middle
        return result

    @cached_property
    def depths(self) -> list[int]:
        """The number of loops around each section."""
        return [len(self.structure.loops_around(section)) for section in range(len(self))]

    @cached_property
    def section_of(self) -> dict[int, int]:
        """Row of a block -> its section."""
        return {row: section for section, cores in enumerate(self.blocks) for rows in cores for row in rows}


def find_sections(program: Program, functions: list[int]) -> Sections:
    """The sections of a function, given by its row on each core; `bad-input` for unsupported control flow."""
    chains = [chain(program, function) for function in functions]
    if None not in chains:
        whole = Structure((range(1),), (), (), (NONE,))
        return Sections(whole, (tuple(tuple(rows or ()) for rows in chains),))
    structure = function_structure(program, functions)
    bounds = _bounds(structure)
    firsts = [block_rows(program, function).start for function in functions]
    blocks = tuple(
        tuple(tuple(range(first + begin, first + end)) for first in firsts) for begin, end in pairwise(bounds)
    )
    return Sections(_over_sections(structure, bounds), blocks)


def _bounds(structure: Structure) -> list[int]:
    """The first block of each section, and the end of the last one."""
    region_of, headers = structure.region_of, structure.loop_at
    inner = (
        at
        for at in range(1, len(region_of))
        if region_of[at] != region_of[at - 1] or at in headers or at - 1 in headers
    )
    return [0, *inner, len(region_of)]


def _over_sections(structure: Structure, bounds: list[int]) -> Structure:
    """The same loops and forks with sections in place of blocks."""
    at = {block: section for section, block in enumerate(bounds)}
    regions = tuple(replace(region, begin=at[region.begin], end=at[region.end]) for region in structure.regions)
    forks = tuple(
        replace(fork, block=at[fork.block + 1] - 1, middle=at[fork.middle], join=at[fork.join])
        for fork in structure.forks
    )
    region_of = tuple(structure.region_of[block] for block in bounds[:-1])
    return Structure((range(len(region_of)),), regions, forks, region_of)
