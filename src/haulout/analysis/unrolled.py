"""A program with loops and forks written out as one list, with all paths through it.

Every loop runs twice in the list: the first iteration shows what one needs, the second what it needs of the one
before; addresses do not move, so later ones need nothing else. The header is in the list once more. Of a fork both
arms are listed, one after the other. A loop of unknown trip count may run twice, once or not at all:

    ( header  body  ( header  body )? )?  header

A loop that is known to run once has one iteration, one that never runs has its header alone. The list is exponential
in the depth of loops alone (`MAX_POSITIONS`); of forks every block is in it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from haulout.analysis.order_scan import ARM, ELSE, FORK, LOOP, MEET, TURN, Paths
from haulout.analysis.region_engines import RegionEngines
from haulout.ir.enums import NONE
from haulout.ir.labels import block_label
from haulout.ir.program import Program
from haulout.ir.schema import Ids, Ints
from haulout.ir.structure import Fork, Loop, Region, Walk, run
from haulout.support.diagnostics import bad_input

MAX_POSITIONS = 10_000_000
"""Blocks and instructions of the list: a million instructions in loops of depth three, or a few in a nest of 18."""

Turns = tuple[tuple[int, int], ...]
"""Loops around a position of the list and the iteration of each, the outermost first."""


@dataclass(frozen=True, slots=True)
class Joins:
    """Rows of the `nop` that stand for what loops and forks do; NONE: there is none yet."""

    loops: dict[int, int]
    """By the number of the region."""
    forks: list[int]
    """By the number of the fork."""


@dataclass(slots=True)
class Unrolled:
    """Rows of a program in the order of the list, and the paths through it."""

    rows: Ids
    paths: Paths
    turns: list[Turns]
    """Of each scope."""


def unroll(program: Program, joins: Joins, used: RegionEngines, line_of: Ids) -> Unrolled:
    """The list of all functions. `line_of[engine]` numbers the lines of `Paths.covers`.

    Raises `bad-input` when loops nest so deep that the list has more than `MAX_POSITIONS`.
    """
    _require_writable(program)
    writer = _Writer(program, joins)
    for blocks in program.structure.functions:
        run(writer.sequence(blocks, NONE))
    return writer.finish(used, line_of)


def _turns(region: Region) -> int:
    """How often the list has the body of a region; the header of a loop is there once more."""
    if not isinstance(region, Loop):
        return 1
    return region.trip if 0 <= region.trip <= 1 else 2


def _require_writable(program: Program) -> None:
    """Refuse a program of which the list is too long, with the innermost loop that is written out most often."""
    structure, starts = program.structure, program.starts("instructions", "blocks").tolist()
    times = structure.descend(1, lambda outer, number, region: outer * _turns(region))
    positions = 0
    for block, number in enumerate(structure.region_of):
        count = times[number]
        if block in structure.loop_at:
            loop = structure.regions[number]
            count = times[loop.parent] * (_turns(loop) + 1)
        positions += count * (1 + starts[block + 1] - starts[block])
    if positions > MAX_POSITIONS:
        row = structure.regions[times.index(max(times))].begin
        bad_input(
            f"loops nest too deeply: with two iterations of each, the list has more than {MAX_POSITIONS:,} positions",
            block_label(program, row),
            help=["give `trip` where it is 0 or 1, or make one loop of two"],
        )


@dataclass(slots=True)
class _Scope:
    kind: int
    parent: int
    begin: int
    region: int = NONE
    end: int = NONE
    join: int = NONE
    tail: int = NONE
    first: bool = False
    turns: Turns = ()


@dataclass(slots=True)
class _Writer:
    """Goes through the regions and appends blocks."""

    program: Program
    joins: Joins
    starts: list[int] = field(init=False)
    blocks: list[int] = field(default_factory=list)
    block_scope: list[int] = field(default_factory=list)
    scopes: list[_Scope] = field(default_factory=list)
    events: list[tuple[int, int]] = field(default_factory=list)
    at: int = 0
    open: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        self.starts = self.program.starts("instructions", "blocks").tolist()

    def sequence(self, blocks: range, scope: int) -> Walk:
        """Blocks of one region."""
        for item in self.program.structure.items(blocks.start, blocks.stop):
            match item:
                case Loop():
                    yield self._loop(item, scope)
                case Fork():
                    yield self._fork(item, scope)
                case _:
                    self._block(item, scope)

    def _loop(self, loop: Loop, around: int) -> Walk:
        number, times = self.program.structure.loop_at[loop.header], _turns(loop)
        open_ended = loop.trip == NONE
        whole = self._enter(LOOP, around, number)
        turns = []
        for turn in range(times + 1):
            if open_ended:
                if turn < times:
                    self._event(FORK)
                else:
                    for _ in range(times):
                        self._event(MEET)
            turns.append(self._enter(TURN, whole))
            scope = self.scopes[turns[-1]]
            scope.turns += ((number, turn),)
            scope.first = open_ended and turn == times
            self._block(loop.header, turns[-1])
            if turn < times:
                yield self.sequence(loop.body, turns[-1])
            scope.end = self.at
        offset = self.joins.loops[number] - self.starts[loop.header]
        for turn, following in pairwise(turns):
            self.scopes[turn].join = self.scopes[following].begin + offset
        tail = self.scopes[turns[-1]].begin
        self.scopes[whole].tail, self.scopes[whole].join, self.scopes[whole].end = tail, tail + offset, self.at

    def _fork(self, fork: Fork, around: int) -> Walk:
        self._event(FORK)
        arms: list[int] = []
        for number in fork.arms:
            if arms:
                self._event(ELSE)
            arms.append(self._enter(ARM, around))
            yield self.sequence(self.program.structure.regions[number].body, arms[-1])
            self.scopes[arms[-1]].end = self.at
        self._event(MEET)
        join = self.joins.forks[self.program.structure.fork_at[fork.block]]
        for scope in arms:
            self.scopes[scope].join = self.at + join - self.starts[fork.join]

    def _block(self, block: int, scope: int) -> None:
        self.blocks.append(block)
        self.block_scope.append(scope)
        self.at += self.starts[block + 1] - self.starts[block]

    def _enter(self, kind: int, around: int, region: int = NONE) -> int:
        turns = self.scopes[around].turns if around != NONE else ()
        self.scopes.append(_Scope(kind, around, self.at, region, turns=turns))
        return len(self.scopes) - 1

    def _event(self, kind: int) -> None:
        self.events.append((self.at, kind))
        self.open += (kind == FORK) - (kind == MEET)
        self.depth = max(self.depth, self.open)

    def finish(self, used: RegionEngines, line_of: Ids) -> Unrolled:
        """The list as columns."""
        starts = np.array(self.starts, np.int64)
        blocks = np.array(self.blocks, np.int64)
        count = starts[blocks + 1] - starts[blocks]
        within = np.arange(self.at) - np.repeat(np.cumsum(count) - count, count)
        rows: Ids = (np.repeat(starts[blocks], count) + within).astype(np.int32)
        scopes = self.scopes

        def ids(values: list[int]) -> Ids:
            return np.array(values, np.int32)

        paths = Paths(
            scope=np.repeat(ids(self.block_scope), count),
            covers=self._covers(used, line_of)[rows],
            kind=ids([scope.kind for scope in scopes]),
            parent=ids([scope.parent for scope in scopes]),
            begin=ids([scope.begin for scope in scopes]),
            end=ids([scope.end for scope in scopes]),
            join=ids([scope.join for scope in scopes]),
            tail=ids([scope.tail for scope in scopes]),
            region=ids([scope.region for scope in scopes]),
            first=np.array([scope.first for scope in scopes], bool),
            event=ids([kind for _, kind in self.events]),
            event_at=ids([at for at, _ in self.events]),
            depth=self.depth,
        )
        return Unrolled(rows, paths, [scope.turns for scope in scopes])

    def _covers(self, used: RegionEngines, line_of: Ids) -> Ints:
        """Of each row of the program: the lines that it covers as a join."""
        covers = np.zeros(len(self.program.instructions), np.int64)
        joins = [(row, used.uncertain[loop]) for loop, row in self.joins.loops.items()]
        joins += [(row, used.forks[fork]) for fork, row in enumerate(self.joins.forks)]
        for row, engines in joins:
            covers[row] = sum(1 << int(line) for engine, line in enumerate(line_of) if engines >> engine & 1)
        return covers
