"""Operands that move with the iterations of loops (`step`): a variant of the operand for each place it may be at.

In iteration k of a loop the operand starts `stride * ((k + phase) mod modulus)` bytes further, `stride * k` without
modulus; steps of several loops add up. The variants of an operand are all combinations of the steps' places. Of a
step without modulus, the location's size bounds them, or the loop's trip count; what an iteration beyond would touch
lies outside of the location.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.program import Program
from haulout.ir.schema import SIZE_MAX, Bools, Ids, Ints
from haulout.ir.verify_operands import pattern_hulls
from haulout.sim.flow.control import Nest
from haulout.sim.flow.visits import Iteration
from haulout.support.diagnostics import bad_input, fail

_MOST_VARIANTS = 1 << 20
"""Of one operand."""


@dataclass(frozen=True, slots=True)
class Step:
    """The steps of one operand along one loop."""

    depth: int
    """Of the loop, on the path of the operand's section."""
    stride: int
    modulus: int
    phase: int
    count: int
    """Places that it may be at; further ones leave the location."""

    def place(self, iteration: int) -> int:
        """By how many strides it is moved."""
        return (iteration + self.phase) % self.modulus if self.modulus else iteration


@dataclass(frozen=True, slots=True)
class Move:
    """An operand that moves."""

    access: int
    steps: tuple[Step, ...]
    first: int
    """The operand number of its first variant; that of (p1, p2) is `first + p1 * count2 + p2`."""
    shifts: Ints
    """Bytes by which each variant is moved."""
    fits: Bools
    """Which variants lie inside the location."""


class Moves:
    """All operands that move; their variants are numbered from `first` on."""

    def __init__(self, program: Program, nest: Nest, first: int) -> None:
        self.program = program
        self.by_access: dict[int, Move] = {}
        low, high = (np.append(column, NONE) for column in pattern_hulls(program))
        for access, rows in _rows_by_access(program, nest).items():
            pattern, location = int(program.accesses.pattern[access]), int(program.accesses.location[access])
            size = int(program.locations.size[location])
            if program.patterns.run[pattern] == NONE and pattern != NONE:
                continue  # `?` stays what it is
            bounds = (0, size) if pattern == NONE else (int(low[pattern]), int(high[pattern]))
            steps = _steps(program, nest, access, rows, (bounds[0], size - bounds[1]))
            shifts = np.zeros(1, np.int64)
            for step in steps:
                shifts = (shifts[:, None] + step.stride * np.arange(step.count)).ravel()
            fits = (shifts + bounds[0] >= 0) & (shifts + bounds[1] <= size)
            self.by_access[access] = Move(access, tuple(steps), first, shifts, fits)
            first += len(shifts)
        instructions = {int(program.accesses.instruction[access]) for access in self.by_access}
        self.moving: frozenset[int] = frozenset(instructions)
        """Instructions with operands that move."""

    def operand(self, access: int, around: Iteration) -> int:
        """The number of an operand in some iteration. Raises `out-of-bounds` when it leaves its location."""
        move = self.by_access.get(access)
        return access if move is None else int(self.operands(move, np.array([around], np.int32))[0])

    def operands(self, move: Move, iterations: Ids) -> Ints:
        """The same for a whole column of iterations."""
        variant = np.zeros(len(iterations), np.int64)
        leaves = np.zeros(len(iterations), np.bool_)
        for step in move.steps:
            place = iterations[:, step.depth].astype(np.int64)
            if step.modulus:
                place = (place + step.phase) % step.modulus
            leaves |= place >= step.count
            variant = variant * step.count + np.minimum(place, step.count - 1)
        leaves |= ~move.fits[variant]
        if leaves.any():
            self._leaves(move, iterations[int(np.flatnonzero(leaves)[0])].tolist())
        return move.first + variant

    def variants(self) -> tuple[Ids, Ints]:
        """For all variants in the order of their numbers: the access, and by how many bytes it is moved.

        Those that lie outside of the location are not moved; nobody uses them.
        """
        moves = list(self.by_access.values())
        accesses = [np.full(len(move.shifts), move.access, np.int32) for move in moves]
        shifts = [np.where(move.fits, move.shifts, 0) for move in moves]
        return np.concatenate([np.zeros(0, np.int32), *accesses]), np.concatenate([np.zeros(0, np.int64), *shifts])

    def _leaves(self, move: Move, around: list[int]) -> None:
        at = [(step, around[step.depth]) for step in move.steps]
        shift = sum(step.stride * step.place(k) for step, k in at)
        accesses = self.program.accesses
        labels = (
            instruction_label(self.program, int(accesses.instruction[move.access])),
            location_label(self.program, int(accesses.location[move.access])),
        )
        iteration = ", ".join(str(k) for k in around if k != NONE)
        fail("out-of-bounds", f"in iteration {iteration} its step by {shift} bytes leaves the location", *labels)


def _rows_by_access(program: Program, nest: Nest) -> dict[int, list[int]]:
    """Rows of `steps` that move an operand of a function that runs, for each access."""
    section_of = {
        block: number for number, each in enumerate(nest.sections) for blocks in each.blocks for block in blocks
    }
    found: dict[int, list[int]] = defaultdict(list)
    for row, access in enumerate(program.steps.access.tolist()):
        block = int(program.instructions.block[program.accesses.instruction[access]])
        if block in section_of and program.steps.stride[row]:
            found[access].append(row)
            loops = [nest.loops[loop] for loop in nest.sections[section_of[block]].path]
            if not any(int(program.steps.header[row]) in loop.blocks for loop in loops):
                label = instruction_label(program, int(program.accesses.instruction[access]))
                bad_input("its step follows a block that is not the header of a loop around it", label)
    return found


def _steps(program: Program, nest: Nest, access: int, rows: list[int], room: tuple[int, int]) -> list[Step]:
    """The steps of an operand that may move by `room` bytes, (down, up)."""
    strides = program.steps.stride[rows]
    # Steps in both directions may make up for each other.
    is_mixed = bool((strides > 0).any() and (strides < 0).any())
    label = instruction_label(program, int(program.accesses.instruction[access]))
    result = []
    for row in rows:
        header, stride = int(program.steps.header[row]), int(program.steps.stride[row])
        loop = next(each for each in nest.loops if header in each.blocks)
        modulus = int(program.steps.modulus[row])
        depth = len(nest.sections[loop.header].path) - 1
        bounds = [] if is_mixed else [room[stride > 0] // abs(stride) + 1]
        bounds += [modulus] if modulus > 0 else []
        phase = int(program.steps.phase[row])
        bounds += [loop.trip + 1 + phase] if loop.trip != NONE else []
        if not bounds:
            bad_input(f"steps in both directions along {loop.name}, which has no trip, are not supported yet", label)
        result.append(Step(depth, stride, modulus, phase, min(bounds)))
    reach = sum(abs(step.stride) * step.count for step in result)
    if prod(step.count for step in result) > _MOST_VARIANTS or reach > SIZE_MAX:
        bad_input(f"an operand with more than {_MOST_VARIANTS:,} places is not supported yet", label)
    return result
