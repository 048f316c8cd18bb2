"""How many iterations of a loop show everything, when patterns move with the iteration.

With patterns that stay, two iterations do: what happens from one to a later one happens from it to the next. Three
where some `carried` names what need not run in every iteration: an iteration between that leaves it out leaves out
the wait. Where there are several such, it may take more to lose them all; then three and a proof without those waits.

A pattern with `step` stands `stride * ((k + phase) mod modulus)` bytes further in iteration k. The phase says where
the period begins, not how long it is, so it plays no part here.

- Moduli only: the loop repeats itself after their least common multiple P. Two accesses that ever meet do so within P
  iterations of each other, so 2P iterations show every pair from every phase. What stands behind the loop meets the
  phase that comes last: a known trip count says which, for an unknown one runs of 1 to P iterations end with each.
- Modulus 0: a location is finite, so the pattern leaves it after some iteration; no run is longer. All iterations are
  taken, and for an unknown trip count each number of them.

Where that is more than `MOST_COPIES`, or the program becomes too long, the loop's stepped patterns are taken for
unknown bytes: two iterations then show everything that may happen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from haulout.checker.paths.loops import Nest, block_rows
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.verify_operands import left_locations
from haulout.support.diagnostics import Diagnostic, Severity

MOST_COPIES = 1024
"""Iterations of a loop with a known trip count that are taken one by one ..."""
MOST_GUESSED = 16
"""... and of one with an unknown count."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Of one loop: how many iterations to look at."""

    count: int
    ends: int = 0
    """Trip count unknown and patterns move: runs of 1 to `ends` iterations differ for what stands behind."""
    unknown: bool = False
    """Stepped patterns are taken for `?`."""
    stepped: bool = False
    distant: bool = False
    """Some conflict may need iterations farther apart than those looked at, unless waits that may be left out are."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The steps of a function on all cores."""

    access: Ids
    loop: Ids
    """A number of `Nest.loops`."""
    depth: Ids
    """The place of the loop on the paths of blocks inside it."""
    stride: Ints
    modulus: Ints
    phase: Ints
    header: Bools
    """The access stands in the loop's header, which runs once more."""


def find_moves(program: Program, functions: Sequence[int], nest: Nest) -> Moves:
    """The steps that belong to a function's accesses."""
    steps = program.steps
    instruction = program.accesses.instruction[steps.access]
    rows = np.flatnonzero(np.isin(program.instruction_function[instruction], functions))
    loop_of = np.full(len(program.blocks), NONE, np.int32)
    for function in functions:
        first = block_rows(program, function).start
        for header, number in nest.headers.items():
            loop_of[first + header] = number
    loop = loop_of[steps.header[rows]]
    block = program.instructions.block[instruction[rows]]
    depths = np.array([len(nest.paths[loop.header]) - 1 for loop in nest.loops], np.int32)
    in_header = block == steps.header[rows]
    unknown = np.append(program.patterns.run == NONE, False)[program.accesses.pattern[steps.access[rows]]]
    return Moves(
        access=steps.access[rows],
        loop=loop,
        depth=depths[loop],
        stride=np.where(unknown, 0, steps.stride[rows]),  # `?` stays what it is
        modulus=steps.modulus[rows],
        phase=steps.phase[rows],
        header=in_header,
    )


def copies(program: Program, nest: Nest, moves: Moves, functions: Sequence[int]) -> list[Copies]:
    """How many iterations of each loop show everything."""
    found = [_copies(program, nest, moves, number) for number in range(len(nest.loops))]
    for number, regions in _missing(program, nest, functions).items():
        trip, few = nest.loops[number].trip, found[number].count
        if few < 3 and trip != few:
            distant = regions > 1 and (trip == NONE or trip > 3)
            found[number] = replace(found[number], count=3 if trip == NONE else min(trip, 3), distant=distant)
    return found


def _missing(program: Program, nest: Nest, functions: Sequence[int]) -> dict[int, int]:
    """Loops, and in how many regions stand what a `carried` names and need not run in each of their iterations."""
    rows = program.dependences
    first = np.zeros(len(program.functions), np.int64)
    for function in functions:
        first[function] = block_rows(program, function).start
    carried = np.flatnonzero(rows.carried & np.isin(program.instruction_function[rows.instruction], functions))
    ends = []
    for row in (rows.producer[carried], rows.instruction[carried]):
        ends.append(program.instructions.block[row] - first[program.instruction_function[row]])
    found: dict[int, set[object]] = {}
    for producer, consumer in np.unique(np.stack(ends), axis=1).T.tolist():
        loop = nest.may_miss(producer, consumer)
        if loop != NONE:
            found.setdefault(loop, set()).add(nest.around[producer])
    return {loop: len(regions) for loop, regions in found.items()}


