"""How many iterations of a loop show everything, when patterns move with the iteration.

Two iterations are enough where patterns do not move: what happens from one to a later one happens from it to the
next. Three where some `carried` dependence names what need not run in every iteration: an iteration between that
leaves it out leaves out the wait. Where there are several such, it may take more to lose them all; then three, and a
proof without those waits. Three also where tensors of a loop share bytes and its iterations differ, by forks or loops
inside of it: one writes a tensor, the next one another at its bytes, the last one reads the first.

A pattern with `step` starts `stride * ((k + phase) mod modulus)` bytes later in iteration k. The phase says where the
period begins, not how long it is, so it does not matter here.

- Moduli only: the loop repeats itself after their least common multiple P. Two accesses that ever overlap do so
  within P iterations of each other, so 2P iterations show every pair from every phase, and 3P every three. Code after
  the loop sees the phase that comes last: a known trip count says which, for an unknown one runs of 1 to P iterations
  end with each.
- Modulus 0: a location is finite, so the pattern leaves it after some iteration; no run is longer. All iterations are
  taken, and for an unknown trip count each number of them.

Where that is more than `MAX_COPIES`, or the program becomes too long, the loop's stepped patterns are taken for
unknown bytes: two iterations then show everything that may happen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np

from haulout.checker.columns import join_ranges
from haulout.checker.paths.control_flow import ControlFlow
from haulout.ir.enums import NONE, Space
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.structure import Loop
from haulout.ir.verify_operands import left_locations, pattern_hulls
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity, bad_input

MAX_COPIES = 1024
"""Iterations of a loop with a known trip count that are taken one by one ..."""
MAX_COPIES_UNKNOWN = 16
"""... and of one with an unknown count."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Of one loop: how many iterations to check."""

    count: int
    ends: int = 0
    """Trip count unknown and patterns move: runs of 1 to `ends` iterations differ for the code after the loop."""
    unknown: bool = False
    """Stepped patterns are taken for `?`."""
    stepped: bool = False
    turns: int = 2
    """How many iterations show everything that does not move."""
    distant: bool = False
    """Some conflict may need iterations farther apart than those checked, unless waits that may be left out are."""


@dataclass(frozen=True, slots=True)
class FunctionSteps:
    """The steps of a function on all cores, as columns."""

    access: Ids
    header: Ids
    """The header of the loop, by its number; NONE: no loop of the function."""
    depth: Ids
    """How many loops are around that loop."""
    stride: Ints
    modulus: Ints
    phase: Ints
    in_header: Bools
    """The access is in the loop's header, which runs once more."""

    def of(self, origin: Ids) -> tuple[Ints, Ints]:
        """The steps that move some operands, as (row in `origin`, step)."""
        order = np.argsort(self.access, kind="stable")
        order = order[self.stride[order] != 0]
        begin, end = (np.searchsorted(self.access[order], origin, side) for side in ("left", "right"))
        return np.repeat(np.arange(len(origin)), end - begin), order[join_ranges(begin, end - begin)]

    def shifts(self, step: Ints, iteration: Ints, row: Ints, rows: int) -> Ints:
        """How many bytes each of some rows is moved, by steps in iterations, each of a row."""
        modulus = self.modulus[step]
        turn = np.where(modulus > 0, (iteration + self.phase[step]) % np.maximum(modulus, 1), iteration)
        shift = np.zeros(rows, np.int64)
        np.add.at(shift, row, self.stride[step] * turn)
        return shift

    def none(self) -> FunctionSteps:
        """The same without any step."""
        return FunctionSteps(*(getattr(self, each.name)[:0] for each in fields(self)))


