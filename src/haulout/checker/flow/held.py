"""Every read finds the bytes of its own tensor, and outputs are whole: one walk over what storage surely holds.

Each atom of storage holds the bytes of one tensor, or it is not known whose. A write makes its atoms hold its tensor;
one that may touch less than its extent leaves those that hold another one unknown. A read is right when all of its
atoms hold its tensor: then nothing of it is unwritten, and nothing is what another tensor has left there. Once every
conflict is ordered, the order of the text shows what every run sees.

Where an arm is chosen, and behind a loop that may not run, an atom holds what it holds on both ways. A loop begins
with what stands before it; atoms that its body leaves in another state are unknown at its start in the next walk,
until no more are found.

Patterns that move with loops are *tiles*. A tile is an atom of its own: within an iteration, what was written to it
can be read. A write that moves over all of its location in loops that surely run makes that location whole behind
them.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from haulout.checker import bytesets
from haulout.checker.columns import grouped, positions
from haulout.checker.flow.pairs import Touches
from haulout.checker.flow.text import Text
from haulout.checker.proofs.stale_bytes import Layout as InsideLayout
from haulout.checker.proofs.stale_bytes import scan_inside
from haulout.checker.proofs.storage import is_permanent
from haulout.ir.enums import NONE, Kind
from haulout.ir.patterns import Pattern
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.ir.structure import Loop
from haulout.support.jit import njit

_MAX_RUNS = 1 << 16
"""Runs of a pattern, moved through its loops, whose union is computed."""


_Move = tuple[int, int, int, int]
"""Header of the loop, stride, modulus, phase."""


class Layout(NamedTuple):
    """Columns for the kernel. A *place* is a number in `model.locations`."""

    steps: Column
    loops: Column
    schedule: Ids
    starts: Ints
    access: Ids
    """Event e has accesses `access[starts[e]:starts[e + 1]]`, reads first."""
    write: Bools
    place: Ids
    """Of each access: its owner."""
    sure: Bools
    """Of each access: it touches all of its extent."""
    extent: Ids
    """Of each access; the whole location where its bytes are not known."""
    tile: Ids
    """Of each access that moves: its tile, else NONE."""
    tile_sure: Bools
    """Of each access that moves: it touches all of its tile."""
    extent_starts: Ints
    low: Ids
    high: Ids
    atoms: int
    tiles: int
    turn_starts: Ints
    turn: Ids
    """Of each loop of the steps: the tiles that move with it."""
    cover_starts: Ints
    cover: Ids
    """Of each loop of the steps: places that are whole behind it."""


def all_held(text: Text, touches: Touches) -> bool:
    """Whether every read and every output is right; False where that is not known."""
    model, extents = touches.model, touches.extents
    rows, mine, owners = model.program.locations, model.locations, model.owners()
    number = positions(mine, len(rows))
    place = number[owners[model.location]]
    kind = rows.kind[mine]
    is_owner = (owners[mine] == mine) & (rows.size[mine] > 0)
    permanent = is_permanent(model)
    # Which places share an atom with another one.
    living = is_owner & (permanent | (kind == Kind.OUTPUT))
    living[place] |= is_owner[place]
    atoms = max(len(extents.first_key), 1)
    alone = _scan_alone(living, extents.starts, extents.low, extents.high, atoms)
    if (living & permanent & ~alone).any():
        return False
    vague = (extents.unknown | extents.atomless)[extents.of_access] & ~touches.moves
    extent = np.where(vague | touches.moves, number[model.location], extents.of_access).astype(np.int32)
    lasting = living & (kind == Kind.OUTPUT)
    if (lasting & ~alone).any():
        begin, until = _times(text, touches)
        if not _scan_kept(
            begin, until, place, model.write, lasting, extent, extents.starts, extents.low, extents.high, atoms
        ):
            return False
    if not alone[living].all():
        inside = InsideLayout(place, model.write, extent, vague, extents.starts, extents.low, extents.high)
        if len(scan_inside(inside, model.access_starts, atoms, 1)[0]):
            return False
    tiles = _Tiles(text, touches, place, alone)
    by_event = np.lexsort((model.write, touches.event))
    layout = Layout(
        steps=text.steps,
        loops=text.loops,
        schedule=text.schedule,
        starts=np.searchsorted(touches.event[by_event], np.arange(len(text.events.line) + 1)),
        access=by_event.astype(np.int32),
        write=model.write,
        place=place,
        sure=~(vague | touches.moves | model.maybe),
        extent=extent,
        tile=tiles.of,
        tile_sure=~model.maybe,
        extent_starts=extents.starts,
        low=extents.low,
        high=extents.high,
        atoms=atoms,
        tiles=tiles.count,
        turn_starts=tiles.turn_starts,
        turn=tiles.turn,
        cover_starts=tiles.cover_starts,
        cover=tiles.cover,
    )
    begins = is_owner & (kind != Kind.INTERNAL) & (kind != Kind.OUTPUT)
    outputs = np.flatnonzero(is_owner & (kind == Kind.OUTPUT)).astype(np.int32)
    return bool(scan_held(layout, np.flatnonzero(begins).astype(np.int32), outputs))


def _times(text: Text, touches: Touches) -> tuple[Ints, Ints]:
    """Of each access: its place in the schedule, and that of the last event of the outermost loop around it."""
    structure = text.runs.flow.structure
    place = np.empty(len(text.schedule), np.int64)
    place[text.schedule] = np.arange(len(text.schedule))
    begin = place[touches.event]
    loops = [structure.loops_around(block) for block in text.runs.flow.blocks]
    end = np.array([structure.loops[around[0]].end if around else NONE for around in loops], np.int64)
    end = end[text.events.block[touches.event]]
    size = np.bincount(text.events.block, minlength=len(loops))
    last = np.append(0, np.cumsum(size))[end] - 1
    return begin, np.where(end == NONE, begin, last)


class _Tiles:
    """The tiles of a text, the loops that they move with, and where they have covered their locations."""

    def __init__(self, text: Text, touches: Touches, place: Ids, alone: Bools) -> None:
        model, runs = touches.model, text.runs
        program, structure = runs.flow.program, runs.flow.structure
        assert model.unrolled is not None
        self.of = np.full(len(place), NONE, np.int32)
        numbers: dict[tuple[int, int, tuple[_Move, ...]], int] = {}
        turns: dict[tuple[int, int], None] = {}
        covers: dict[tuple[int, int], None] = {}
        at = {(int(begin), int(core)): row for row, (begin, _, _, core) in enumerate(text.loops.tolist())}
        for access in np.flatnonzero(touches.moves).tolist():
            if not alone[place[access]]:
                continue
            row = int(model.unrolled.access_origin[model.access[access]])
            some = np.flatnonzero(runs.steps.access == row)
            columns = runs.steps.header, runs.steps.stride, runs.steps.modulus, runs.steps.phase
            moves = tuple(zip(*(column[some].tolist() for column in columns), strict=True))
            key = int(place[access]), int(program.accesses.pattern[row]), moves
            tile = self.of[access] = numbers.setdefault(key, len(numbers))
            core = int(model.core[model.instruction[access]])
            loops = [at.get((move[0], NONE), at.get((move[0], core), NONE)) for move in moves]
            if NONE in loops:
                continue  # in the body of a loop that never runs
            turns |= dict.fromkeys((loop, tile) for loop in loops)
            if not model.write[access] or model.maybe[access] or text.loops[loops, 3].max() != NONE:
                continue
            block, size = int(text.events.block[touches.event[access]]), program.locations.size
            outer = _covers(text, program.pattern(key[1]), moves, block, int(size[model.locations[place[access]]]))
            if outer != NONE:
                covers[at[structure.loops[outer].begin, NONE], int(place[access])] = None
        self.count = len(numbers)
        self.turn_starts, self.turn = _by_loop(turns, len(text.loops))
        self.cover_starts, self.cover = _by_loop(covers, len(text.loops))


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


@njit
def _scan_alone(living: Bools, starts: Ints, low: Ids, high: Ids, atoms: int) -> Bools:
    """Which places share no atom with another living one."""
    alone = np.ones(len(living), np.bool_)
    owner = np.full(atoms, -1, np.int32)
    for place in range(len(living)):
        if not living[place]:
            continue
        for k in range(starts[place], starts[place + 1]):
            for atom in range(low[k], high[k]):
                if owner[atom] >= 0:
                    alone[owner[atom]] = False
                    alone[place] = False
                owner[atom] = place
    return alone


@njit
def _scan_kept(
    begin: Ints,
    until: Ints,
    place: Ids,
    write: Bools,
    lasting: Bools,
    extent: Ids,
    starts: Ints,
    low: Ids,
    high: Ids,
    atoms: int,
) -> bool:
    """Whether no other place touches an atom once a lasting one has written it, in this iteration or a later one."""
    first = np.full(atoms, 1 << 60, np.int64)
    keeper = np.full(atoms, -1, np.int32)
    for access in range(len(place)):
        if not (write[access] and lasting[place[access]]):
            continue
        for k in range(starts[extent[access]], starts[extent[access] + 1]):
            for atom in range(low[k], high[k]):
                if keeper[atom] >= 0 and keeper[atom] != place[access]:
                    return False
                keeper[atom] = place[access]
                first[atom] = min(first[atom], begin[access])
    for access in range(len(place)):
        for k in range(starts[extent[access]], starts[extent[access] + 1]):
            for atom in range(low[k], high[k]):
                if keeper[atom] >= 0 and keeper[atom] != place[access] and until[access] >= first[atom]:
                    return False
    return True


@njit
def _put(state: Ids, atom: int, value: int, log: Column, logged: int) -> tuple[Column, int]:
    """Change what an atom holds, and log what it held."""
    if state[atom] == value:
        return log, logged
    if logged == len(log):
        log = _grown(log)
    log[logged, 0], log[logged, 1] = atom, state[atom]
    state[atom] = value
    return log, logged + 1


@njit
def _grown(table: Column) -> Column:
    more = np.empty((2 * table.shape[0], table.shape[1]), table.dtype)
    more[: table.shape[0]] = table
    return more


@njit
def scan_held(layout: Layout, begins: Ids, outputs: Ids) -> bool:
    """Whether every read and output finds its own bytes; `begins` are the places that have a value at the start."""
    atoms = layout.atoms
    state = np.empty(atoms + layout.tiles, np.int32)
    stamp = np.zeros(atoms + layout.tiles, np.int64)
    where = np.zeros(atoms + layout.tiles, np.int64)
    stamps = 0
    # Atoms that are unknown when a loop begins: lists by loop.
    head = np.full(len(layout.loops), -1, np.int64)
    lost = np.empty((64, 2), np.int64)  # atom, next
    losses = 0
    log = np.empty((1024, 2), np.int64)  # atom, value before
    saved = np.empty((1024, 3), np.int64)  # atom, value behind the first arm, value before it
    mark = np.zeros(len(layout.steps) + 1, np.int64)
    mark_saved = np.zeros(len(layout.steps) + 1, np.int64)
    while True:
        changed, right = False, True
        depth = logged = saves = 0
        state[:] = -1
        for at in range(len(begins)):
            for k in range(layout.extent_starts[begins[at]], layout.extent_starts[begins[at] + 1]):
                for atom in range(layout.low[k], layout.high[k]):
                    state[atom] = begins[at]
        for step in range(len(layout.steps)):
            what, number, end = layout.steps[step, 0], layout.steps[step, 1], layout.steps[step, 2]
            if what == 0:
                for row in range(number, end):
                    event = layout.schedule[row]
                    for at in range(layout.starts[event], layout.starts[event + 1]):
                        access = layout.access[at]
                        place, extent, tile = layout.place[access], layout.extent[access], layout.tile[access]
                        if not layout.write[access]:
                            if tile >= 0 and state[atoms + tile] == place:
                                continue
                            for k in range(layout.extent_starts[extent], layout.extent_starts[extent + 1]):
                                for atom in range(layout.low[k], layout.high[k]):
                                    right = right and state[atom] == place
                            continue
                        if tile >= 0 and layout.tile_sure[access]:
                            log, logged = _put(state, atoms + tile, place, log, logged)
                        for k in range(layout.extent_starts[extent], layout.extent_starts[extent + 1]):
                            for atom in range(layout.low[k], layout.high[k]):
                                new = place if layout.sure[access] or state[atom] == place else -1
                                log, logged = _put(state, atom, new, log, logged)
            elif what == 1:  # a fork begins
                mark[depth], mark_saved[depth] = logged, saves
                depth += 1
            elif what == 2:  # its second arm begins
                frame = depth - 1
                stamps += 1
                for k in range(mark[frame], logged):
                    atom = log[k, 0]
                    if stamp[atom] == stamps:
                        continue
                    stamp[atom] = stamps
                    if saves == len(saved):
                        saved = _grown(saved)
                    saved[saves, 0], saved[saves, 1], saved[saves, 2] = atom, state[atom], log[k, 1]
                    saves += 1
                for k in range(mark_saved[frame], saves):
                    state[saved[k, 0]] = saved[k, 2]
                logged = mark[frame]
            elif what == 3:  # a fork ends
                depth -= 1
                stamps += 1
                for k in range(mark_saved[depth], saves):
                    stamp[saved[k, 0]] = stamps
                for k in range(mark[depth], logged):
                    atom = log[k, 0]
                    if stamp[atom] == stamps:
                        continue
                    stamp[atom] = stamps
                    if saves == len(saved):
                        saved = _grown(saved)
                    saved[saves, 0], saved[saves, 1], saved[saves, 2] = atom, log[k, 1], log[k, 1]
                    saves += 1
                logged = mark[depth]
                for k in range(mark_saved[depth], saves):
                    atom = saved[k, 0]
                    new = state[atom] if state[atom] == saved[k, 1] else -1
                    state[atom] = saved[k, 2]
                    log, logged = _put(state, atom, new, log, logged)
                saves = mark_saved[depth]
            elif what == 4:  # a loop begins
                mark[depth], mark_saved[depth] = logged, saves
                depth += 1
                at = head[number]
                while at >= 0:
                    log, logged = _put(state, lost[at, 0], -1, log, logged)
                    at = lost[at, 1]
                for k in range(layout.turn_starts[number], layout.turn_starts[number + 1]):
                    log, logged = _put(state, atoms + layout.turn[k], -1, log, logged)
            elif what == 5:  # a body ends
                frame = depth - 1
                trip = layout.loops[number, 2]
                stamps += 2
                at = head[number]
                while at >= 0:
                    where[lost[at, 0]] = stamps
                    at = lost[at, 1]
                last = logged
                for k in range(mark[frame], last):
                    atom, before = log[k, 0], log[k, 1]
                    if stamp[atom] == stamps:
                        continue
                    stamp[atom] = stamps
                    if state[atom] != before and before >= 0 and where[atom] != stamps and trip != 1:
                        if losses == len(lost):
                            lost = _grown(lost)
                        lost[losses, 0], lost[losses, 1] = atom, head[number]
                        head[number] = losses
                        losses += 1
                        changed = True
                    if trip == 0:
                        log, logged = _put(state, atom, before, log, logged)
                    elif trip < 0 and state[atom] != before:
                        log, logged = _put(state, atom, -1, log, logged)
                for k in range(layout.turn_starts[number], layout.turn_starts[number + 1]):
                    log, logged = _put(state, atoms + layout.turn[k], -1, log, logged)
            else:  # a loop ends
                depth -= 1
                for k in range(layout.turn_starts[number], layout.turn_starts[number + 1]):
                    log, logged = _put(state, atoms + layout.turn[k], -1, log, logged)
                for at in range(layout.cover_starts[number], layout.cover_starts[number + 1]):
                    place = layout.cover[at]
                    for k in range(layout.extent_starts[place], layout.extent_starts[place + 1]):
                        for atom in range(layout.low[k], layout.high[k]):
                            log, logged = _put(state, atom, place, log, logged)
            if depth == 0:
                logged = 0
        if not changed:
            break
    for at in range(len(outputs)):
        for k in range(layout.extent_starts[outputs[at]], layout.extent_starts[outputs[at] + 1]):
            for atom in range(layout.low[k], layout.high[k]):
                right = right and state[atom] == outputs[at]
    return right
