"""Some accesses of a text in the order in which they are walked, loops iteration by iteration where patterns move.

A *walk* is a list of operations: stretches of accesses, and where forks and loops begin and end. What touches none of
its accesses is left out. A loop with which patterns move is written out:

    a step without modulus    every iteration of a known trip count; for an unknown one as many as its location has
                              room for, each of which may be the last
    moduli only               a loop whose body is one period, then the iterations that are left; for an unknown trip
                              count each of these may be the last

"May be the last" is a fork: another iteration and what follows it, or the header alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np

from haulout.checker.columns import join_ranges
from haulout.checker.flow.pairs import Touches
from haulout.checker.flow.steps import ELSE, EVENTS, EXIT, FORK, JOIN, LATCH, LOOP
from haulout.checker.flow.text import Text
from haulout.checker.paths.step_trips import most_iterations, moving_on
from haulout.ir.enums import NONE
from haulout.ir.schema import Column, Ids, Ints

ACCESSES = EVENTS
"""Kind of an operation; the others are those of the steps of a text."""
MAX_ACCESSES = 1 << 18
"""Accesses of a walk in which patterns move, each iteration's its own."""
MAX_OPERATIONS = 1 << 16
"""Its operations."""
MAX_ENDS = 512
"""Iterations each of which may be the last."""

_Part = tuple[int, int]
"""Accesses `first:end` of the list that is walked."""


@dataclass(frozen=True, slots=True)
class _Fork:
    number: int
    core: int
    arms: tuple[list[_Item], list[_Item]]


@dataclass(frozen=True, slots=True)
class _Loop:
    number: int
    core: int
    turn: list[_Item]
    """Header and body."""
    last: list[_Item]
    """The header, for the last time."""


_Item = _Part | _Fork | _Loop


@dataclass(slots=True)
class Walk:
    """A list of operations."""

    operations: Column
    """int32 [operation, 5]: kind; (first, end) in `access`, or the number of a fork in the text (NONE: whether
    another iteration comes) or of a loop in `trip`, and its block; core; row of `iterations`."""
    access: Ids
    """The accesses in order, one row each time that they are walked."""
    at: Ids
    """Of each of them: its row of `iterations`."""
    trip: Ints
    """Of each loop: how often its body runs; NONE: unknown."""
    period: Ints
    """Of each loop: iterations of the program that its body is; 0: the iterations say it themselves."""
    loop: Ids
    """Of each loop: its number in `text.loops`."""
    headers: tuple[int, ...]
    """The loops that are written out."""
    iterations: Column
    """int64 [row, header]: the iteration, less those of whole periods before."""


def find_walk(text: Text, touches: Touches, access: Ids, headers: frozenset[int]) -> Walk | None:
    """The walk of some accesses, sorted by their place in the schedule, with some loops written out.

    None: it would be too long, or it is not known how.
    """
    turns: dict[int, _Turns] = {}
    for header in sorted(headers):
        found = _turns(text, access, header)
        if found is None:
            return None
        turns[header] = found
    place = np.empty(len(text.schedule), np.int64)
    place[text.schedule] = np.arange(len(text.schedule))
    before = np.searchsorted(place[touches.event[access]], np.arange(len(text.schedule) + 1))
    writer = _Writer(text, turns)
    try:
        writer.sequence(_parse(text, before))
    except _TooLongError:
        return None
    return writer.walk(access)


# -- the structure ---------------------------------------------------------------------------------------------------


def _parse(text: Text, before: Ints) -> list[_Item]:
    """The steps of a text as a tree, without what has none of the accesses; `before` counts these by place."""
    stack: list[list[_Item]] = [[]]
    for kind, first, end, _ in text.steps.tolist():
        if kind == EVENTS:
            part = int(before[first]), int(before[end])
            if part[1] > part[0]:
                stack[-1].append(part)
        elif kind == JOIN:
            other, one = stack.pop(), stack.pop()
            if one or other:
                stack[-1].append(_Fork(first, end, (one, other)))
        elif kind == EXIT:
            last, turn = stack.pop(), stack.pop()
            if turn or last:
                stack[-1].append(_Loop(first, end, turn, last))
        else:
            stack.append([])
    return stack[0]


@dataclass(frozen=True, slots=True)
class _Turns:
    """How a loop is written out."""

    count: int
    """Iterations, or those of a period."""
    trip: int
    """How often the period comes; NONE: unknown; 0: not at all."""
    rest: int
    """Iterations behind these ..."""
    ends: bool
    """... each of which may be the last."""