def find_steps(flow: ControlFlow) -> FunctionSteps:
    """The steps of a function's accesses.

    `bad-input` where a step follows no loop around it; `out-of-bounds` where a pattern leaves its location.
    """
    program, steps, structure = flow.program, flow.program.steps, flow.structure
    rows = np.flatnonzero(flow.block[program.accesses.instruction[steps.access]] != NONE)
    instruction = program.accesses.instruction[steps.access[rows]]
    header_of = np.full(len(program.blocks), NONE, np.int32)
    for each in flow.rows:
        for number in structure.loop_at:
            header_of[each[number]] = number
    header, block = header_of[steps.header[rows]], flow.block[instruction]
    for at, ends in enumerate(zip(header.tolist(), block.tolist(), strict=True)):
        if structure.loop_at.get(ends[0], NONE) not in structure.loops_around(ends[1]):
            message = "its step follows a block that is not the header of a loop around it"
            bad_input(message, instruction_label(program, int(instruction[at])))
    if left := left_locations(program, flow.functions):
        raise HauloutError(*left)
    depth = np.array([len(structure.loops_around(number)) - 1 for number in flow.blocks], np.int32)
    unknown = np.append(program.patterns.run == NONE, False)[program.accesses.pattern[steps.access[rows]]]
    return FunctionSteps(
        access=steps.access[rows],
        header=header,
        depth=depth[header],
        stride=np.where(unknown, 0, steps.stride[rows]),  # `?` stays what it is
        modulus=steps.modulus[rows],
        phase=steps.phase[rows],
        in_header=block == header,
    )


def find_copies(flow: ControlFlow, steps: FunctionSteps) -> dict[int, Copies]:
    """How many iterations of each loop, given by its header, show everything."""
    sharing = _sharing(flow)
    found = {
        loop.header: _copies(flow.program, steps, loop, 3 if loop.header in sharing else 2)
        for loop in flow.structure.loops.values()
    }
    for header, regions in _missed(flow).items():
        trip, few = _trip(flow, header), found[header].count
        if few < 3 and trip != few:
            distant = regions > 1 and (trip == NONE or trip > 3)
            found[header] = replace(found[header], count=3 if trip == NONE else min(trip, 3), distant=distant)
    return found


def _trip(flow: ControlFlow, header: int) -> int:
    structure = flow.structure
    return structure.loops[structure.loop_at[header]].trip


def _missed(flow: ControlFlow) -> dict[int, int]:
    """Headers of loops -> in how many regions a `carried` dependence has a producer that need not run in each of
    their iterations.
    """
    rows, structure = flow.program.dependences, flow.structure
    carried = np.flatnonzero(rows.carried & (flow.block[rows.instruction] != NONE))
    ends = np.stack([flow.block[rows.producer[carried]], flow.block[rows.instruction[carried]]])
    found: dict[int, set[int]] = {}
    for producer, consumer in np.unique(ends, axis=1).T.tolist():
        loop = flow.may_miss(producer, consumer)
        if loop != NONE:
            found.setdefault(structure.loops[loop].header, set()).add(structure.region_of[producer])
    return {header: len(regions) for header, regions in found.items()}


def _sharing(flow: ControlFlow) -> set[int]:
    """Headers of loops whose iterations differ, and which touch tensors that share bytes with another one."""
    program, structure = flow.program, flow.structure
    inside = {region.parent for region in structure.regions}
    differing = [loop for number, loop in structure.loops.items() if number in inside]
    if not differing:
        return set()
    block = flow.block[program.accesses.instruction]
    shared = _share_bytes(program)[program.accesses.location]
    touching = np.unique(block[shared & (block != NONE)])
    return {loop.header for loop in differing if np.any((touching >= loop.begin) & (touching < loop.end))}


