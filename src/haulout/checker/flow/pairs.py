"""Which accesses of a text may touch common bytes, as columns for the questions of `claims.py`.

Accesses find each other under *keys*: the atoms of storage (`extents.py`), and for extents without atoms one key
each, which lists what overlaps it. A pattern that moves with loops counts as all that it ever touches here; whether
two of them meet at some distance of iterations is decided for the pairs that are left (`motions.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from haulout.checker.columns import join_ranges
from haulout.checker.flow.counts import chains
from haulout.checker.flow.graph import Queries
from haulout.checker.flow.motions import Motions
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import Text
from haulout.checker.model import Model
from haulout.checker.proofs.extents import Extents, find_extents
from haulout.checker.proofs.storage_map import physical_map
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids, Ints

MAX_KEYS = 1 << 24
"""Keys of all accesses together."""


@dataclass(slots=True)
class Touches:
    """The accesses of a text and their bytes."""

    model: Model
    """With whole locations in place of patterns that move."""
    extents: Extents
    """Of `model`."""
    moves: Bools
    """Of each access."""
    event: Ids
    """Of each access: where it happens."""
    motions: Motions


def find_touches(text: Text) -> Touches:
    """The accesses of a text."""
    model, steps = text.model, text.runs.steps
    assert model.unrolled is not None
    origin = model.unrolled.access_origin[model.access]
    moves = (origin != NONE) & np.isin(origin, steps.access[steps.stride != 0])
    still = replace(model, pattern=np.where(moves, NONE, model.pattern).astype(np.int32))
    at = np.where(model.write, text.events.last[model.instruction], text.events.first[model.instruction])
    storage = physical_map(still)
    extents, motions = find_extents(still, storage), Motions(text, storage)
    return Touches(still, extents, moves, at.astype(np.int32), motions)


def _covered(touches: Touches) -> Extents:
    """The extents of all that accesses ever touch."""
    if not touches.moves.any():
        return touches.extents
    program, pattern = touches.motions.covered(touches.moves)
    model = replace(touches.model, program=program, pattern=pattern)
    return find_extents(model, touches.extents.storage, fine=False)


def find_queries(text: Text, touches: Touches) -> Queries | Refusal:
    """The columns, unless they would be too long."""
    extents, event = _covered(touches), touches.event
    extent = extents.of_access
    low, length, atoms = _written_atoms(extents, extent[touches.model.write])
    size = np.zeros(len(extents.starts) - 1, np.int64)
    np.add.at(size, np.repeat(np.arange(len(size)), np.diff(extents.starts)), length)
    listed = np.diff(extents.overlap_starts)
    if int((size + listed)[extent].sum()) > MAX_KEYS:
        return Refusal("its accesses are cut into too many parts")
    # The keys of each extent: its atoms, and the atomless ones that it overlaps or that overlap it.
    own = np.repeat(np.arange(len(size)), size), join_ranges(low, length)
    theirs = np.repeat(np.arange(len(size)), listed), atoms + extents.overlaps.astype(np.int64)
    numbered = np.flatnonzero(extents.slot != NONE)
    slots = numbered, atoms + extents.slot[numbered].astype(np.int64)
    keys = atoms + int(extents.slot.max(initial=NONE)) + 1
    # Signals that must come in one order ask for each other like accesses, numbered after these.
    semaphore, signal = chains(text)
    chained = np.arange(len(signal)), keys + semaphore.astype(np.int64)
    keys += text.operations.semaphores
    asked = _chained(_by_access(extent, len(size), (own, theirs)), chained)
    held = _chained(_by_access(extent, len(size), (own, slots)), chained)
    event = np.append(event, signal)
    write = np.append(touches.model.write, np.ones(len(signal), bool))
    by_event = np.argsort(event, kind="stable")
    line, position = text.events.line[event], text.events.position[event]
    every = _groups(held, line, position, np.ones(len(write), bool), keys)
    writes = _groups(held, line, position, write, keys)
    return Queries(
        np.searchsorted(event[by_event], np.arange(len(text.events.line) + 1)),
        by_event.astype(np.int32),
        write,
        asked[0],
        asked[1].astype(np.int32),
        *every,
        *writes,
    )


def find_signal_queries(text: Text, waits: Ids, signals: Ids) -> Queries:
    """The same for some waits and signals, rows of `Operations`, in place of accesses: each signal asks for the waits
    for its semaphore, and again signals that must come in one order for each other.
    """
    use, (semaphore, chain) = text.operations, chains(text)
    event = np.concatenate([use.wait[waits], use.signal[signals], chain])
    key = np.concatenate([use.wait_for[waits], use.signal_to[signals], semaphore]).astype(np.int64)
    waiting = np.arange(len(event)) < len(waits)
    chained = np.arange(len(event)) >= len(waits) + len(signals)
    key += np.where(chained, use.semaphores, 0)
    held, asked = waiting | chained, ~waiting
    line, position = text.events.line[event], text.events.position[event]
    starts = np.append(0, np.cumsum(held))
    groups = _groups((starts, key[held]), line, position, held, 2 * use.semaphores)
    by_event = np.argsort(event, kind="stable")
    return Queries(
        np.searchsorted(event[by_event], np.arange(len(text.events.line) + 1)),
        by_event.astype(np.int32),
        held,
        np.append(0, np.cumsum(asked)),
        key[asked].astype(np.int32),
        *groups,
        *groups,
    )


def _written_atoms(extents: Extents, written: Ids) -> tuple[Ints, Ints, int]:
    """The ranges of all extents, (first, length), among the atoms that some extents have; and how many these are."""
    is_written = np.zeros(len(extents.location), bool)
    is_written[written] = True
    rows = np.repeat(is_written, np.diff(extents.starts))
    edge = np.zeros(len(extents.first_key) + 1, np.int64)
    np.add.at(edge, extents.low[rows], 1)
    np.subtract.at(edge, extents.high[rows], 1)
    number = np.append(0, np.cumsum(np.cumsum(edge) > 0))
    low = number[extents.low]
    return low, number[extents.high] - low, max(int(number[-1]), 1)


def _chained(rows: tuple[Ints, Ints], more: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The keys of accesses, followed by rows with one key each."""
    return np.append(rows[0], rows[0][-1] + 1 + more[0]), np.append(rows[1], more[1])


