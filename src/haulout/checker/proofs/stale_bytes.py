"""No read sees bytes that another tensor has left in the same storage: the proof for functions with loops.

In a straight line two tensors that share bytes are ordered as wholes. In a loop they take turns: one is written, read
and dead, then the other, then in the next iteration the first is written again. That is right when every read finds
the bytes as the last write of its own tensor left them, so that is what is proved. The accesses of a run are taken in
the order of a schedule, and each location has *lost* the bytes that another one has written since (`holders.py`). A
read of lost bytes is the fault. When nothing races (`conflicts.py` examines the same bytes) one schedule is
representative of all.

A `?` write may have taken any byte of its location: it makes the bytes of other tensors there doubtful, and restores
none of its own. Inputs, inouts and consts are live in the whole function, as in a straight line, so any overlap with
them is a fault. An output is live from its first write to the end, so an access of another tensor to its bytes after
that is a fault, also in a later iteration. So is an instruction that reads one tensor and writes another on the same
bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from haulout.checker.columns import grouped, positions
from haulout.checker.model import Model
from haulout.checker.proofs.extents import Extents
from haulout.checker.proofs.holders import (
    FRESH,
    INSIDE,
    KEPT,
    LOST,
    Layout,
    cells,
    permanent_overlaps,
    scan_holders,
)
from haulout.checker.proofs.storage import is_permanent, storage_subject, why_live
from haulout.ir.enums import NONE, Kind
from haulout.ir.labels import location_label
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Severity
from haulout.support.jit import compiled_if_large

_MAX_FINDINGS = 20
"""Findings that are reported."""
_MAX_PAIRS = 1 << 12
"""Wrong accesses of an atom that are looked at."""
_MAX_FAULTS = 1 << 16
"""The same, with reads of unwritten bytes, which are none here."""


_Pair = tuple[int, int]


def check_stale_bytes(model: Model, extents: Extents, schedule: Ids) -> list[Diagnostic]:
    """`overlapping-storage`: a tensor is read after another one has taken its bytes, or overlaps a permanent one."""
    program, mine, rows = model.program, model.locations, model.program.locations
    owners = model.owners()
    placed = (rows.address[mine] != NONE) & (owners[mine] == mine) & (rows.size[mine] > 0)
    if not placed.any():
        return []
    place = positions(mine, len(program.locations))[owners[model.location]]
    permanent = is_permanent(model)
    living = placed & permanent
    living[place] |= placed[place]
    living = np.flatnonzero(living).astype(np.int32)
    overlaps = permanent_overlaps(living, permanent, extents)
    found = [_permanent_overlap(model, *pair) for pair in overlaps[:_MAX_FINDINGS]]
    # Check places whose patterns are too fine for atoms byte by byte.
    fine = np.zeros(len(mine), bool)
    fine[place[(extents.atomless & ~extents.unknown)[extents.of_access]]] = True
    layout = _layout(model, extents, schedule, living, place, permanent)
    inside, stale, kept = _pairs(layout, schedule, fine)
    for each in np.flatnonzero(fine & placed).tolist():
        stale += _byte_by_byte(model, extents, place, schedule, each)
    reported: set[tuple[int, int]] = set()
    for taker, reader in (*inside, *stale, *kept):
        places = int(place[taker]), int(place[reader])
        if places in reported or permanent[list(places)].any():
            continue
        reported.add(places)
        if len(found) < _MAX_FINDINGS:
            found.append(_stale_read(model, taker, reader, kept=(taker, reader) in kept))
    return found


def _layout(model: Model, extents: Extents, schedule: Ids, living: Ids, place: Ids, permanent: Bools) -> Layout:
    """The accesses of a run, one after the other."""
    atoms = max(len(extents.first_key), 1)
    cell_place, atom = cells(living, extents)
    starts, order = grouped(atom, atoms)
    guess = (extents.unknown | extents.atomless)[extents.of_access]
    whole = extents.whole[positions(model.locations, len(model.program.locations))[model.location]]
    none, no_starts = np.zeros(0, np.int32), np.zeros(1, np.int64)
    return Layout(
        operations=np.array([(0, 0, len(schedule))], np.int32),
        trip=np.zeros(0, np.int64),
        extent=np.where(guess, whole, extents.of_access).astype(np.int32)[schedule],
        place=place[schedule],
        write=model.write[schedule],
        sure=~(guess | model.maybe)[schedule],
        instruction=model.instruction[schedule].astype(np.int64),
        tile=np.full(len(schedule), NONE, np.int32),
        tile_sure=np.zeros(len(schedule), bool),
        extent_starts=extents.starts,
        low=extents.low,
        high=extents.high,
        cell_starts=starts,
        cell_place=cell_place[order].astype(np.int32),
        permanent=permanent,
        lasting=~permanent & (model.program.locations.kind[model.locations] == Kind.OUTPUT),
        turn_starts=no_starts,
        turn=none,
        cover_starts=no_starts,
        cover=none,
        tiles_starts=np.zeros(len(permanent) + 1, np.int64),
        tiles=none,
    )


def _pairs(layout: Layout, schedule: Ids, fine: Bools) -> tuple[list[_Pair], list[_Pair], list[_Pair]]:
    """Pairs (write, access of another place to its bytes) that are wrong: in one instruction, reads of what was
    lost, accesses after the write of a lasting place.
    """
    count = len(layout.cell_place)
    with compiled_if_large(len(schedule) + count):
        faults = scan_holders(layout, np.full(count, FRESH, np.uint8), np.zeros(count, bool), _MAX_FAULTS)
    some = np.flatnonzero(faults.state & (LOST | KEPT | INSIDE) > 0)[:_MAX_PAIRS]
    atoms = np.searchsorted(layout.cell_starts, faults.cell[some], "right") - 1
    touching: dict[int, Ints] = {}
    inside, stale, kept = list[_Pair](), list[_Pair](), list[_Pair]()
    for at, atom in zip(some.tolist(), atoms.tolist(), strict=True):
        row, place, state = int(faults.row[at]), layout.cell_place[faults.cell[at]], int(faults.state[at])
        if atom not in touching:
            touching[atom] = np.flatnonzero(layout.touching(atom)[layout.extent])
        rows = touching[atom]
        access, write = int(schedule[row]), layout.write[rows]
        before = (layout.place[rows] != place) & (rows < row)
        if state & INSIDE:
            same = layout.instruction[rows] == layout.instruction[row]
            inside.append((access, int(schedule[rows[before & same][-1]])))
        if state & LOST and not fine[place]:
            stale.append((int(schedule[rows[before & write][-1]]), access))
        if state & KEPT:
            first = rows[write & layout.lasting[layout.place[rows]]][0]
            if layout.place[first] == place:
                kept.append((int(schedule[first]), access))
    return inside, stale, kept


def _byte_by_byte(model: Model, extents: Extents, place_of: Ids, schedule: Ids, place: int) -> list[tuple[int, int]]:
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
        if place_of[access] != place:
            if model.write[access]:
                lost[mask & held] = access
        elif not model.write[access]:
            if (lost[mask] != NONE).any():
                found.append((int(lost[mask].max()), access))
        elif not (extents.unknown[extents.of_access[access]] or model.maybe[access]):
            held[mask], lost[mask] = True, NONE
    return found


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