def _share_bytes(program: Program) -> Bools:
    """Which locations may have bytes in common with one of another owner; partitions count as one."""
    rows, core, owner = program.locations, program.location_core, program.owner
    owner = np.where(owner == NONE, np.arange(len(rows), dtype=np.int32), owner)
    placed = np.flatnonzero(rows.address != NONE)
    own = rows.space[placed] > Space.DRAM_SHARED
    parts = np.where(own, np.maximum(rows.parts[placed], 1), 1)
    end = np.zeros(len(rows), np.int64)
    low = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(low, owner[placed], rows.address[placed])
    np.maximum.at(end, owner[placed], rows.address[placed] - (-rows.size[placed] // parts))
    owners, first = np.unique(owner[placed], return_index=True)
    memory = np.where(own, (1 + core[placed].astype(np.int64)) * len(Space) + rows.space[placed], 0)[first]
    # One memory behind the other, each owner an interval.
    offset = (memory - memory.min(initial=0)) * (int(end.max(initial=0)) + 1)
    begin, stop = low[owners] + offset, end[owners] + offset
    order = np.argsort(begin, kind="stable")
    meets_next = np.maximum.accumulate(stop[order])[:-1] > begin[order][1:]
    shared = np.zeros(len(rows), bool)
    shared[owners[order[1:][meets_next]]] = True
    shared[owners[order[:-1][stop[order][:-1] > begin[order][1:]]]] = True
    return shared[owner]


def _unmoved(trip: int, turns: int) -> Copies:
    """The copies of a loop whose patterns do not move."""
    return Copies(turns if trip == NONE else min(trip, turns), turns=turns)


def guessed(trip: int, turns: int) -> Copies:
    """The copies of a loop whose stepped patterns are taken for unknown bytes."""
    return replace(_unmoved(trip, turns), unknown=True)


def _copies(program: Program, steps: FunctionSteps, loop: Loop, turns: int) -> Copies:
    trip = loop.trip
    mine = np.flatnonzero((steps.header == loop.header) & (steps.stride != 0))
    if len(mine) == 0:
        return _unmoved(trip, turns)
    moving = moving_on(steps, loop)
    period = math.lcm(*(modulus for modulus in np.unique(steps.modulus[mine]).tolist() if modulus))
    if trip != NONE:
        # As many whole periods are left out as leave two or three, so that the last phase is the last one's.
        count = trip if moving or trip <= (turns + 1) * period else turns * period + trip % period
        return Copies(count, stepped=True, turns=turns) if count <= MAX_COPIES else guessed(trip, turns)
    if moving:
        count = ends = most_iterations(program, steps, moving)[0]
    else:
        count, ends = turns * period, period
    return Copies(count, ends, stepped=True, turns=turns) if count <= MAX_COPIES_UNKNOWN else guessed(trip, turns)


def moving_on(steps: FunctionSteps, loop: Loop) -> dict[int, int]:
    """Rows of `steps` that move on and on with a loop, and their strides: those without modulus, of which those of
    one operand add up.
    """
    rows = np.flatnonzero((steps.header == loop.header) & (steps.modulus == 0))
    strides: dict[int, int] = {}
    for row in rows.tolist():
        access = int(steps.access[row])
        strides[access] = strides.get(access, 0) + int(steps.stride[row])
    return {int(row): strides[int(steps.access[row])] for row in rows.tolist() if strides[int(steps.access[row])]}


def most_iterations(program: Program, steps: FunctionSteps, moving: dict[int, int]) -> tuple[int, int]:
    """How many iterations a loop has at most, when patterns that move on and on stay in their locations, and the
    operand that limits it; `moving` has the stride of each of some rows of `steps`.
    """
    rows, stride = np.array(list(moving), np.int64), np.array(list(moving.values()), np.int64)
    access = steps.access[rows]
    pattern, size = program.accesses.pattern[access], program.locations.size[program.accesses.location[access]]
    low, high = (np.append(column, 0)[pattern] for column in pattern_hulls(program))
    whole = np.append(program.patterns.run, NONE)[pattern] == NONE
    low, high = np.where(whole, 0, low), np.where(whole, size, high)
    left = np.where(stride > 0, size - high, low) // np.abs(stride) + np.where(steps.in_header[rows], 0, 1)
    at = int(np.argmin(left))
    return max(int(left[at]), 1), int(steps.access[rows[at]])


def assumed_trips(flow: ControlFlow, steps: FunctionSteps) -> list[Diagnostic]:
    """`assumed-trip`: loops that only a step limits, which would leave its location."""
    found, program = [], flow.program
    for loop in flow.structure.loops.values():
        moving = moving_on(steps, loop) if loop.trip == NONE else {}
        if not moving:
            continue
        most, access = most_iterations(program, steps, moving)
        row = int(program.accesses.instruction[access])
        location = int(program.accesses.location[access])
        name, times = flow.name(loop.header), "once" if most == 1 else f"{most} times"
        message = f"the loop at {name} is taken to run no more than {times}: nothing is proved of longer runs"
        note = f"its step leaves a location of {program.locations.size[location]} bytes after that"
        help_text = f"say how often it runs (trip= at {name}), or give the step a modulus"
        labels = (instruction_label(program, row), location_label(program, location))
        found.append(Diagnostic("assumed-trip", Severity.NOTE, message, labels, (note,), (help_text,)))
    return found
