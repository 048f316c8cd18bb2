"""What each cell may be when an access comes, in one walk that is repeated until stable: the kernel of
`stale_bytes.py` and `flow/held.py`.

A *cell* is a location and one of its atoms of storage. On each path it is in one of three states:

    FRESH   the location has not been written there
    MINE    the atom holds the location's bytes
    LOST    it held them, and another location has been written there since

A write makes the cell MINE, and the cells of other locations at its atoms LOST, or leaves them FRESH; one that may
miss bytes may leave all as it was. Cells are followed as sets of states, united where paths meet. Every step takes
each state on its own, so these sets are exactly what the paths lead to, with one exception: a loop of two iterations
counts as one of more.

A loop begins with what comes before it and what its body leaves; what the body adds is known in the next pass. A
state only ever changes from FRESH to MINE to LOST and back to MINE, so few passes are enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.columns import join_ranges
from haulout.checker.proofs.extents import Extents
from haulout.ir.schema import Bools, Bytes, Column, Ids, Ints
from haulout.support.jit import njit

FRESH, MINE, LOST = 1, 2, 4
KEPT = 8
"""Another location's access comes to the bytes of an output that has been written."""
INSIDE = 16
"""One instruction touches the atom for two locations, and writes it for one."""


class Layout(NamedTuple):
    """Columns for the kernel. A *place* is a number in `model.locations`, a *row* an access when it is walked."""

    operations: Column
    trip: Ints
    extent: Ids
    """Of each row."""
    place: Ids
    write: Bools
    sure: Bools
    """It touches all of its extent."""
    instruction: Ints
    """Equal for the accesses of one instruction, each time that it is walked."""
    tile: Ids
    """Of each row: the atom that stands for the bytes of a pattern that moves (`tiles.py`), else NONE."""
    tile_sure: Bools
    extent_starts: Ints
    low: Ids
    high: Ids
    cell_starts: Ints
    """Atom a has the cells `cell_starts[a]:cell_starts[a + 1]`."""
    cell_place: Ids
    permanent: Bools
    """Of each place: it shares no storage, or that is reported by itself."""
    lasting: Bools
    """Of each place: once written it is live to the end."""
    turn_starts: Ints
    turn: Ids
    """Of each loop: the tiles that move with it."""
    cover_starts: Ints
    cover: Ids
    """Of each loop: places that are whole behind it."""
    tiles_starts: Ints
    tiles: Ids
    """Of each place: its tiles."""

    def touching(self, atom: int) -> Bools:
        """The extents that have an atom."""
        inside = np.append(0, np.cumsum((self.low <= atom) & (atom < self.high)))
        found: Bools = inside[self.extent_starts[1:]] > inside[self.extent_starts[:-1]]
        return found


class Faults(NamedTuple):
    """What is not right: rows, and cells with the states that are wrong there."""

    row: Ids
    """NONE: at the end."""
    cell: Ids
    state: Ids
    total: int
    passes: int


def cells(places: Ids, extents: Extents) -> tuple[Ints, Ints]:
    """Pairs of a place and an atom of its location."""
    size = extents.starts[places + 1] - extents.starts[places]
    ranges = join_ranges(extents.starts[places], size)
    length = (extents.high[ranges] - extents.low[ranges]).astype(np.int64)
    return np.repeat(np.repeat(places, size), length).astype(np.int64), join_ranges(extents.low[ranges], length)


def permanent_overlaps(living: Ids, permanent: Bools, extents: Extents) -> list[list[int]]:
    """Pairs of places that share an atom, the first of them live from the start to the end."""
    if not permanent[living].any():
        return []
    place, atom = cells(living, extents)
    order = np.lexsort((~permanent[place], atom))
    place, atom = place[order], atom[order]
    first = np.append(True, atom[1:] != atom[:-1])[: len(atom)]
    head = place[np.maximum.accumulate(np.where(first, np.arange(len(atom)), 0))]
    some = np.flatnonzero(permanent[head] & ~first)
    pairs: list[list[int]] = np.unique(np.stack([head[some], place[some]]), axis=1).T.tolist()
    return pairs


@njit
def _put(state: Bytes, cell: int, value: int, log: Column, logged: int) -> tuple[Column, int]:
    """Change a cell, and log what it was."""
    if state[cell] == value:
        return log, logged
    if logged == len(log):
        log = _grown(log)
    log[logged, 0], log[logged, 1] = cell, state[cell]
    state[cell] = value
    return log, logged + 1


