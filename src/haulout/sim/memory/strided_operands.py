"""Strided operands: those that `step` with the iterations of loops have a variant for each place they may be at.

In iteration k of a loop the operand starts `stride * ((k + phase) mod modulus)` bytes further, `stride * k` without
modulus; steps of several loops add up. The variants of an operand are all combinations of the steps' places. Without
modulus the places are bounded by the size of the location, or by the loop's trip count; further iterations would
leave the location.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.schema import SIZE_MAX, Bools, Ids, Ints
from haulout.ir.verify_operands import pattern_hulls
from haulout.sim.flow.code import Code
from haulout.sim.flow.visits import Iteration
from haulout.support.diagnostics import bad_input, fail

_MAX_VARIANTS = 1 << 20
"""Variants of one operand."""


@dataclass(frozen=True, slots=True)
class Step:
    """The steps of one operand along one loop."""

    depth: int
    """Of the loop, among those around the operand's section."""
    stride: int
    modulus: int
    phase: int
    count: int
    """Places inside the location; further ones leave it."""

    def place(self, iteration: int) -> int:
        """The number of strides that it is moved by."""
        return (iteration + self.phase) % self.modulus if self.modulus else iteration


@dataclass(frozen=True, slots=True)
class StridedOperand:
    """An operand that moves with iterations."""

    access: int
    steps: tuple[Step, ...]
    first: int
    """The operand number of its first variant; that of (p1, p2) is `first + p1 * count2 + p2`."""
    shifts: Ints
    """Bytes that each variant is moved by."""
    fits: Bools
    """Which variants are inside the location."""


class StridedOperands:
    """All strided operands; their variants are numbered after the operands of the code."""

    def __init__(self, code: Code) -> None:
        program, first = code.program, code.operands
        self.program = program
        self.by_access: dict[int, StridedOperand] = {}
        low, high = (np.append(column, NONE) for column in pattern_hulls(program))
        for access, rows in _rows_by_access(code).items():
            pattern, location = int(program.accesses.pattern[access]), int(program.accesses.location[access])
            size = int(program.locations.size[location])
            if program.patterns.run[pattern] == NONE and pattern != NONE:
                continue  # the bytes of `?` are unknown in every iteration
            bounds = (0, size) if pattern == NONE else (int(low[pattern]), int(high[pattern]))
            steps = _steps(code, access, rows, (bounds[0], size - bounds[1]))
            shifts = np.zeros(1, np.int64)
            for step in steps:
                shifts = (shifts[:, None] + step.stride * np.arange(step.count)).ravel()
            fits = (shifts + bounds[0] >= 0) & (shifts + bounds[1] <= size)
            self.by_access[access] = StridedOperand(access, tuple(steps), first, shifts, fits)
            first += len(shifts)
        instructions = {int(program.accesses.instruction[access]) for access in self.by_access}
        self.moving: frozenset[int] = frozenset(instructions)
        """Instructions with strided operands."""

    def operand(self, access: int, around: Iteration) -> int:
        """The number of an operand in an iteration. Raises `out-of-bounds` when it leaves its location."""
        strided = self.by_access.get(access)
        if strided is None:
            return access
        variant, leaves = 0, False
        for step in strided.steps:
            place = step.place(around[step.depth])
            leaves |= place >= step.count
            variant = variant * step.count + min(place, step.count - 1)
        if leaves or not strided.fits[variant]:
            self._leaves(strided, list(around))
        return strided.first + variant

    def operands(self, strided: StridedOperand, iterations: Ids) -> Ints:
        """The same for a whole column of iterations."""
        variant = np.zeros(len(iterations), np.int64)
        leaves = np.zeros(len(iterations), np.bool_)
        for step in strided.steps:
            place = iterations[:, step.depth].astype(np.int64)
            if step.modulus:
                place = (place + step.phase) % step.modulus
            leaves |= place >= step.count
            variant = variant * step.count + np.minimum(place, step.count - 1)
        leaves |= ~strided.fits[variant]
        if leaves.any():
            self._leaves(strided, iterations[int(np.flatnonzero(leaves)[0])].tolist())
        return strided.first + variant

    def variants(self) -> tuple[Ids, Ints]:
        """Of all variants in the order of their numbers: the access, and the bytes that it is moved by.

        Variants outside of the location are not moved; no iteration uses them.
        """
        every = list(self.by_access.values())
        accesses = [np.full(len(each.shifts), each.access, np.int32) for each in every]
        shifts = [np.where(each.fits, each.shifts, 0) for each in every]
        return np.concatenate([np.zeros(0, np.int32), *accesses]), np.concatenate([np.zeros(0, np.int64), *shifts])

    def _leaves(self, strided: StridedOperand, around: list[int]) -> None:
        at = [(step, around[step.depth]) for step in strided.steps]
        shift = sum(step.stride * step.place(k) for step, k in at)
        accesses = self.program.accesses
        labels = (
            instruction_label(self.program, int(accesses.instruction[strided.access])),
            location_label(self.program, int(accesses.location[strided.access])),
        )
        iteration = ", ".join(str(k) for k in around if k != NONE)
        fail("out-of-bounds", f"in iteration {iteration} its step by {shift} bytes leaves the location", *labels)


def _rows_by_access(code: Code) -> dict[int, list[int]]:
    """Rows of `steps` of each strided operand of a function that runs."""
    program, sections = code.program, code.sections
    structure, section_of = sections.structure, sections.section_of
    found: dict[int, list[int]] = defaultdict(list)
    for row, access in enumerate(program.steps.access.tolist()):
        section = int(code.section[program.accesses.instruction[access]])
        if section == NONE or not program.steps.stride[row]:
            continue
        found[access].append(row)
        loop = structure.loop_at.get(section_of.get(int(program.steps.header[row]), NONE), NONE)
        if loop == NONE or loop not in structure.loops_around(section):
            label = instruction_label(program, int(program.accesses.instruction[access]))
            bad_input("the header of its step is not that of a loop around it", label)
    return found


def _steps(code: Code, access: int, rows: list[int], room: tuple[int, int]) -> list[Step]:
    """The steps of an operand that may move by `room` bytes, (down, up)."""
    program, sections = code.program, code.sections
    strides = program.steps.stride[rows]
    # Steps in opposite directions may cancel.
    is_mixed = bool((strides > 0).any() and (strides < 0).any())
    label = instruction_label(program, int(program.accesses.instruction[access]))
    result = []
    for row in rows:
        header, stride = sections.section_of[int(program.steps.header[row])], int(program.steps.stride[row])
        loop = sections.structure.loops[sections.structure.loop_at[header]]
        modulus = int(program.steps.modulus[row])
        depth = sections.depths[header] - 1
        bounds = [] if is_mixed else [room[stride > 0] // abs(stride) + 1]
        bounds += [modulus] if modulus > 0 else []
        phase = int(program.steps.phase[row])
        bounds += [loop.trip + 1 + phase] if loop.trip != NONE else []
        if not bounds:
            name = code.choice_name(header)
            bad_input(f"unsupported steps in both directions along {name}, which has no trip", label)
        result.append(Step(depth, stride, modulus, phase, min(bounds)))
    reach = sum(abs(step.stride) * step.count for step in result)
    if prod(step.count for step in result) > _MAX_VARIANTS or reach > SIZE_MAX:
        bad_input(f"unsupported operand with more than {_MAX_VARIANTS:,} places", label)
    return result