def _turns(text: Text, access: Ids, header: int) -> _Turns | None:
    """How to write out a loop with which some accesses move."""
    steps, structure, model = text.runs.steps, text.runs.flow.structure, text.model
    assert model.unrolled is not None
    mine = (steps.header == header) & (steps.stride != 0)
    mine &= np.isin(steps.access, model.unrolled.access_origin[model.access[access]])
    moduli = np.unique(steps.modulus[mine]).tolist()
    loop = structure.loops[structure.loop_at[header]]
    trip = loop.trip
    if 0 in moduli:
        if trip != NONE:
            return _Turns(trip, 1, 0, False) if trip <= MAX_OPERATIONS else None
        moving = moving_on(steps, loop)
        most = most_iterations(text.runs.flow.program, steps, moving)[0] if moving else MAX_ENDS + 1
        return _Turns(0, 0, most, True) if most <= MAX_ENDS else None
    period = lcm(*moduli)
    if trip != NONE:
        if trip <= 3 * period:
            return _Turns(trip, 1, 0, False) if trip <= MAX_OPERATIONS else None
        return _Turns(period, trip // period, trip % period, False)
    return _Turns(period, NONE, period - 1, True) if period <= MAX_ENDS else None


# -- writing it out --------------------------------------------------------------------------------------------------


class _TooLongError(Exception):
    """The walk has too many operations or accesses."""


class _Writer:
    def __init__(self, text: Text, turns: dict[int, _Turns]) -> None:
        self.text, self.turns = text, turns
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.loops: list[tuple[int, int, int]] = []
        self.headers = tuple(turns)
        self.column = {header: at for at, header in enumerate(self.headers)}
        self.now = [0] * len(turns)
        self.iterations: list[tuple[int, ...]] = [tuple(self.now)]
        self.length = 0

    def walk(self, access: Ids) -> Walk:
        """What was written."""
        rows = np.array(self.rows, np.int32).reshape(-1, 5)
        parts = rows[:, 0] == ACCESSES
        first, size = rows[parts, 1].astype(np.int64), (rows[parts, 2] - rows[parts, 1]).astype(np.int64)
        at = np.repeat(rows[parts, 4], size)
        which = join_ranges(first, size)
        rows[parts, 2] = np.cumsum(size)
        rows[parts, 1] = np.cumsum(size) - size
        loops = np.array(self.loops, np.int64).reshape(-1, 3)
        iterations = np.array(self.iterations, np.int64).reshape(len(self.iterations), -1)
        return Walk(
            rows,
            access[which],
            at.astype(np.int32),
            loops[:, 0].copy(),
            loops[:, 1].copy(),
            loops[:, 2].astype(np.int32),
            self.headers,
            iterations,
        )

    def write(self, kind: int, first: int, end: int, core: int) -> None:
        """One operation, in the iterations at hand."""
        self.rows.append((kind, first, end, core, len(self.iterations) - 1))
        if self.turns and len(self.rows) > MAX_OPERATIONS:
            raise _TooLongError

    def turn_to(self, header: int, iteration: int) -> None:
        """Set the iteration of a loop that is written out."""
        self.now[self.column[header]] = iteration
        self.iterations.append(tuple(self.now))

    def sequence(self, items: Sequence[_Item]) -> None:
        """What comes one after the other."""
        for item in items:
            if isinstance(item, _Fork):
                self.fork(item)
            elif isinstance(item, _Loop):
                self.loop(item)
            else:
                self.write(ACCESSES, *item, NONE)
                self.length += item[1] - item[0]
                if self.turns and self.length > MAX_ACCESSES:
                    raise _TooLongError

    def fork(self, fork: _Fork) -> None:
        """Both arms."""
        block = int(self.text.forks[fork.number, 0]) - 1
        self.write(FORK, fork.number, block, fork.core)
        self.sequence(fork.arms[0])
        self.write(ELSE, fork.number, block, fork.core)
        self.sequence(fork.arms[1])
        self.write(JOIN, fork.number, block, fork.core)

    def loop(self, loop: _Loop) -> None:
        """A loop, written out or not."""
        header, trip = int(self.text.loops[loop.number, 0]), int(self.text.loops[loop.number, 2])
        turns = self.turns.get(header)
        number = len(self.loops)
        if turns is None:
            self.loops.append((trip, 1, loop.number))
            self.write(LOOP, number, header, loop.core)
            self.sequence(loop.turn)
            self.write(LATCH, number, header, loop.core)
            self.sequence(loop.last)
            self.write(EXIT, number, header, loop.core)
            return
        outer = self.now[self.column[header]]
        whole = turns.trip == 1
        self.loops.append((turns.trip if turns.count else 0, 0 if whole else turns.count, loop.number))
        self.turn_to(header, 0)
        self.write(LOOP, number, header, loop.core)
        for iteration in range(turns.count):
            self.turn_to(header, iteration)
            self.sequence(loop.turn)
        self.write(LATCH, number, header, loop.core)
        for iteration in range(turns.rest):
            self.turn_to(header, iteration)
            if turns.ends:
                self.write(FORK, NONE, header, loop.core)
            self.sequence(loop.turn)
        self.turn_to(header, turns.count if whole else turns.rest)
        self.sequence(loop.last)
        for iteration in reversed(range(turns.rest if turns.ends else 0)):
            self.turn_to(header, iteration)
            self.write(ELSE, NONE, header, loop.core)
            self.sequence(loop.last)
            self.write(JOIN, NONE, header, loop.core)
        self.write(EXIT, number, header, loop.core)
        self.turn_to(header, outer)
