"""How much of the time cores exchange data, and which source lines cause it.

A collective has become copies, reductions and fences by then. What counts is what crosses cores:

    a copy or a combination of values that reads what another core writes, or writes what other cores alone read
    a barrier or a `sendrecv`, from the arrival of the core until all leave

Constants and inputs that are stored once are not an exchange, nor is an operation that reads its operand in place. Of
instructions that run at the same time on a core, each moment counts once, for the one that started first; inside a
loop the first iteration counts for all. The time at a fence belongs to the line whose access it orders; where several
fences order it, to the next exchange of the core.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np

from haulout.analysis.durations import F64
from haulout.analysis.fence_pairs import fence_pairs
from haulout.analysis.makespan import ASSUMED_TRIP, Estimate
from haulout.analysis.straightline import epochs, fence_rows
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints

MAX_LINES = 10
_CARRY = ("dma_copy", "combine")
"""What collectives are lowered to, besides fences."""


class ExchangeLine(msgspec.Struct):
    """A source line. Times in microseconds, of an average core."""

    loc: str | None
    """None: of instructions without a line."""
    move_us: float
    """Copies and reductions of data of other cores."""
    wait_us: float
    """At barriers and exchanges."""


class Exchange(msgspec.Struct):
    """The time in which cores exchange data."""

    share: float
    """Of the estimated makespan, on average over the cores."""
    lines: list[ExchangeLine]
    """Those that take most of it, the first the most."""


def exchange_time(program: Program, estimate: Estimate) -> Exchange:
    """The exchanges of a program by its estimate."""
    if program.lnc == 1 or estimate.makespan <= 0:
        return Exchange(0.0, [])
    rows = program.instructions
    waits = estimate.arrived >= 0
    moves = _moves(program) & ~waits
    begin = np.where(waits, estimate.arrived, estimate.begin)
    spent = _once(program, begin, estimate.finish, moves | waits) * _trips(program)
    line = np.where(waits, _lines_of_waits(program, np.flatnonzero(waits), moves), rows.loc)
    found: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for kind, mask in enumerate((moves, waits)):
        ids, which = np.unique(line[mask], return_inverse=True)
        for loc, time in zip(ids.tolist(), np.bincount(which, spent[mask], len(ids)).tolist(), strict=True):
            found[loc][kind] += time / program.lnc
    lines = [
        ExchangeLine(program.strings.get(loc), round(move, 3), round(wait, 3))
        for loc, (move, wait) in sorted(found.items(), key=lambda each: -sum(each[1]))
        if move + wait > 0
    ]
    total = float(spent[moves | waits].sum()) / program.lnc
    return Exchange(round(min(total / estimate.makespan, 1.0), 4), lines[:MAX_LINES])


def _moves(program: Program) -> Bools:
    """Whether an instruction carries data between cores."""
    accesses, locations = program.accesses, program.locations
    owner = program.owner[accesses.location]
    core = program.instruction_core[accesses.instruction]
    real = (owner != NONE) & ~np.isin(accesses.instruction, program.barriers.instruction)
    # A write crosses when only other cores read the location; a read, when another core writes it.
    place = owner.astype(np.int64) * program.lnc + core
    reads, writes = real & ~accesses.write, real & accesses.write
    is_read = np.zeros(len(locations), bool)
    is_read[owner[reads]] = True
    least, most = np.full(len(locations), program.lnc), np.full(len(locations), NONE)
    np.minimum.at(least, owner[writes], core[writes])
    np.maximum.at(most, owner[writes], core[writes])
    elsewhere = (most[owner] != NONE) & ((least[owner] != core) | (most[owner] != core))
    crosses = np.where(accesses.write, is_read[owner] & ~np.isin(place, place[reads]), elsewhere)
    crosses &= real & ~np.isin(locations.kind[owner], (Kind.INPUT, Kind.CONST))
    found = np.zeros(len(program.instructions), bool)
    found[accesses.instruction[crosses]] = True
    opcodes = [program.strings.find(name) for name in _CARRY]
    carries: Bools = found & np.isin(program.instructions.opcode, [each for each in opcodes if each != NONE])
    return carries


def _once(program: Program, begin: F64, finish: F64, mask: Bools) -> F64:
    """Of each masked instruction the time in which no masked one of its core that started before still runs."""
    spent = np.zeros(len(begin))
    for core in range(program.lnc):
        mine = np.flatnonzero(mask & (program.instruction_core == core))
        mine = mine[np.argsort(begin[mine], kind="stable")]
        before = np.maximum.accumulate(np.append(0.0, finish[mine]))[:-1]
        spent[mine] = np.maximum(finish[mine] - np.maximum(begin[mine], before), 0.0)
    return spent


def _trips(program: Program) -> F64:
    """How often each instruction runs: the trips of the loops around it, multiplied."""
    structure = program.structure
    loops = structure.loops
    trips = structure.descend(
        1,
        lambda outer, number, region: (
            outer * (ASSUMED_TRIP if loops[number].trip == NONE else loops[number].trip) if number in loops else outer
        ),
    )
    by_block = np.array([trips[region] for region in structure.region_of], np.float64)
    found: F64 = by_block[program.instructions.block]
    return found


def _lines_of_waits(program: Program, waits: Ints, moves: Bools) -> Ids:
    """Of each instruction that is a barrier or a `sendrecv` the line that it is for."""
    rows = program.instructions
    line = rows.loc.copy()
    core = program.instruction_core
    moving = np.flatnonzero(moves)
    following = np.searchsorted(moving, waits)
    has = following < len(moving)
    has[has] = core[moving[following[has]]] == core[waits[has]]
    bare = rows.loc[waits] == NONE
    line[waits[bare & has]] = rows.loc[moving[following[bare & has]]]
    # Fences of all cores that alone order a conflict.
    pairs, epoch, fences = fence_pairs(program), epochs(program), fence_rows(program)
    ordered, first = np.unique(epoch[pairs.fence], return_index=True)
    known = np.full(int(epoch.max(initial=0)) + 1, NONE, np.int64)
    known[ordered] = first
    fences = fences[known[epoch[fences]] != NONE]
    line[fences] = rows.loc[program.accesses.instruction[pairs.later[known[epoch[fences]]]]]
    return line
