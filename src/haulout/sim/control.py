"""How the blocks of a program run: sections one after the other, some of them again and again.

A *section* is a stretch of blocks that run together, on all cores: a loop's header alone, or straight blocks in a
row at one level. Without branches everything is one section, the chain of blocks from the entry on, and cores may
have other blocks. With branches all cores have equal blocks, and their layout is a sequence of nested loops:

    preheader -> ^header            the header has `cond` and two successors, the first body block and the block
    ^header -> ^body, ^behind       behind the loop; the last body block (the latch) leads back to the header.
    ^body ... ^latch -> ^header     Header, body and latch stand together in layout.
    ^behind

The header runs once more than the body. Everything else is refused, with its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.verify import place
from haulout.support.diagnostics import Label, bad_input

_DEEPEST = 64
"""Loops around each other that are followed."""


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


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks that run one after the other."""

    path: tuple[int, ...]
    """The loops around it, outermost first; a header is inside its own."""
    blocks: tuple[tuple[int, ...], ...]
    """Rows of `blocks`, on each core."""


@dataclass(frozen=True, slots=True)
class Nest:
    """The sections of all cores in layout order, and their loops, outer ones before inner ones."""

    sections: tuple[Section, ...]
    loops: tuple[Loop, ...]

    @property
    def headers(self) -> dict[int, int]:
        """Section -> the loop of which it is the header."""
        return {loop.header: number for number, loop in enumerate(self.loops)}

    @property
    def depth(self) -> int:
        """How many loops stand around each other at most."""
        return max((len(section.path) for section in self.sections), default=0)

    def dominates(self, producer: int, consumer: int) -> bool:
        """Whether one section has always run before another one runs."""
        path = self.sections[producer].path
        if path and self.loops[path[-1]].header == producer:
            path = path[:-1]
        return producer <= consumer and self.sections[consumer].path[: len(path)] == path


def find_nest(program: Program, functions: list[int]) -> Nest:
    """The sections of a function, given by its row on each core; `bad-input` at the first block that does not fit."""
    chains = [_chain(program, function) for function in functions]
    if None not in chains:
        return Nest((Section((), tuple(tuple(chain or ()) for chain in chains)),), ())
    shapes = [_shape(program, function) for function in functions]
    for function, shape in zip(functions, shapes, strict=True):
        if shape != shapes[0]:
            _refuse_difference(program, functions[0], function, shapes[0], shape)
    return _nest(program, functions, *shapes[0])


# -- one core --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Header:
    """A loop in blocks, counted from the function's first: `header:end`."""

    header: int
    end: int
    trip: int


_Shape = tuple[list[_Header], list[tuple[int, ...]]]
"""The loops of a function, and the path of each block."""


def _chain(program: Program, function: int) -> list[int] | None:
    """Blocks from the entry on, each the only successor of the one before; None when they branch or loop."""
    first, last = program.starts("blocks", "functions")[function : function + 2].tolist()
    chain: dict[int, None] = {}
    block = first if first < last else NONE
    while block != NONE:
        following = _successors(program, block)
        if block in chain or len(set(following)) > 1:
            return None
        chain[block] = None
        block = following[0] if following else NONE
    return list(chain)


def _shape(program: Program, function: int) -> _Shape:
    first, last = program.starts("blocks", "functions")[function : function + 2].tolist()
    headers: list[_Header] = []
    paths: list[tuple[int, ...]] = []
    around: list[int] = []
    for row in range(first, last):
        at = row - first
        targets = [target - first for target in _successors(program, row)]
        trip, has_cond = int(program.blocks.trip[row]), program.blocks.cond[row] != NONE
        if program.blocks.divergent[row]:
            _refuse(program, row, "cores may take different branches here")
        if len(targets) == 2:
            end = headers[around[-1]].end if around else last - first
            if targets[0] != at + 1 or not at + 1 < targets[1] < end:
                _refuse(program, row, "its successors are not a loop's body and the block behind the loop")
            if not has_cond:
                _refuse(program, row, "it has two successors and no cond")
            if len(around) == _DEEPEST:
                _refuse(program, row, f"more than {_DEEPEST} loops around each other")
            around.append(len(headers))
            headers.append(_Header(at, targets[1], trip))
            paths.append(tuple(around))
            continue
        if has_cond or trip != NONE:
            _refuse(program, row, "cond and trip belong to the header of a loop")
        paths.append(tuple(around))
        if around and at + 1 == headers[around[-1]].end:
            if targets != [headers[around.pop()].header]:
                _refuse(program, row, "the last block of a loop must lead back to its header")
        elif not around and row + 1 == last:
            if targets:
                _refuse(program, row, "the last block leads to another one")
        elif targets != [at + 1]:
            _refuse(program, row, "it does not lead to the next block")
    return headers, paths


def _successors(program: Program, block: int) -> list[int]:
    begin, end = program.edges.source.searchsorted([block, block + 1]).tolist()
    found: list[int] = program.edges.target[begin:end].tolist()
    return found


# -- all cores -------------------------------------------------------------------------------------------------------


def _nest(program: Program, functions: list[int], headers: list[_Header], paths: list[tuple[int, ...]]) -> Nest:
    starts = program.starts("blocks", "functions")
    firsts = [int(starts[function]) for function in functions]
    loop_of = {each.header: each for each in headers}
    # A section ends where a header stands on either side of the seam, or the loops around change.
    cuts = [
        at
        for at in range(len(paths) + 1)
        if at in (0, len(paths)) or paths[at] != paths[at - 1] or at in loop_of or at - 1 in loop_of
    ]
    section_at = {block: number for number, block in enumerate(cuts)}
    sections = [
        Section(paths[begin], tuple(tuple(range(first + begin, first + end)) for first in firsts))
        for begin, end in pairwise(cuts)
    ]
    loops = [
        Loop(
            _name(program, firsts[0] + each.header),
            section_at[each.header],
            section_at[each.end],
            each.trip,
            tuple(first + each.header for first in firsts),
        )
        for each in headers
    ]
    return Nest(tuple(sections), tuple(loops))


def _refuse_difference(program: Program, first: int, second: int, one: _Shape, other: _Shape) -> NoReturn:
    """Point at the first block that is not as on the first core."""
    starts = program.starts("blocks", "functions")
    differing = [each.header for each, twin in zip(other[0], one[0], strict=False) if each != twin]
    at = differing[0] if differing else 0
    if not len(other[1]):
        bad_input(f"core {program.function_core[second]} has other blocks than core {program.function_core[first]}")
    _refuse(program, int(starts[second]) + at, f"core {program.function_core[first]} has other loops")


def _name(program: Program, block: int) -> str:
    return "^" + format_name(program.strings[int(program.blocks.name[block])])


def _refuse(program: Program, block: int, why: str) -> NoReturn:
    name = _name(program, block)
    bad_input(
        f"control flow of this form is not supported yet: block {name}: {why}",
        Label(
            f"{name} on core {program.block_core[block]}", place(program, NONE, int(program.blocks.text_line[block]))
        ),
    )
