"""How far steps move patterns, for `verify` and the checker.

In iteration k a step moves its pattern by `stride * ((k + phase) mod modulus)` bytes; without modulus by
`stride * k`. Which iterations there are:

- known trip count: so many, and one more for an operand in the loop's header;
- modulus, unknown trip count: the whole period, since the loop may run that often;
- no modulus, unknown trip count: the step has no bound. The pattern is assumed to stay inside its location, and the
  checker says how many iterations that is.

Steps of different loops add up, whatever the iterations; steps of one loop share the iteration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import SIZE_MAX, Bools, Ids, Ints

_MAX_ITERATIONS = 1 << 16
"""Iterations that are enumerated for an operand with several steps along one loop."""
_FAR = float(SIZE_MAX)
"""More bytes than any location has."""


@dataclass(frozen=True, slots=True)
class Reach:
    """For each operand with steps, in the order of `accesses`: the range of bytes by which its pattern moves."""

    access: Ids
    down: Ints
    """Positive only if every iteration moves the pattern up."""
    up: Ints
    far: Bools
    """It moves by more bytes than any location has; `down` and `up` have no meaning then."""
    runs: Bools
    """One of its loops may run."""


def step_reach(program: Program) -> Reach:
    """How far steps move each operand with steps."""
    steps = program.steps
    trip = np.minimum(program.blocks.trip[steps.header], SIZE_MAX)
    in_header = program.instructions.block[program.accesses.instruction[steps.access]] == steps.header
    count = np.where(trip == NONE, NONE, trip + in_header)
    first, last = _places(steps.modulus, steps.phase, count)
    ends = np.stack([steps.stride * first, steps.stride * last])
    far = np.abs(steps.stride.astype(float)) * last > _FAR
    down, up = ends.min(axis=0), ends.max(axis=0)
    for rows in _together(program):
        if (count[rows] != 0).all() and not far[rows].any():
            down[rows], up[rows] = 0, 0
            down[rows[0]], up[rows[0]] = _joint(
                steps.stride[rows], steps.modulus[rows], steps.phase[rows], count[rows]
            )
    accesses, which = np.unique(steps.access, return_inverse=True)
    found = Reach(
        accesses.astype(np.int32),
        np.zeros(len(accesses), np.int64),
        np.zeros(len(accesses), np.int64),
        np.zeros(len(accesses), bool),
        np.ones(len(accesses), bool),
    )
    total = np.zeros(len(accesses))
    np.add.at(total, which, np.maximum(np.abs(down.astype(float)), np.abs(up.astype(float))))
    np.logical_or.at(found.far, which, far)
    found.far[total > _FAR] = True
    np.add.at(found.down, which, down)
    np.add.at(found.up, which, up)
    found.runs[which[count == 0]] = False
    return found


def outside(program: Program, reach: Reach, low: Ints, high: Ints) -> Bools:
    """Which operands of `reach` leave their locations; `low:high` are the bytes of their patterns before any step."""
    size = program.locations.size[program.accesses.location[reach.access]]
    return reach.runs & (reach.far | (low + reach.down < 0) | (high + reach.up > size))


def first_outside(program: Program, access: int, low: int, high: int) -> tuple[int, int] | None:
    """(row of `steps`, iteration) in which an operand first leaves its location; None unless it has one step."""
    steps = program.steps
    begin, end = np.searchsorted(steps.access, [access, access + 1]).tolist()
    if end - begin != 1:
        return None
    size = int(program.locations.size[program.accesses.location[access]])
    stride, modulus, phase = (int(column[begin]) for column in (steps.stride, steps.modulus, steps.phase))
    # The least number of strides that moves it outside.
    place = (size - high) // stride + 1 if stride > 0 else low // -stride + 1
    if modulus == 0:
        return begin, place
    # The first iteration at or after that place in the period.
    return begin, 0 if phase >= place else place - phase


def _places(modulus: Ints, phase: Ints, count: Ints) -> tuple[Ints, Ints]:
    """The least and the largest number of strides by which each step moves its pattern in `count` iterations."""
    period = (count == NONE) | (count >= modulus) | (phase + np.minimum(count, modulus) > modulus)
    some = np.maximum(count, 1) - 1
    first = np.where((modulus > 0) & ~period, phase, 0)
    last = np.where(modulus > 0, np.where(period, modulus - 1, phase + some), np.where(count == NONE, 0, some))
    return first, last


def _together(program: Program) -> list[Ints]:
    """Rows of `steps` that move one operand along one loop, where there are several."""
    steps = program.steps
    key = steps.access.astype(np.int64) * max(len(program.blocks), 1) + steps.header
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order])) + 1
    return [rows for rows in np.split(order, cuts) if len(rows) > 1]


def _joint(stride: Ints, modulus: Ints, phase: Ints, count: Ints) -> tuple[int, int]:
    """The least and the largest number of bytes by which steps of one loop move an operand together."""
    trip = int(count[0])
    moving = modulus == 0
    if trip == NONE:
        stride = np.where(moving, 0, stride)
    period = math.lcm(*np.maximum(modulus, 1).tolist())
    places = period if trip == NONE or (trip > period and not (stride[moving] != 0).any()) else trip
    if places > _MAX_ITERATIONS:
        first, last = _places(modulus, phase, count)
        ends = np.stack([stride * first, stride * last])
        return int(ends.min(axis=0).sum()), int(ends.max(axis=0).sum())
    k = np.arange(places)[:, None]
    turns = np.where(moving, k, (k + phase) % np.maximum(modulus, 1))
    moved = (stride * turns).sum(axis=1)
    return int(moved.min()), int(moved.max())
