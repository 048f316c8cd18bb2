"""Values of a location: each write of the whole location begins the next one.

A front end stores a result over an operand that dies there. With the operand cut and read by other cores, the result
would have to wait behind a fence for these readers, and with it all that follows. So such a result gets a location of
its own; a result that takes over what its own core alone has read stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from haulout.analysis.overlap import extents
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.passes.splitting.candidates import Candidates
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.operations import Operation

T = TypeVar("T")


def values_of(program: Program) -> Ids:
    """Of each access of the first core the number of the value that it touches, of its location, from 0.

    All have value 0 where a value could be meant that is not seen here: where the location is not internal, or has an
    address, a view or a condition; where it is touched in several blocks, or first by something else than a write of
    all of it; where an instruction writes it twice.
    """
    accesses, locations = program.accesses, program.locations
    count, mine = len(accesses) // program.lnc, len(locations) // program.lnc
    location, row, write = (each[:count] for each in (accesses.location, accesses.instruction, accesses.write))
    x = extents(program)
    begins: Bools = write & x.exact[:count] & (x.low[:count] == 0) & (x.high[:count] == locations.size[location])
    # group by location, in list order
    order = np.lexsort((np.arange(count), location))
    new_group = np.append(True, location[order][1:] != location[order][:-1])[:count]
    number = np.cumsum(begins[order])
    first = np.flatnonzero(new_group)
    group = np.cumsum(new_group) - 1
    value = np.empty(count, np.int32)
    value[order] = number - number[first][group]
    plain: Bools = (locations.kind == Kind.INTERNAL) & (locations.space == Space.DRAM_LOCAL)
    plain &= (locations.address == NONE) & (program.owner == np.arange(len(locations)))
    plain &= np.bincount(program.owner[program.owner != NONE], minlength=len(locations)) == 1
    plain[program.blocks.cond[program.blocks.cond != NONE]] = False
    plain = plain[:mine].copy()
    plain[location[order[first]][~begins[order[first]]]] = False
    plain[location[accesses.atomic[:count] | accesses.maybe[:count]]] = False
    block = program.instructions.block[row]
    least, most = np.full(mine, len(program.blocks)), np.full(mine, NONE)
    np.minimum.at(least, location, block)
    np.maximum.at(most, location, block)
    written = row[order][write[order]], location[order][write[order]]
    twice = (written[0][1:] == written[0][:-1]) & (written[1][1:] == written[1][:-1])
    plain[written[1][1:][twice]] = False
    found: Ids = np.where((plain & (least == most))[location], value, 0).astype(np.int32)
    return found


def separate(program: Program, found: Candidates, cuts: Sequence[Cuts]) -> tuple[Program, Candidates, list[Cuts]]:
    """The program in which a value has a location of its own if other cores read what it would overwrite.

    With the candidates and the cuts for its locations; the last of `cuts` says who reads what.
    """
    place = _places(program, found.operations, cuts[-1], values_of(program))
    mine = len(program.locations) // program.lnc
    most = np.zeros(mine, np.int64)
    location = program.accesses.location[: len(place)]
    np.maximum.at(most, location, place)
    if not most.any():
        return program, found, list(cuts)
    source: Ints = np.repeat(np.arange(mine, dtype=np.int64), most + 1)
    at: Ints = np.searchsorted(source, np.arange(mine)).astype(np.int64)
    moved: Ids = (at[location] + place).astype(np.int32)
    program = _with_locations(program, source, at, moved)

    def spread(by_location: Mapping[int, T]) -> dict[int, T]:
        return {new: by_location[old] for new, old in enumerate(source.tolist()) if old in by_location}

    operations = {
        row: replace(each, operands=tuple(replace(it, location=int(moved[it.access])) for it in each.operands))
        for row, each in found.operations.items()
    }
    candidates = Candidates(spread(found.classes), spread(found.sizes), operations, spread(found.kept), found.refused)
    return program, candidates, [Cuts(spread(each.keys), each.axes) for each in cuts]


def _places(program: Program, operations: Mapping[int, Operation], cuts: Cuts, value: Ids) -> Ids:
    """Of each access: which location it is to have, counted from 0, of those that take the place of its own."""
    accesses = program.accesses
    location = accesses.location[: len(value)]
    place = np.zeros(len(value), np.int32)
    for at in np.unique(location[value > 0]).tolist():
        if at in cuts.keys:
            touching = np.flatnonzero(location == at)
            apart = set(_read_apart(program, operations, cuts, touching.tolist(), value))
            behind = np.cumsum([number in apart for number in range(int(value[touching].max()) + 1)])
            # The value after one that is read by others is the first of the next location.
            place[touching] = np.append(0, behind)[value[touching]]
    return place


def _read_apart(
    program: Program, operations: Mapping[int, Operation], cuts: Cuts, touching: Sequence[int], value: Ids
) -> Iterator[int]:
    """Values that other cores than those that wrote them read."""
    starts = program.access_starts
    for access in touching:
        row = int(program.accesses.instruction[access])
        axis = cuts.axes.get(row)
        key = cuts.keys[int(program.accesses.location[access])]
        if axis is None or axis.keys[access - int(starts[row])] != key:
            yield int(value[access])


def _with_locations(program: Program, source: Ints, at: Ints, moved: Ids) -> Program:
    """The program whose locations on each core are those of `source`; accesses of the first core name `moved`."""
    locations, cores = program.locations, np.arange(program.lnc)[:, None]
    mine, made = len(locations) // program.lnc, len(source)
    rows = locations.take((source + mine * cores).ravel())
    name = rows.name.copy()
    for new in np.flatnonzero(np.append(False, source[1:] == source[:-1])).tolist():
        copy = new - int(at[source[new]])
        text = program.strings.intern(f"{program.strings[int(locations.name[source[new]])]}.value{copy}")
        name[new::made] = text
    remap: Ids = (at + made * cores).ravel().astype(np.int32)
    return program.replace(
        locations=rows.replace(name=name),
        accesses=program.accesses.replace(location=(moved + made * cores).ravel().astype(np.int32)),
        blocks=program.blocks.remap({"locations": remap}),
    )
