"""No read sees bytes that another tensor has left in the same storage: the proof for functions with loops.

In a straight line two tensors that share bytes are ordered as wholes. In a loop they take turns: one is written, read
and dead, then the other, then in the next iteration the first is written again. That is right when every read finds
the bytes as its own tensor's last write left them, so that is what is proved: the accesses of a run are taken in the
order of a schedule, and each atom knows who holds it. A write takes it; the tensor that held it has *lost* it until
it writes it again. A read of something lost is the fault. When nothing races (`conflicts.py` looks at the same bytes)
one schedule stands for all.

A `?` write may have taken any byte of its location: it puts what others hold there in doubt, and gives nothing back
to its own tensor. Inputs, outputs, inouts and consts live in the whole function, as in a straight line: whoever lies
on them is a fault. So is an instruction that reads one tensor and writes another on the same bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from haulout.checker.model import Model
from haulout.checker.proofs.extents import Regions
from haulout.checker.proofs.storage import storage_subject
from haulout.ir.enums import NONE, Kind
from haulout.ir.labels import location_label
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Severity
from haulout.support.jit import njit

_MOST = 20
"""Findings that are listed."""
_MOST_PAIRS = 1 << 12


class Layout(NamedTuple):
    """What accesses touch, as columns over accesses and regions; places number `model.locations`."""

    place: Ids
    """Of each access: the owner's."""
    write: Bools
    region: Ids
    """Of each access; where bytes are not known, its whole location."""
    guess: Bools
    """Of each access: it touches some bytes of its region."""
    starts: Ints
    low: Ids
    high: Ids


def check_holders(model: Model, regions: Regions, events: Ids) -> list[Diagnostic]:
    """`overlapping-storage`: a tensor that is read although another one has taken its bytes, or that lies on one
    which lives in the whole function.
    """
    program, mine, rows = model.program, model.locations, model.program.locations
    owners = model.owners()
    placed = (rows.address[mine] != NONE) & (owners[mine] == mine) & (rows.size[mine] > 0)
    if not placed.any():
        return []
    number = np.full(len(program.locations), NONE, np.int32)
    number[mine] = np.arange(len(mine), dtype=np.int32)
    guess = (regions.unknown | regions.apart)[regions.of_access]
    layout = Layout(
        place=number[owners[model.location]],
        write=model.write,
        region=np.where(guess, number[model.location], regions.of_access).astype(np.int32),
        guess=guess | model.maybe,
        starts=regions.starts,
        low=regions.low,
        high=regions.high,
    )
    forever = rows.kind[mine] != Kind.INTERNAL
    living = placed & forever
    living[layout.place] |= placed[layout.place]
    atoms = max(len(regions.first_key), 1)
    found = []
    for first, second in zip(*_scan_forever(layout, living, forever, atoms, _MOST), strict=True):
        found.append(_on_forever(model, int(first), int(second)))
    # Places with patterns too fine for atoms are judged byte by byte.
    fine = np.zeros(len(mine), bool)
    fine[layout.place[(regions.apart & ~regions.unknown)[regions.of_access]]] = True
    pairs = [_scan_inside(layout, model.access_starts, atoms, _MOST_PAIRS)]
    pairs.append(_scan_takers(layout, events, fine, atoms, _MOST_PAIRS))
    for place in np.flatnonzero(fine & placed).tolist():
        pairs.append(_byte_by_byte(model, regions, layout, events, place))
    told: set[tuple[int, int]] = set()
    for taker, reader in zip(*(np.concatenate(side).tolist() for side in zip(*pairs, strict=True)), strict=True):
        places = int(layout.place[taker]), int(layout.place[reader])
        if places in told or forever[list(places)].any():
            continue
        told.add(places)
        if len(found) < _MOST:
            found.append(_taken(model, taker, reader))
    return found


@njit
def _scan_forever(layout: Layout, living: Bools, forever: Bools, atoms: int, most: int) -> tuple[Ids, Ids]:
    """Places that lie on one which lives in the whole function, as pairs (that, place)."""
    first, second = np.empty(most, np.int32), np.empty(most, np.int32)
    count = 0
    lord = np.full(atoms, -1, np.int32)
    for turn in range(2):
        for place in range(len(living)):
            if not living[place] or forever[place] != (turn == 0):
                continue
            seen = -1
            for k in range(layout.starts[place], layout.starts[place + 1]):
                for atom in range(layout.low[k], layout.high[k]):
                    if lord[atom] >= 0 and lord[atom] != seen and count < most:
                        seen = lord[atom]
                        first[count], second[count] = seen, place
                        count += 1
                    if turn == 0:
                        lord[atom] = place
    return first[:count].copy(), second[:count].copy()