def still(trip: int) -> Copies:
    """The copies of a loop whose patterns stay."""
    return Copies(2 if trip == NONE else min(trip, 2))


def guessed(trip: int) -> Copies:
    """The copies of a loop whose stepped patterns are taken for unknown bytes."""
    return Copies(still(trip).count, unknown=True)


def _copies(program: Program, nest: Nest, moves: Moves, number: int) -> Copies:
    trip = nest.loops[number].trip
    mine = np.flatnonzero((moves.loop == number) & (moves.stride != 0))
    if len(mine) == 0:
        return still(trip)
    moving = _moving(moves, number)
    period = math.lcm(*(modulus for modulus in np.unique(moves.modulus[mine]).tolist() if modulus))
    if trip != NONE:
        # As many whole periods are left out as leave two, so that the last phase is the last one's.
        count = trip if moving or trip <= 3 * period else 2 * period + trip % period
        return Copies(count, stepped=True) if count <= MOST_COPIES else guessed(trip)
    if moving:
        count = ends = _longest(program, moves, moving)[0]
    else:
        count, ends = 2 * period, period
    return Copies(count, ends, stepped=True) if count <= MOST_GUESSED else guessed(trip)


def _moving(moves: Moves, number: int) -> dict[int, int]:
    """Operands that move on and on with a loop: steps without modulus, of which those of one operand add up."""
    rows = np.flatnonzero((moves.loop == number) & (moves.modulus == 0))
    strides: dict[int, int] = {}
    for row in rows.tolist():
        access = int(moves.access[row])
        strides[access] = strides.get(access, 0) + int(moves.stride[row])
    return {int(row): strides[int(moves.access[row])] for row in rows.tolist() if strides[int(moves.access[row])]}


def _longest(program: Program, moves: Moves, moving: dict[int, int]) -> tuple[int, int]:
    """How many iterations a loop has at most, when patterns that move on and on stay in their locations, and the
    operand that says so; `moving` has the stride of each of some rows of `moves`.
    """
    rows, stride = np.array(list(moving), np.int64), np.array(list(moving.values()), np.int64)
    low, high, size = _hulls(program, moves.access[rows])
    left = np.where(stride > 0, size - high, low) // np.abs(stride) + np.where(moves.header[rows], 0, 1)
    at = int(np.argmin(left))
    return max(int(left[at]), 1), int(moves.access[rows[at]])


def _hulls(program: Program, accesses: Ids) -> tuple[Ints, Ints, Ints]:
    """First byte, byte behind the last, and size of the location, for each of some accesses."""
    rows = program.accesses
    size = program.locations.size[rows.location[accesses]]
    low, high = np.zeros(len(accesses), np.int64), size.copy()
    for at, pattern in enumerate(rows.pattern[accesses].tolist()):
        found = program.pattern(pattern)
        if found is not None and not found.is_unknown:
            low[at], high[at] = found.hull
    return low, high, size


def check_moves(program: Program, nest: Nest, moves: Moves, functions: Sequence[int]) -> list[Diagnostic]:
    """`bad-input` where a step follows no loop around it; `out-of-bounds` where a pattern leaves its location."""
    first = np.zeros(len(program.functions), np.int64)
    for function in functions:
        first[function] = block_rows(program, function).start
    instruction = program.accesses.instruction[moves.access]
    block = program.instructions.block[instruction] - first[program.instruction_function[instruction]]
    for at, (loop, number) in enumerate(zip(moves.loop.tolist(), block.tolist(), strict=True)):
        if loop not in nest.paths[number]:
            message = "its step follows a block that is not the header of a loop around it"
            label = instruction_label(program, int(instruction[at]))
            return [Diagnostic("bad-input", Severity.ERROR, message, (label,))]
    return left_locations(program, functions)


def assumed_trips(program: Program, nest: Nest, moves: Moves) -> list[Diagnostic]:
    """`assumed-trip`: loops that nothing bounds but a step that would leave its location."""
    found = []
    for number, loop in enumerate(nest.loops):
        moving = _moving(moves, number) if loop.trip == NONE else {}
        if not moving:
            continue
        most, access = _longest(program, moves, moving)
        row = int(program.accesses.instruction[access])
        location = int(program.accesses.location[access])
        times = "once" if most == 1 else f"{most} times"
        message = f"the loop at {loop.name} is taken to run no more than {times}: nothing is proved of longer runs"
        note = f"its step leaves a location of {program.locations.size[location]} bytes after that"
        help_text = f"say how often it runs (trip= at {loop.name}), or give the step a modulus"
        labels = (instruction_label(program, row), location_label(program, location))
        found.append(Diagnostic("assumed-trip", Severity.NOTE, message, labels, (note,), (help_text,)))
    return found
