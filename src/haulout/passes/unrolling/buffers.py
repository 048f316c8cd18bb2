"""Second buffers for what a loop writes anew in each iteration, and which of them each half of its body uses.

Rows are those of the first core. Let S be the location, P its second buffer, W where the new value is written.

    state       S is read, then written as a whole by W            first half    S before W, P from W on
                                                                   second half   P before W, S from W on
    copied      the same, and W only copies P, which holds         the same, without W: what made P in the first
                nothing else                                       half makes S in the second one
    temporary   S is written as a whole before it is read          first half    P
                                                                   second half   S

Each time, S holds the value after the second half. All accesses of S in the loop are in blocks that run after W or
before it in each iteration, since W is in no inner loop and no arm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.opcodes import Flow, lookup
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.ir.structure import Loop
from haulout.passes.unrolling.unroll import Halves, writes_all


@dataclass(frozen=True, slots=True)
class Alternating:
    """A location that may have two buffers in a loop."""

    location: int
    writer: int
    """The instruction that gives it its new value."""
    is_state: bool
    """Whether it is read before."""
    copied: int = NONE
    """The location that holds the new value already, where `writer` copies it."""


class _Touch(NamedTuple):
    access: int
    row: int


def alternating(program: Program, loop: Loop) -> list[Alternating]:
    """Locations that may have two buffers in a loop of the first core, in the order of their rows."""
    touched = _touched(program, loop)
    found = []
    for location, touches in touched.items():
        each = _alternating(program, loop, location, touches)
        if each is not None:
            found.append(each)
    found = _with_copied(program, found, touched)
    # What a state is copied from is its second buffer.
    copied = {each.copied for each in found}
    return sorted((each for each in found if each.location not in copied), key=lambda each: each.location)


def _touched(program: Program, loop: Loop) -> dict[int, list[_Touch]]:
    """Accesses in the loop by location, in list order."""
    rows = np.searchsorted(program.instructions.block, [loop.begin, loop.end])
    begin, end = program.access_starts[rows].tolist()
    found: defaultdict[int, list[_Touch]] = defaultdict(list)
    accesses = program.accesses
    for access in range(begin, end):
        found[int(accesses.location[access])].append(_Touch(access, int(accesses.instruction[access])))
    return found


def _alternating(program: Program, loop: Loop, location: int, touches: Sequence[_Touch]) -> Alternating | None:
    accesses, locations, structure = program.accesses, program.locations, program.structure
    writes = [each for each in touches if accesses.write[each.access]]
    if not writes or locations.space[location] != Space.DRAM_LOCAL or locations.address[location] != NONE:
        return None
    if locations.kind[location] == Kind.CONST or location in program.blocks.cond:
        return None
    first = writes[0]
    block = int(program.instructions.block[first.row])
    at_top = structure.regions[structure.region_of[block]] == loop and block != loop.header
    if not at_top or not writes_all(program, first.access):
        return None
    is_state = any(each.row <= first.row and not accesses.write[each.access] for each in touches)
    if is_state and len(writes) > 1:
        return None
    return Alternating(location, first.row, is_state)


def _with_copied(program: Program, found: list[Alternating], touched: dict[int, list[_Touch]]) -> list[Alternating]:
    """The same, with what states are copied from."""
    by_location = {each.location: each for each in found}
    made = []
    for each in found:
        source = _copied_from(program, each)
        other = by_location.get(source)
        if other is not None and not other.is_state and _same_form(program, each.location, source):
            last = max(touch.row for touch in touched[source] if program.accesses.write[touch.access])
            everywhere = np.flatnonzero(program.accesses.location == source)
            internal = program.locations.kind[source] == Kind.INTERNAL
            if internal and last < each.writer and len(everywhere) == len(touched[source]):
                by_location.pop(source)
                each = Alternating(each.location, each.writer, each.is_state, source)
        made.append(each)
    return made


def _copied_from(program: Program, each: Alternating) -> int:
    """The location that the writer of another one copies as a whole; NONE: it does something else."""
    accesses = program.accesses
    begin, end = program.access_starts[each.writer : each.writer + 2].tolist()
    opcode = lookup(program.strings[int(program.instructions.opcode[each.writer])])
    plain = opcode.copies and opcode.flow in (Flow.BYTES, Flow.ELEMENTS) and end - begin == 2
    if not plain or accesses.pattern[begin] != NONE or "dtypes" in program.instruction_attrs(each.writer):
        return NONE
    return NONE if accesses.maybe[begin] else int(accesses.location[begin])


def _same_form(program: Program, one: int, other: int) -> bool:
    locations = program.locations
    return (
        locations.size[one] == locations.size[other]
        and locations.dtype[one] == locations.dtype[other]
        and program.shape(one) == program.shape(other)
    )


class Buffered(NamedTuple):
    """A program with second buffers, which nothing uses yet."""

    program: Program
    """Rows of instructions and accesses are what they were, those of locations are not."""
    halves: Halves
    pairs: list[tuple[int, int]]
    """Both buffers of each location."""


def with_buffers(program: Program, loop: Loop, chosen: Sequence[Alternating]) -> Buffered:
    """The program with a second buffer for each location that has none yet, and the halves that use them."""
    new = [each.location for each in chosen if each.copied == NONE]
    program, at, buffers = _added(program, new)
    second = {int(at[location]): buffer for location, buffer in zip(new, buffers, strict=True)}
    touched = _touched(program, loop)
    halves = Halves({}, {}, {each.writer for each in chosen if each.copied != NONE})
    pairs = []
    for each in chosen:
        location = int(at[each.location])
        other = int(at[each.copied]) if each.copied != NONE else second[location]
        pairs.append((location, other))
        for access, row in touched[location]:
            write = bool(program.accesses.write[access])
            is_new = not each.is_state or row > each.writer or (row == each.writer and write)
            halves.first[access] = other if is_new else location
            halves.second[access] = location if is_new else other
        for access, _ in touched.get(other, ()):
            halves.second[access] = location
    return Buffered(program, halves, pairs)


def _added(program: Program, locations: Sequence[int]) -> tuple[Program, Ids, list[int]]:
    """The program with a buffer like each of some locations of the first core, on all cores; where the old locations
    are, and the new ones of the first core.
    """
    old, cores = program.locations, program.lnc
    size = len(old) // cores
    rows = (np.array(locations, np.int64) + size * np.arange(cores)[:, None]).ravel()
    names = np.tile(list(_free_names(program, locations)), cores).astype(np.int32)
    made = old.take(rows).replace(name=names, kind=int(Kind.INTERNAL), same=NONE)
    merged = old.append(made)
    order = np.argsort(merged.function, kind="stable")
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    maps = {"locations": position}
    program = program.replace(
        locations=merged.take(order), accesses=program.accesses.remap(maps), blocks=program.blocks.remap(maps)
    )
    return program, position, position[len(old) : len(old) + len(locations)].tolist()


def _free_names(program: Program, locations: Sequence[int]) -> Iterator[int]:
    taken = set(program.locations.name.tolist())
    for location in locations:
        stem = program.strings[int(program.locations.name[location])] + ".second"
        name, count = program.strings.intern(stem), 1
        while name in taken:
            count += 1
            name = program.strings.intern(f"{stem}.{count}")
        taken.add(name)
        yield name