@njit
def _scan_inside(layout: Layout, access_starts: Ints, atoms: int, most: int) -> tuple[Ids, Ids]:
    """Pairs (write, other access) of one instruction, on the same atom and of different places."""
    takers, readers = np.empty(most, np.int32), np.empty(most, np.int32)
    count = 0
    stamp = np.full(atoms, -1, np.int32)
    for i in range(len(access_starts) - 1):
        begin, end = access_starts[i], access_starts[i + 1]
        if end - begin < 2 or not layout.write[end - 1]:
            continue
        for a in range(begin, end):
            r = layout.region[a]
            for k in range(layout.starts[r], layout.starts[r + 1]):
                for atom in range(layout.low[k], layout.high[k]):
                    other = stamp[atom]
                    if layout.write[a] and other >= begin and layout.place[other] != layout.place[a] and count < most:
                        takers[count], readers[count] = a, other
                        count += 1
                    stamp[atom] = a
    return takers[:count].copy(), readers[:count].copy()


@njit
def _scan_takers(layout: Layout, events: Ids, fine: Bools, atoms: int, most: int) -> tuple[Ids, Ids]:
    """Pairs (write, read): the read finds what the write of another place left."""
    takers, readers = np.empty(most, np.int32), np.empty(most, np.int32)
    count = 0
    holder = np.full(atoms, -1, np.int32)  # the access that wrote the atom last
    doubt = np.full(atoms, -1, np.int32)  # an access of another place that may have written it since
    lost = np.full(atoms, -1, np.int32)  # by atom: list of places that held it before
    cells = np.empty((64, 2), np.int32)  # place, next
    used = 0
    for at in range(len(events)):
        a = events[at]
        place, r = layout.place[a], layout.region[a]
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
                    if taker >= 0 and not known and not fine[place] and count < most:
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


def _byte_by_byte(model: Model, regions: Regions, layout: Layout, events: Ids, place: int) -> tuple[Column, Column]:
    """The same for the reads of one place, on a map of its bytes (or of their common units)."""
    low, high = regions.runs(place)
    begin, end = int(low[0]), int(high[-1])
    runs: dict[int, tuple[Ints, Ints]] = {}

    def clipped(access: int) -> tuple[Ints, Ints]:
        region = int(regions.of_access[access])
        if region not in runs:
            lows, highs = regions.runs(region)
            kept = (highs > begin) & (lows < end)
            runs[region] = np.maximum(lows[kept], begin) - begin, np.minimum(highs[kept], end) - begin
        return runs[region]

    touching = [access for access in events.tolist() if len(clipped(access)[0])]
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
        elif not (regions.unknown[regions.of_access[access]] or model.maybe[access]):
            held[mask], lost[mask] = True, NONE
    takers, readers = (np.array([pair[side] for pair in found], np.int32) for side in (0, 1))
    return takers, readers


# -- messages --------------------------------------------------------------------------------------------------------


def _on_forever(model: Model, first: int, second: int) -> Diagnostic:
    program = model.program
    here, there = int(model.locations[first]), int(model.locations[second])
    message = (
        f"{model.location_name(here)} and {model.location_name(there)} of core {program.location_core[there]} share "
        f"bytes while both are live"
    )
    kind = Kind(int(program.locations.kind[here])).text
    note = f"{model.location_name(here)} is kind={kind}: it lives in the whole function"
    labels = (location_label(program, there), location_label(program, here))
    help_text = "give one of them other bytes"
    subject = storage_subject(model, here, there)
    return Diagnostic("overlapping-storage", Severity.ERROR, message, labels, (note,), (help_text,), subject)


def _taken(model: Model, taker: int, reader: int) -> Diagnostic:
    program, owners = model.program, model.owners()
    i, j = int(model.instruction[taker]), int(model.instruction[reader])
    here, there = int(owners[model.location[taker]]), int(owners[model.location[reader]])
    names = [model.location_name(row) for row in (here, there)]
    does = "touches" if i == j else "reads"
    message = (
        f"{names[0]} and {names[1]} of core {program.location_core[there]} share bytes while both are live: "
        f"{model.name(j)} on core {model.core[j]}{model.later(i, j)} {does} {names[1]} where {model.name(i)} on core "
        f"{model.core[i]} has written {names[0]}"
    )
    help_text = (
        f"give one of them other bytes, or write {names[1]} again between {model.name(i)} and {model.name(j)}",
    )
    labels = (model.label(j), model.label(i), location_label(program, there), location_label(program, here))
    subject = replace(
        storage_subject(model, here, there),
        instructions=(model.access_entity(taker), model.access_entity(reader)),
        provisos=model.provisos(i, j, there),
    )
    return Diagnostic("overlapping-storage", Severity.ERROR, message, labels, (), help_text, subject)
