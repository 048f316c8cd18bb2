"""No read sees bytes that another tensor has left in the same storage: the proof for functions with loops.

In a straight line two tensors that share bytes are ordered as wholes. In a loop they take turns: one is written, read
and dead, then the other, then in the next iteration the first is written again. That is right when every read finds
the bytes as the last write of its own tensor left them, so that is what is proved. The accesses of a run are taken in
the order of a schedule, and each atom records its *holder*, the access that wrote it last. The tensor that held it
before has *lost* it until it writes it again. A read of a lost atom is the fault. When nothing races (`conflicts.py`
examines the same bytes) one schedule is representative of all.

A `?` write may have taken any byte of its location: it makes the bytes of other tensors there doubtful, and restores
none of its own. Inputs, inouts and consts are live in the whole function, as in a straight line, so any overlap with
them is a fault. An output is live from its first write to the end, so an access of another tensor to its bytes after
that is a fault, also in a later iteration. So is an instruction that reads one tensor and writes another on the same
bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from haulout.checker.columns import positions
from haulout.checker.model import Model
from haulout.checker.proofs.extents import Extents
from haulout.checker.proofs.storage import is_permanent, storage_subject, why_live
from haulout.ir.enums import NONE, Kind
from haulout.ir.labels import location_label
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Severity
from haulout.support.jit import njit

_MAX_FINDINGS = 20
"""Findings that are reported."""
_MAX_PAIRS = 1 << 12


class Layout(NamedTuple):
    """What accesses touch, as columns over accesses and extents; a *place* is a number in `model.locations`."""

    place: Ids
    """Of each access: the place of its owner."""
    write: Bools
    extent: Ids
    """Of each access; where its bytes are not known, the whole location."""
    guess: Bools
    """Of each access: it touches some bytes of its extent."""
    starts: Ints
    low: Ids
    high: Ids


def check_stale_bytes(model: Model, extents: Extents, schedule: Ids) -> list[Diagnostic]:
    """`overlapping-storage`: a tensor is read after another one has taken its bytes, or overlaps a permanent one."""
    program, mine, rows = model.program, model.locations, model.program.locations
    owners = model.owners()
    placed = (rows.address[mine] != NONE) & (owners[mine] == mine) & (rows.size[mine] > 0)
    if not placed.any():
        return []
    number = positions(mine, len(program.locations))
    guess = (extents.unknown | extents.atomless)[extents.of_access]
    layout = Layout(
        place=number[owners[model.location]],
        write=model.write,
        extent=np.where(guess, extents.whole[number[model.location]], extents.of_access).astype(np.int32),
        guess=guess | model.maybe,
        starts=extents.starts,
        low=extents.low,
        high=extents.high,
    )
    permanent = is_permanent(model)
    living = placed & permanent
    living[layout.place] |= placed[layout.place]
    atoms = max(len(extents.first_key), 1)
    found = []
    for first, second in zip(*_scan_permanent(layout, living, permanent, atoms, _MAX_FINDINGS), strict=True):
        found.append(_permanent_overlap(model, int(first), int(second)))
    # Check places whose patterns are too fine for atoms byte by byte.
    fine = np.zeros(len(mine), bool)
    fine[layout.place[(extents.atomless & ~extents.unknown)[extents.of_access]]] = True
    pairs = [scan_inside(layout, model.access_starts, atoms, _MAX_PAIRS)]
    pairs.append(_scan_stale_reads(layout, schedule, fine, atoms, _MAX_PAIRS))
    for place in np.flatnonzero(fine & placed).tolist():
        pairs.append(_byte_by_byte(model, extents, layout, schedule, place))
    kept = _scan_kept(layout, schedule, ~permanent & (rows.kind[mine] == Kind.OUTPUT), atoms, _MAX_PAIRS)
    pairs.append(kept)
    kept_pairs = set(zip(kept[0].tolist(), kept[1].tolist(), strict=True))
    reported: set[tuple[int, int]] = set()
    for taker, reader in zip(*(np.concatenate(side).tolist() for side in zip(*pairs, strict=True)), strict=True):
        places = int(layout.place[taker]), int(layout.place[reader])
        if places in reported or permanent[list(places)].any():
            continue
        reported.add(places)
        if len(found) < _MAX_FINDINGS:
            found.append(_stale_read(model, taker, reader, kept=(taker, reader) in kept_pairs))
    return found


@njit
def _scan_permanent(layout: Layout, living: Bools, permanent: Bools, atoms: int, limit: int) -> tuple[Ids, Ids]:
    """Pairs (permanent place, place) that share an atom. A permanent place is live in the whole function."""
    first, second = np.empty(limit, np.int32), np.empty(limit, np.int32)
    count = 0
    owner = np.full(atoms, -1, np.int32)
    for turn in range(2):
        for place in range(len(living)):
            if not living[place] or permanent[place] != (turn == 0):
                continue
            previous = -1
            for k in range(layout.starts[place], layout.starts[place + 1]):
                for atom in range(layout.low[k], layout.high[k]):
                    if owner[atom] >= 0 and owner[atom] != previous and count < limit:
                        previous = owner[atom]
                        first[count], second[count] = previous, place
                        count += 1
                    if turn == 0:
                        owner[atom] = place
    return first[:count].copy(), second[:count].copy()


@njit
def scan_inside(layout: Layout, access_starts: Ints, atoms: int, limit: int) -> tuple[Ids, Ids]:
    """Pairs (write, other access) of one instruction that touch the same atom and are of different places."""
    takers, readers = np.empty(limit, np.int32), np.empty(limit, np.int32)
    count = 0
    stamp = np.full(atoms, -1, np.int32)
    for i in range(len(access_starts) - 1):
        begin, end = access_starts[i], access_starts[i + 1]
        if end - begin < 2 or not layout.write[end - 1]:
            continue
        for a in range(begin, end):
            r = layout.extent[a]
            for k in range(layout.starts[r], layout.starts[r + 1]):
                for atom in range(layout.low[k], layout.high[k]):
                    other = stamp[atom]
                    if (
                        layout.write[a]
                        and other >= begin
                        and layout.place[other] != layout.place[a]
                        and count < limit
                    ):
                        takers[count], readers[count] = a, other
                        count += 1
                    stamp[atom] = a
    return takers[:count].copy(), readers[:count].copy()


@njit
def _scan_kept(layout: Layout, schedule: Ids, lasting: Bools, atoms: int, limit: int) -> tuple[Ids, Ids]:
    """Pairs (write of a lasting place, later access of another one to the same atom)."""
    keepers, others = np.empty(limit, np.int32), np.empty(limit, np.int32)
    count = 0
    keeper = np.full(atoms, -1, np.int32)  # the first write of a lasting place
    for at in range(len(schedule)):
        a = schedule[at]
        place, r = layout.place[a], layout.extent[a]
        previous = -1
        for k in range(layout.starts[r], layout.starts[r + 1]):
            for atom in range(layout.low[k], layout.high[k]):
                held = keeper[atom]
                if held >= 0 and layout.place[held] != place and held != previous and count < limit:
                    previous = held
                    keepers[count], others[count] = held, a
                    count += 1
                if held < 0 and lasting[place] and layout.write[a]:
                    keeper[atom] = a
    return keepers[:count].copy(), others[:count].copy()


@njit
def _scan_stale_reads(layout: Layout, schedule: Ids, fine: Bools, atoms: int, limit: int) -> tuple[Ids, Ids]:
    """Pairs (write, read): the read finds what a write of another place left."""
    takers, readers = np.empty(limit, np.int32), np.empty(limit, np.int32)
    count = 0
    holder = np.full(atoms, -1, np.int32)  # the access that wrote the atom last
    doubt = np.full(atoms, -1, np.int32)  # an access of another place that may have written it since
    lost = np.full(atoms, -1, np.int32)  # by atom: list of places that held it before
    cells = np.empty((64, 2), np.int32)  # place, next
    used = 0
    for at in range(len(schedule)):
        a = schedule[at]
        place, r = layout.place[a], layout.extent[a]
        for k in range(layout.starts[r], layout.starts[r + 1]):
            for atom in range(layout.low[k], layout.high[k]):
                h = holder[atom]
                theirs = h >= 0 and layout.place[h] != place
                if not layout.write[a]:
                    d = doubt[atom]
                    taker = -1
                    if theirs:
                        cell = lost[atom]
                        while cell >= 0 and cells[cell, 0] != place:
                            cell = cells[cell, 1]
                        taker = h if cell >= 0 else -1
                    elif h >= 0 and d >= 0:
                        taker = d
                    known = count > 0 and takers[count - 1] == taker and readers[count - 1] == a
                    if taker >= 0 and not known and not fine[place] and count < limit:
                        takers[count], readers[count] = taker, a
                        count += 1
                    continue
                if layout.guess[a]:
                    if theirs:
                        doubt[atom] = a
                    elif h < 0:
                        holder[atom] = a
                    continue
                if theirs:
                    cell = lost[atom]
                    while cell >= 0 and cells[cell, 0] != layout.place[h]:
                        cell = cells[cell, 1]
                    if cell < 0:
                        if used == len(cells):
                            more = np.empty((2 * used, 2), np.int32)
                            more[:used] = cells
                            cells = more
                        cells[used, 0], cells[used, 1] = layout.place[h], lost[atom]
                        lost[atom] = used
                        used += 1
                holder[atom] = a
                doubt[atom] = -1
    return takers[:count].copy(), readers[:count].copy()


def _byte_by_byte(model: Model, extents: Extents, layout: Layout, schedule: Ids, place: int) -> tuple[Column, Column]:
    """The same for the reads of one place, on a map of its bytes (or of their common units)."""
    low, high = extents.runs(place)
    begin, end = int(low[0]), int(high[-1])
    runs: dict[int, tuple[Ints, Ints]] = {}

    def clipped(access: int) -> tuple[Ints, Ints]:
        extent = int(extents.of_access[access])
        if extent not in runs:
            lows, highs = extents.runs(extent)
            kept = (highs > begin) & (lows < end)
            runs[extent] = np.maximum(lows[kept], begin) - begin, np.minimum(highs[kept], end) - begin
        return runs[extent]

    touching = [access for access in schedule.tolist() if len(clipped(access)[0])]
    ends = [end - begin] + [int(np.gcd.reduce(np.concatenate(pair))) for pair in runs.values() if len(pair[0])]
    unit = int(np.gcd.reduce(np.array(ends, np.int64)))
    size = (end - begin) // unit
    held, lost = np.zeros(size, bool), np.full(size, NONE, np.int32)
    found: list[tuple[int, int]] = []
    for access in touching:
        lows, highs = clipped(access)
        edges = np.bincount(lows // unit, minlength=size + 1) - np.bincount(highs // unit, minlength=size + 1)
        mask = np.cumsum(edges)[:size] > 0
        if layout.place[access] != place:
            if layout.write[access]:
                lost[mask & held] = access
        elif not layout.write[access]:
            if (lost[mask] != NONE).any():
                found.append((int(lost[mask].max()), access))
        elif not (extents.unknown[extents.of_access[access]] or model.maybe[access]):
            held[mask], lost[mask] = True, NONE
    takers, readers = (np.array([pair[side] for pair in found], np.int32) for side in (0, 1))
    return takers, readers


# -- messages --------------------------------------------------------------------------------------------------------


def _permanent_overlap(model: Model, first: int, second: int) -> Diagnostic:
    program = model.program
    here, there = int(model.locations[first]), int(model.locations[second])
    message = (
        f"{model.location_name(here)} and {model.location_name(there)} of core {program.location_core[there]} share "
        f"bytes while both are live"
    )
    note = why_live(model, here, permanent=True)
    labels = (location_label(program, there), location_label(program, here))
    help_text = "move one of them to other bytes"
    subject = storage_subject(model, here, there)
    return Diagnostic("overlapping-storage", Severity.ERROR, message, labels, (note,), (help_text,), subject)


def _stale_read(model: Model, taker: int, reader: int, *, kept: bool) -> Diagnostic:
    program, owners = model.program, model.owners()
    i, j = int(model.instruction[taker]), int(model.instruction[reader])
    here, there = int(owners[model.location[taker]]), int(owners[model.location[reader]])
    names = [model.location_name(row) for row in (here, there)]
    does = "touches" if i == j or kept else "reads"
    after = f"after {model.name(i)} on core {model.core[i]} has written {names[0]}"
    found = f"where {model.name(i)} on core {model.core[i]} has written {names[0]}"
    message = (
        f"{names[0]} and {names[1]} of core {program.location_core[there]} share bytes while both are live: "
        f"{model.name(j)} on core {model.core[j]}{model.later(i, j)} {does} {names[1]} "
        f"{after if kept else found}"
    )
    notes = (why_live(model, here, permanent=False),) if kept else ()
    again = f", or write {names[1]} again between {model.name(i)} and {model.name(j)}"
    help_text = (f"move one of them to other bytes{'' if kept else again}",)
    labels = (model.label(j), model.label(i), location_label(program, there), location_label(program, here))
    subject = replace(
        storage_subject(model, here, there),
        instructions=(model.access_entity(taker), model.access_entity(reader)),
        provisos=model.provisos(i, j, there),
    )
    return Diagnostic("overlapping-storage", Severity.ERROR, message, labels, notes, help_text, subject)
