"""A program with loops and branches written out as one list, with all ways through it.

Every loop runs twice in the list: the first turn shows what one iteration needs, the second what an iteration needs
of the one before; addresses do not move, so later ones need nothing else. The header stands in the list once more. Of
a branch both arms are listed, one after the other. A loop of unknown trip count may run twice, once or not at all:

    ( header  body  ( header  body )? )?  header

A loop that is known to run once has one turn, one that never runs has its header alone. The list is exponential in
the depth of loops alone (`MOST_POSITIONS`); of branches every block stands in it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from haulout.analysis.order_scan import ARM, ELSE, FORK, LOOP, MEET, TURN, Paths
from haulout.analysis.region_engines import RegionEngines
from haulout.analysis.regions import Region, Regions
from haulout.ir.enums import NONE
from haulout.ir.labels import place
from haulout.ir.program import Program
from haulout.ir.schema import Ids, Ints
from haulout.support.diagnostics import Label, bad_input

MOST_POSITIONS = 10_000_000
"""Of the list, blocks and instructions: a million instructions in loops of depth three, or a few in a nest of 18."""

Turns = tuple[tuple[int, int], ...]
"""Loops around a place of the list and the turn of each, the outermost first."""


@dataclass(frozen=True, slots=True)
class Joins:
    """Rows of the `nop` that stand for what loops and branches do; NONE: there is none yet."""

    loops: dict[int, int]
    """By index of the region."""
    branches: list[int]
    """By index of the branch."""


@dataclass(slots=True)
class Unrolled:
    """Rows of a program in the order of the list, and the ways through it."""

    rows: Ids
    paths: Paths
    turns: list[Turns]
    """Of each scope."""


def unroll(program: Program, found: Regions, joins: Joins, used: RegionEngines, line_of: Ids) -> Unrolled:
    """The list of all functions. `line_of[engine]` numbers the lines of `Paths.covers`.

    Raises `bad-input` when loops nest so deep that the list has more than `MOST_POSITIONS`.
    """
    _require_writable(program, found)
    writer = _Writer(program, found, joins)
    for first, end in pairwise(program.starts("blocks", "functions").tolist()):
        writer.sequence(first, end, NONE)
    return writer.finish(used, line_of)


def _turns(loop: Region) -> int:
    """How often the list has the body of a loop; its header stands there once more."""
    return loop.trip if 0 <= loop.trip <= 1 else 2


def _require_writable(program: Program, found: Regions) -> None:
    """Refuse a program of which the list is too long, with the innermost loop that is written out most often."""
    starts = program.starts("instructions", "blocks").tolist()
    body = [1] * len(found.regions)
    header = list(body)
    for index, region in enumerate(found.regions):
        around = body[region.parent] if region.parent != NONE else 1
        body[index] = around * _turns(region) if region.is_loop else around
        header[index] = around * (_turns(region) + 1) if region.is_loop else around
    positions = 0
    for block, index in enumerate(found.of_block.tolist()):
        times = 1
        if index != NONE:
            times = header[index] if block == found.regions[index].first else body[index]
        positions += times * (1 + starts[block + 1] - starts[block])
    if positions > MOST_POSITIONS:
        row = found.regions[body.index(max(body))].header
        bad_input(
            f"loops nest too deeply: with two turns of each, the list has more than {MOST_POSITIONS:,} places",
            Label(
                f"^{program.strings[int(program.blocks.name[row])]} on core {program.block_core[row]}",
                place(program, NONE, int(program.blocks.text_line[row])),
            ),
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
    found: Regions
    joins: Joins
    starts: list[int] = field(init=False)
    headers: dict[int, int] = field(init=False)
    forks: dict[int, int] = field(init=False)
    blocks: list[int] = field(default_factory=list)
    block_scope: list[int] = field(default_factory=list)
    scopes: list[_Scope] = field(default_factory=list)
    events: list[tuple[int, int]] = field(default_factory=list)
    at: int = 0
    open: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        self.starts = self.program.starts("instructions", "blocks").tolist()
        self.headers, self.forks = self.found.headers, self.found.forks

    def sequence(self, first: int, end: int, scope: int) -> None:
        """Blocks `first:end` of one region."""
        row = first
        while row < end:
            if row in self.headers:
                row = self._loop(self.headers[row], scope)
            else:
                self._block(row, scope)
                row = self._branch(self.forks[row], scope) if row in self.forks else row + 1

    def _loop(self, index: int, around: int) -> int:
        loop = self.found.regions[index]
        times = _turns(loop)
        open_ended = loop.trip == NONE
        whole = self._enter(LOOP, around, index)
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
            scope.turns += ((index, turn),)
            scope.first = open_ended and turn == times
            self._block(loop.header, turns[-1])
            if turn < times:
                self.sequence(loop.header + 1, loop.last + 1, turns[-1])
            scope.end = self.at
        offset = self.joins.loops[index] - self.starts[loop.header]
        for turn, following in pairwise(turns):
            self.scopes[turn].join = self.scopes[following].begin + offset
        tail = self.scopes[turns[-1]].begin
        self.scopes[whole].tail, self.scopes[whole].join, self.scopes[whole].end = tail, tail + offset, self.at
        return loop.last + 1

    def _branch(self, index: int, around: int) -> int:
        branch = self.found.branches[index]
        self._event(FORK)
        arms = []
        for number, arm in enumerate(branch.arms):
            if number:
                self._event(ELSE)
            arms.append(self._enter(ARM, around))
            self.sequence(self.found.regions[arm].first, self.found.regions[arm].last + 1, arms[-1])
            self.scopes[arms[-1]].end = self.at
        self._event(MEET)
        for scope in arms:
            self.scopes[scope].join = self.at + self.joins.branches[index] - self.starts[branch.join]
        return branch.join

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
        joins += list(zip(self.joins.branches, used.branch, strict=True))
        for row, engines in joins:
            covers[row] = sum(1 << int(line) for engine, line in enumerate(line_of) if engines >> engine & 1)
        return covers