@njit
def _grown(table: Column) -> Column:
    more = np.empty((2 * table.shape[0], table.shape[1]), table.dtype)
    more[: table.shape[0]] = table
    return more


@njit
def scan_holders(layout: Layout, start: Bytes, ends: Bools, limit: int) -> Faults:
    """Walk until stable; `start` has the state of each cell, `ends` which cells must not be FRESH at the end."""
    cells, operations = len(layout.cell_place), layout.operations
    state = start.copy()
    stamp = np.zeros(cells, np.int64)
    where = np.zeros(cells, np.int64)
    slot = np.zeros(cells, np.int64)
    stamps = 0
    # What bodies add to the states that their loops begin with: lists by loop.
    head = np.full(len(layout.trip), -1, np.int64)
    back = np.empty((64, 3), np.int64)  # cell, states, next
    backs = 0
    log = np.empty((1024, 2), np.int64)  # cell, states before
    saved = np.empty((1024, 3), np.int64)  # cell, states behind the first arm, states before it
    mark = np.zeros(len(operations) + 1, np.int64)
    mark_saved = np.zeros(len(operations) + 1, np.int64)
    # The last access of each atom: its instruction and place.
    atoms = len(layout.cell_starts) - 1
    by = np.empty(atoms, np.int64)
    last = np.empty(atoms, np.int32)
    found_row, found_cell, found_state = np.empty(64, np.int32), np.empty(64, np.int32), np.empty(64, np.int32)
    passes = 0
    while True:
        passes += 1
        changed = False
        total = depth = logged = saves = 0
        state[:] = start
        by[:] = -1
        for at in range(len(operations)):
            kind, first, end = operations[at, 0], operations[at, 1], operations[at, 2]
            if kind == 0:
                for row in range(first, end):
                    place, tile, write = layout.place[row], layout.tile[row], layout.write[row]
                    if tile >= 0:
                        cell = layout.cell_starts[tile]
                        if write and layout.tile_sure[row]:
                            log, logged = _put(state, cell, 2, log, logged)
                        elif not write and state[cell] == 2:
                            continue
                    extent, sure = layout.extent[row], layout.sure[row]
                    for k in range(layout.extent_starts[extent], layout.extent_starts[extent + 1]):
                        for atom in range(layout.low[k], layout.high[k]):
                            twice = write and by[atom] == layout.instruction[row] and last[atom] != place
                            twice = twice and not (layout.permanent[place] or layout.permanent[last[atom]])
                            by[atom], last[atom] = layout.instruction[row], place
                            for cell in range(layout.cell_starts[atom], layout.cell_starts[atom + 1]):
                                other, now = layout.cell_place[cell], state[cell]
                                wrong, new = 0, now
                                if other == place:
                                    wrong = 16 if twice else 0
                                    if write:
                                        new = 2 if sure else now | 2
                                    else:
                                        wrong = wrong | (now & 5)
                                elif not (layout.permanent[other] or layout.permanent[place]):
                                    if layout.lasting[other] and now & 6:
                                        wrong = 8
                                    if write:
                                        new = (now & 1) | (4 if now & 6 else 0)
                                        new = new if sure else now | new
                                        for j in range(layout.tiles_starts[other], layout.tiles_starts[other + 1]):
                                            lost = layout.cell_starts[layout.tiles[j]]
                                            log, logged = _put(state, lost, state[lost] | 4, log, logged)
                                log, logged = _put(state, cell, new, log, logged)
                                if wrong:
                                    if total < limit:
                                        if total == len(found_row):
                                            found_row = np.append(found_row, found_row)
                                            found_cell = np.append(found_cell, found_cell)
                                            found_state = np.append(found_state, found_state)
                                        found_row[total], found_cell[total] = row, cell
                                        found_state[total] = wrong
                                    total += 1
            elif kind == 1:  # a fork begins
                mark[depth], mark_saved[depth] = logged, saves
                depth += 1
            elif kind == 2:  # its second arm begins
                frame = depth - 1
                stamps += 1
                for k in range(mark[frame], logged):
                    cell = log[k, 0]
                    if stamp[cell] == stamps:
                        continue
                    stamp[cell] = stamps
                    if saves == len(saved):
                        saved = _grown(saved)
                    saved[saves, 0], saved[saves, 1], saved[saves, 2] = cell, state[cell], log[k, 1]
                    saves += 1
                for k in range(mark_saved[frame], saves):
                    state[saved[k, 0]] = saved[k, 2]
                logged = mark[frame]
            elif kind == 3:  # a fork ends
                depth -= 1
                stamps += 1
                for k in range(mark_saved[depth], saves):
                    stamp[saved[k, 0]] = stamps
                for k in range(mark[depth], logged):
                    cell = log[k, 0]
                    if stamp[cell] == stamps:
                        continue
                    stamp[cell] = stamps
                    if saves == len(saved):
                        saved = _grown(saved)
                    saved[saves, 0], saved[saves, 1], saved[saves, 2] = cell, log[k, 1], log[k, 1]
                    saves += 1
                logged = mark[depth]
                for k in range(mark_saved[depth], saves):
                    cell = saved[k, 0]
                    new = state[cell] | saved[k, 1]
                    state[cell] = saved[k, 2]
                    log, logged = _put(state, cell, new, log, logged)
                saves = mark_saved[depth]
            elif kind == 4:  # a loop begins
                mark[depth], mark_saved[depth] = logged, saves
                depth += 1
                k = head[first]
                while k >= 0:
                    log, logged = _put(state, back[k, 0], state[back[k, 0]] | back[k, 1], log, logged)
                    k = back[k, 2]
                for k in range(layout.turn_starts[first], layout.turn_starts[first + 1]):
                    cell = layout.cell_starts[layout.turn[k]]
                    log, logged = _put(state, cell, state[cell] | 1, log, logged)
            elif kind == 5:  # a body ends
                frame = depth - 1
                trip = layout.trip[first]
                stamps += 1
                k = head[first]
                while k >= 0:
                    where[back[k, 0]] = stamps
                    slot[back[k, 0]] = k
                    k = back[k, 2]
                until = logged
                for j in range(mark[frame], until):
                    cell, before = log[j, 0], log[j, 1]
                    if stamp[cell] == stamps:
                        continue
                    stamp[cell] = stamps
                    known = before
                    if where[cell] == stamps:
                        known = known | back[slot[cell], 1]
                    if trip != 0 and trip != 1 and state[cell] | known != known:
                        if where[cell] != stamps:
                            if backs == len(back):
                                back = _grown(back)
                            back[backs, 0], back[backs, 1], back[backs, 2] = cell, 0, head[first]
                            head[first] = backs
                            slot[cell], where[cell] = backs, stamps
                            backs += 1
                        back[slot[cell], 1] |= state[cell]
                        changed = True
                    if trip == 0:
                        log, logged = _put(state, cell, before, log, logged)
                    elif trip < 0:
                        log, logged = _put(state, cell, state[cell] | before, log, logged)
                for k in range(layout.turn_starts[first], layout.turn_starts[first + 1]):
                    cell = layout.cell_starts[layout.turn[k]]
                    log, logged = _put(state, cell, state[cell] | 1, log, logged)
            else:  # a loop ends
                depth -= 1
                for k in range(layout.turn_starts[first], layout.turn_starts[first + 1]):
                    cell = layout.cell_starts[layout.turn[k]]
                    log, logged = _put(state, cell, state[cell] | 1, log, logged)
                for k in range(layout.cover_starts[first], layout.cover_starts[first + 1]):
                    place = layout.cover[k]
                    for j in range(layout.extent_starts[place], layout.extent_starts[place + 1]):
                        for atom in range(layout.low[j], layout.high[j]):
                            for cell in range(layout.cell_starts[atom], layout.cell_starts[atom + 1]):
                                now = state[cell]
                                new = (now & 1) | (4 if now & 6 else 0)
                                if layout.cell_place[cell] == place:
                                    new = 2
                                log, logged = _put(state, cell, new, log, logged)
            if depth == 0:
                logged = 0
        if not changed:
            break
    for cell in range(cells):
        if ends[cell] and state[cell] & 1:
            if total < limit:
                if total == len(found_row):
                    found_row = np.append(found_row, found_row)
                    found_cell = np.append(found_cell, found_cell)
                    found_state = np.append(found_state, found_state)
                found_row[total], found_cell[total], found_state[total] = -1, cell, 1
            total += 1
    count = min(total, limit)
    return Faults(found_row[:count].copy(), found_cell[:count].copy(), found_state[:count].copy(), total, passes)