def _by_access(extent: Ids, extents: int, parts: tuple[tuple[Ints, Ints], ...]) -> tuple[Ints, Ints]:
    """(Starts, keys) of accesses, from (extent, key) rows."""
    of = np.concatenate([part[0] for part in parts])
    key = np.concatenate([part[1] for part in parts])
    order = np.argsort(of, kind="stable")
    starts = np.searchsorted(of[order], np.arange(extents + 1))
    size = np.diff(starts)[extent]
    return np.append(0, np.cumsum(size)), key[order][join_ranges(starts[extent], size)]


def _groups(
    held: tuple[Ints, Ints], line: Ids, position: Ids, wanted: Bools, keys: int
) -> tuple[Ints, Ids, Ints, Ids, Ids]:
    """The accesses of a mask by (key, line), as `Queries` has them."""
    access = np.repeat(np.arange(len(line)), np.diff(held[0]))
    key = held[1][wanted[access]]
    access = access[wanted[access]]
    order = np.lexsort((position[access], line[access], key))
    key, access = key[order], access[order]
    lines = line[access]
    new = np.append(True, (key[1:] != key[:-1]) | (lines[1:] != lines[:-1]))[: len(key)]
    first = np.flatnonzero(new)
    starts = np.searchsorted(key[first], np.arange(keys + 1))
    of = np.append(first, len(key)).astype(np.int64)
    return starts, lines[first].astype(np.int32), of, position[access].astype(np.int32), access.astype(np.int32)
