"""Patterns that move, in closed form: tiles, and what is written once its loops have ended.

A *tile* is what a pattern touches in one iteration. It is an atom of its own: within an iteration, what was written
to it can be read, until another location on the same storage is written. A write that moves over all of its location,
in loops that surely run and write no such location, makes that location whole behind them. Such patterns count as
accesses of some bytes of their location otherwise, so this proves less than loops that are written out (`walks.py`);
it is for those that are too long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from haulout.checker import bytesets
from haulout.checker.columns import grouped
from haulout.checker.flow.pairs import Touches
from haulout.checker.flow.text import Text
from haulout.checker.flow.walks import Walk
from haulout.ir.enums import NONE
from haulout.ir.patterns import Pattern
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.structure import Loop

_MAX_RUNS = 1 << 16
"""Runs of a pattern, moved through its loops, whose union is computed."""

_Move = tuple[int, int, int, int]
"""Header of the loop, stride, modulus, phase."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of a walk, the loops that they move with, and where they have covered their locations."""

    of: Ids
    """Of each access of the text: its tile, NONE: it does not move."""
    place: Ids
    """Of each tile."""
    turn_starts: Ints
    turn: Ids
    """Of each loop of the walk: its tiles."""
    cover_starts: Ints
    cover: Ids
    """Of each loop of the walk: the places that are whole behind it."""


def no_tiles(accesses: int, loops: int) -> Tiles:
    """No tile."""
    none, starts = np.zeros(0, np.int32), np.zeros(loops + 1, np.int64)
    return Tiles(np.full(accesses, NONE, np.int32), none, starts, none, starts, none)


def find_tiles(text: Text, touches: Touches, walk: Walk, place: Ids, sharing: Callable[[int], Bools]) -> Tiles:
    """The tiles of the accesses of a walk; `sharing` are the other places on the storage of one."""
    model, runs = touches.model, text.runs
    program, structure = runs.flow.program, runs.flow.structure
    assert model.unrolled is not None
    of = np.full(len(place), NONE, np.int32)
    blocks = text.events.block[touches.event]
    numbers: dict[tuple[int, int, tuple[_Move, ...]], int] = {}
    turns: dict[tuple[int, int], None] = {}
    covers: dict[tuple[int, int], None] = {}
    rows = enumerate(text.loops[walk.loop].tolist())
    at = {(int(begin), int(core)): number for number, (begin, _, _, core) in rows}
    for access in np.unique(walk.access[touches.moves[walk.access]]).tolist():
        row = int(model.unrolled.access_origin[model.access[access]])
        some = np.flatnonzero(runs.steps.access == row)
        columns = runs.steps.header, runs.steps.stride, runs.steps.modulus, runs.steps.phase
        moves = tuple(zip(*(column[some].tolist() for column in columns), strict=True))
        key = int(place[access]), int(program.accesses.pattern[row]), moves
        tile = of[access] = numbers.setdefault(key, len(numbers))
        core = int(model.core[model.instruction[access]])
        loops = [at.get((move[0], NONE), at.get((move[0], core), NONE)) for move in moves]
        if NONE in loops:
            continue  # in the body of a loop that never runs
        turns |= dict.fromkeys((loop, int(tile)) for loop in loops)
        alike = text.loops[walk.loop[loops], 3].max() == NONE
        if not model.write[access] or model.maybe[access] or not alike:
            continue
        block, size = int(text.events.block[touches.event[access]]), program.locations.size
        outer = _covers(text, program.pattern(key[1]), moves, block, int(size[model.locations[key[0]]]))
        if outer != NONE:
            loop = structure.loops[outer]
            inside = (blocks >= loop.begin) & (blocks < loop.end)
            if not sharing(key[0])[place[model.write & inside]].any():
                covers[at[loop.begin, NONE], key[0]] = None
    places = np.array([key[0] for key in numbers], np.int32)
    return Tiles(of, places, *_by_loop(turns, len(walk.loop)), *_by_loop(covers, len(walk.loop)))


def _by_loop(pairs: dict[tuple[int, int], None], loops: int) -> tuple[Ints, Ids]:
    rows = np.array(list(pairs), np.int32).reshape(-1, 2)
    starts, order = grouped(rows[:, 0], loops)
    return starts, rows[order, 1]


def _covers(text: Text, pattern: Pattern | None, moves: tuple[_Move, ...], block: int, size: int) -> int:
    """The loop behind which a moving write has surely written all of its location; NONE: there is none."""
    structure = text.runs.flow.structure
    if pattern is None or pattern.is_unknown:
        return NONE
    headers = {move[0] for move in moves}
    if len(headers) < len(moves):
        return NONE  # the steps of one loop share its iteration: together they do not reach every sum
    offset, dims = pattern.offset, list(pattern.dims)
    outermost, number = NONE, structure.region_of[block]
    while headers and number != NONE:
        region = structure.regions[number]
        if not isinstance(region, Loop) or region.trip <= 0:
            return NONE
        for header, stride, modulus, _ in moves:
            if header == region.header:
                if modulus > region.trip:
                    return NONE
                dims.append((stride, modulus or region.trip))
        headers.discard(region.header)
        outermost, number = number, region.parent
    offset += sum(stride * (count - 1) for stride, count in dims if stride < 0)
    dims = [(abs(stride), count) for stride, count in dims]
    if headers or outermost == NONE or prod(count for _, count in dims) > _MAX_RUNS:
        return NONE
    low, high = bytesets.runs(bytesets.normal(offset, pattern.run, dims))
    return outermost if len(low) == 1 and low[0] <= 0 and high[0] >= size else NONE
