"""How accesses move with the loops around them, and which pairs of them may meet.

A *motion* is what accesses of one pattern, location, block and steps have in common: the pattern, and for each loop
around it how far an iteration moves it and how many iterations there are. An unknown trip count is limited by the
location, which a pattern does not leave.

    covers      all bytes that a motion ever touches, as one strided pattern: accesses whose covers are apart never
                meet, so accesses are looked up under these (`pairs.py`)
    may_meet    whether two motions meet in iterations of a given distance (`moving.py`): the loops around the common
                one are in the same iteration, the loops inside of it in any

Bytes are compared as storage keys (`storage_map.py`). In a grid those are no linear function of the bytes of a
location; they are for the parts of a pattern that stay in their partition, and for whole partitions. Locations at the
same place of a grid are compared byte by byte of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from haulout.checker.columns import grouped
from haulout.checker.flow.graph import Open
from haulout.checker.flow.moving import FAR, Dims, Moving, meet
from haulout.checker.flow.text import Text
from haulout.checker.paths.step_trips import FunctionSteps
from haulout.checker.proofs.storage_map import StorageMap
from haulout.ir.enums import NONE
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Column, Ids, Ints, Patterns
from haulout.ir.schema import Dims as DimRows

_MAX_GRID_RUNS = 1 << 12
"""Runs of a cover in a grid, where they are listed one by one."""


class Turn(NamedTuple):
    """How a motion moves with one loop."""

    step: int
    rings: tuple[tuple[int, int, int], ...]
    """(Step, modulus, phase)."""
    times: int
    """Iterations; FAR: no limit is known."""


@dataclass(frozen=True, slots=True)
class Motion:
    """A pattern in its location, and how it moves."""

    start: int
    run: int
    dims: Dims
    turns: tuple[Turn, ...]
    """Of the loops around it, the outermost first."""
    size: int
    """Bytes of the location."""
    place: tuple[int, int, int]
    """Base, row and pitch of its location (`storage_map.py`)."""

    @property
    def hull(self) -> tuple[int, int]:
        """First byte and end in the first iterations."""
        return Pattern(self.start, self.run, self.dims).hull

    @property
    def reach(self) -> Dims:
        """What its loops repeat, as dimensions."""
        found = [(turn.step, turn.times) for turn in self.turns]
        found += [(step, modulus) for turn in self.turns for step, modulus, _ in turn.rings]
        return tuple((stride, count) for stride, count in found if stride and count > 1)

    def limited(self, level: int) -> Turn:
        """One of its loops, with no more iterations than its location has room for. No limit is known where loops of
        unknown trip count move it both ways."""
        turn = self.turns[level]
        if turn.times != FAR or not turn.step:
            return turn
        others = [each.step for each in self.turns if each.times == FAR]
        if min(others) < 0 < max(others):
            return turn
        # What the known loops and rings move in the other direction makes room.
        known = [(each.step, each.times) for each in self.turns if each.times != FAR]
        known += [(step, modulus) for each in self.turns for step, modulus, _ in each.rings]
        back = [stride * (count - 1) for stride, count in known if count > 1 and (stride < 0) == (turn.step > 0)]
        low, high = self.hull
        room = self.size - high - sum(back) if turn.step > 0 else low + sum(back)
        return turn._replace(times=max(room // abs(turn.step) + 1, 0))

    def cover(self) -> Pattern | None:
        """A pattern of all bytes that it ever touches, and perhaps more; None: the whole location."""
        found = Pattern(self.start, self.run, (*self.reach, *self.dims))
        low, high = found.hull
        if low < 0 or high > self.size:
            # Each limit is right by itself: together only multiples of their common divisor are known.
            step = gcd(*(stride for stride, _ in self.reach))
            low, high = self.hull
            if step == 0 or low < 0 or high > self.size:
                return None
            below, above = low // step, (self.size - high) // step
            found = Pattern(self.start - step * below, self.run, ((step, below + above + 1), *self.dims))
        if self.place[2] and prod(count for _, count in found.dims) > _MAX_GRID_RUNS:
            return None
        return found.canonical()

    def in_keys(self) -> list[Motion]:
        """The same in storage keys, in pieces; none: it is no pattern of keys."""
        base, row, pitch = self.place
        if not pitch:
            return [replace(self, start=base + self.start)]
        part, at = divmod(self.start, row)
        inside: list[tuple[int, int]] = []

        def spread(stride: int, count: int) -> int:
            """A stride in keys: some partitions and, within one, some bytes."""
            parts = 0 if abs(stride) * (count - 1) < row else (2 * stride + row) // (2 * row)
            inside.append((stride - parts * row, count))
            return parts * pitch + stride - parts * row

        dims = tuple((spread(*dim), dim[1]) for dim in self.dims)
        turns = tuple(
            Turn(
                spread(turn.step, turn.times),
                tuple((spread(step, modulus), modulus, phase) for step, modulus, phase in turn.rings),
                turn.times,
            )
            for turn in self.turns
        )
        low, high = Pattern(at, self.run, tuple(inside)).hull
        if low >= 0 and high <= row:
            pieces = [(part, at, self.run, 1)]
        elif any(stride for stride, count in inside if count > 1):
            return []
        else:
            head = min(self.run, row - at)
            whole, tail = divmod(self.run - head, row)
            pieces = [(part, at, head, 1), (part + 1, 0, row, whole), (part + 1 + whole, 0, tail, 1)]
        return [
            Motion(base + first * pitch + begin, run, (*dims, (pitch, count)), turns, self.size, (0, 1, 0))
            for first, begin, run, count in pieces
            if run and count
        ]


class Motions:
    """The motions of a text, found when they are asked for."""

    def __init__(self, text: Text, storage: StorageMap) -> None:
        self._text, self._storage = text, storage
        steps, model = text.runs.steps, text.model
        assert model.unrolled is not None
        self._starts, self._rows = grouped(steps.access, len(model.unrolled.source.accesses))
        self._origin = model.unrolled.access_origin[model.access]
        self._block = text.events.block[text.events.first[model.instruction]]
        self._signature = _signatures(steps, self._starts, self._rows)
        self._known: dict[int, Motion | None] = {}
        self._met: dict[tuple[Moving, Moving, int], bool] = {}

    def kinds(self, accesses: Ids) -> tuple[Ids, Ids]:
        """Of each access an access with the same motion; and these alone."""
        model, origin = self._text.model, self._origin[accesses]
        signature = np.where(origin == NONE, 0, self._signature[origin])
        key = _numbered(model.location[accesses], model.pattern[accesses], self._block[accesses], signature)
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        return accesses[first][inverse], accesses[first]

    def covered(self, moves: Bools) -> tuple[Program, Ids]:
        """The patterns of all accesses, with covers in place of those that move; and a program that has them."""
        model = self._text.model
        program, pattern = model.program, model.pattern.copy()
        moving = np.flatnonzero(moves).astype(np.int32)
        kind, some = self.kinds(moving)
        offset: list[int] = []
        run: list[int] = []
        begin: list[int] = []
        dims: list[tuple[int, int]] = []
        number = np.full(len(model.access), NONE, np.int32)
        for access in some.tolist():
            motion = self.motion(access)
            cover = None if motion is None else motion.cover()
            if cover is None:
                continue
            number[access] = len(program.patterns) + len(offset)
            offset.append(cover.offset)
            run.append(cover.run)
            begin.append(len(program.dims) + len(dims))
            dims += cover.dims
        pattern[moving] = number[kind]
        ends = [*begin[1:], len(program.dims) + len(dims)][: len(begin)]
        more = Patterns.make(len(offset), offset=offset, run=run, dim_begin=begin, dim_end=ends)
        sizes = np.array(dims, np.int64).reshape(-1, 2)
        more_dims = DimRows.make(len(dims), stride=sizes[:, 0], count=sizes[:, 1])
        made = program.replace(patterns=program.patterns.append(more), dims=program.dims.append(more_dims))
        return made, pattern

    def may_meet(self, found: Open, rows: Ints) -> Bools:
        """Which of some pairs may touch a common byte."""
        both = np.append(found.first[rows], found.second[rows]).astype(np.int32)
        kind = self.kinds(both)[0].reshape(2, -1)
        level, lag = found.level[rows], found.lag[rows]
        key = _numbered(*kind, level, lag)
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        columns = (kind[0][first], kind[1][first], level[first], lag[first])
        meets = [self._meet(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        return np.array(meets, bool)[inverse]

    def _meet(self, first: int, second: int, level: int, lag: int) -> bool:
        one, other = self.motion(first), self.motion(second)
        if one is None or other is None:
            return True
        if one.place == other.place:
            mine, theirs = [one], [other]
        else:
            mine, theirs = one.in_keys(), other.in_keys()
        if not mine or not theirs:
            return True
        return any(self._meet_at(*_at_level(*each, level), lag) for each in product(mine, theirs))

    def _meet_at(self, one: Moving, other: Moving, lag: int) -> bool:
        # Only their distance matters: there are few distances.
        key = replace(one, start=0), replace(other, start=other.start - one.start), lag
        if key not in self._met:
            self._met[key] = meet(*key, FAR if lag == 2 else lag)
        return self._met[key]

    def motion(self, access: int) -> Motion | None:
        """How an access moves; None: its bytes are not known."""
        return self._known[access] if access in self._known else self._known.setdefault(access, self._find(access))

    def _find(self, access: int) -> Motion | None:
        text = self._text
        model, structure, steps = text.model, text.runs.flow.structure, text.runs.steps
        pattern, location = model.program.pattern(int(model.pattern[access])), int(model.location[access])
        size = int(model.program.locations.size[location])
        if pattern is None:
            pattern = Pattern(0, size)
        elif pattern.is_unknown:
            return None
        block, origin = int(self._block[access]), int(self._origin[access])
        rows = self._rows[self._starts[origin] : self._starts[origin + 1]] if origin != NONE else self._rows[:0]
        columns = steps.header[rows], steps.stride[rows], steps.modulus[rows], steps.phase[rows]
        moves = [move for move in zip(*(column.tolist() for column in columns), strict=True) if move[1]]
        turns = []
        for number in structure.loops_around(block):
            header, trip = structure.loops[number].header, structure.loops[number].trip
            step = sum(stride for at, stride, modulus, _ in moves if at == header and modulus == 0)
            rings: dict[tuple[int, int], int] = {}
            for at, stride, modulus, phase in moves:
                if at == header and modulus:
                    rings[modulus, phase] = rings.get((modulus, phase), 0) + stride
            count = FAR if trip == NONE else trip + (block == header)
            turns.append(Turn(step, tuple((stride, *ring) for ring, stride in sorted(rings.items())), count))
        storage = self._storage
        place = int(storage.base[location]), int(storage.row[location]), int(storage.pitch[location])
        found = Motion(pattern.offset, pattern.run, pattern.dims, tuple(turns), size, place)
        limited = tuple(found.limited(at) for at in range(len(turns)))
        least = 2 if block in structure.loop_at else 1
        if turns and limited[-1].times < least and turns[-1].times == FAR:
            return None  # it leaves its location whenever the loop runs
        return replace(found, turns=limited)


def _at_level(one: Motion, other: Motion, level: int) -> tuple[Moving, Moving]:
    """Two motions as they move with the loop of a level; 0: with none."""
    sides = [list(one.dims), list(other.dims)]
    for mine, theirs in zip(one.turns[: max(level - 1, 0)], other.turns, strict=False):
        # The same iteration of an outer loop.
        sides[1].append((theirs.step - mine.step, min(mine.times, theirs.times)))
        if mine.rings != theirs.rings:
            for dims, turn in zip(sides, (mine, theirs), strict=True):
                dims += _phases(turn)
    made = []
    for motion, dims in zip((one, other), sides, strict=True):
        for turn in motion.turns[level:]:
            dims += [(turn.step, turn.times), *_phases(turn)]
        step, ring, last = 0, (0, 1, 0), FAR
        if level:
            turn = motion.turns[level - 1]
            step, last = turn.step, turn.times - 1
            if len(turn.rings) == 1:
                ring = turn.rings[0]
            else:
                dims += _phases(turn)
        made.append(Moving(motion.start, motion.run, tuple(dims), step, ring, last))
    return made[0], made[1]


def _phases(turn: Turn) -> list[tuple[int, int]]:
    """The rings of a loop as dimensions: any phase."""
    return [(step, modulus) for step, modulus, _ in turn.rings]


def _numbered(*columns: Column) -> Ints:
    """A number for each row: equal ones where all columns are equal."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, inverse = np.unique(column, return_inverse=True)
        _, found = np.unique(found * len(values) + inverse, return_inverse=True)
    return found


def _signatures(steps: FunctionSteps, starts: Ints, rows: Ints) -> Ints:
    """A number for each access of the program: equal ones where the steps are equal and in the same order."""
    found = np.zeros(len(starts) - 1, np.int64)
    step = _numbered(steps.header, steps.stride, steps.modulus, steps.phase)[rows] + 1
    size = np.diff(starts)
    for at in range(int(size.max(initial=0))):
        more = np.flatnonzero(size > at)
        here = np.zeros(len(found), np.int64)
        here[more] = step[starts[more] + at]
        found = _numbered(found, here)
    return found
