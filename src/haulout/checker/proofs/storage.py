"""Placement: views agree with their owners, cores have disjoint partitions, and no location overlaps a live one.

The verifier has checked that addresses are aligned and that views have targets (`ir/verify.py`).

Two owners may share bytes only when one is dead before the other begins: every access of one happens before every
access of the other. That is decided by the fused order alone, not by the lifetimes of an allocator. Inputs, inouts
and consts are live in the whole function, even without accesses. An output is live from its first access to the end
of the function; in the whole function if it has no access, or if it is `partial`: some of its bytes may never be
written then. An internal location without accesses is never live.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from haulout.checker.columns import positions
from haulout.checker.model import Model
from haulout.checker.order.happens_before import Order
from haulout.checker.proofs import sweep
from haulout.checker.proofs.extents import Extents
from haulout.checker.proofs.lifetimes import Lifetimes, scan_lifetimes
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.labels import location_label
from haulout.ir.schema import Bools, Ids
from haulout.support.diagnostics import Diagnostic, Severity, Subject

_MAX_FINDINGS = 20
"""Findings of one sort that are reported."""
_MAX_PAIRS = 1 << 14


def check_views(model: Model) -> list[Diagnostic]:
    """`view-mismatch` where a view differs from its owner in address, bank or base partition."""
    program = model.program
    rows, owner = program.locations, program.owner
    views = model.locations[rows.remote_name[model.locations] != NONE]
    owners = owner[views]
    differs = rows.address[views] != rows.address[owners]
    placed = (rows.address[views] != NONE) & (rows.address[owners] != NONE)
    for column in (rows.bank, rows.partition):
        # Absent is 0.
        differs |= placed & (np.maximum(column[views], 0) != np.maximum(column[owners], 0))
    return [_mismatch(model, view, int(owner[view])) for view in views[differs][:_MAX_FINDINGS].tolist()]


def _mismatch(model: Model, view: int, owner: int) -> Diagnostic:
    program = model.program

    def placement(row: int) -> str:
        rows = program.locations
        if rows.address[row] == NONE:
            return "no address"
        text = f"address={rows.address[row]:#x}"
        for name, column in (("bank", rows.bank), ("partition", rows.partition)):
            if column[view] > 0 or column[owner] > 0:
                text += f" {name}={max(int(column[row]), 0)}"
        return text

    message = (
        f"view {model.location_name(view)} of core {program.location_core[view]} has {placement(view)}, but its "
        f"owner {model.location_name(owner)} of core {program.location_core[owner]} has {placement(owner)}"
    )
    labels = (location_label(program, view), location_label(program, owner))
    help_text = "run sync_shared_allocations after the addresses are final"
    entities = (model.location_entity(view), model.location_entity(owner))
    subject = Subject("placement of a view", model.function, locations=entities)
    return Diagnostic("view-mismatch", Severity.ERROR, message, labels, (), (help_text,), subject)


def check_placements(model: Model) -> list[Diagnostic]:
    """Partitions of different cores that overlap, and `over-capacity`."""
    program, rows = model.program, model.program.locations
    mine = model.locations
    own = mine[(rows.remote_name[mine] == NONE) & (rows.address[mine] != NONE)]
    found = []
    dram = own[(rows.space[own] <= Space.DRAM_SHARED) & (rows.size[own] > 0)]
    # Group by core: the hull of its own locations is its partition.
    hulls = []
    for core in range(model.cores):
        here = dram[program.location_core[dram] == core]
        if len(here):
            first = int(here[np.argmin(rows.address[here])])
            last = int(here[np.argmax(rows.address[here] + rows.size[here])])
            hulls.append((int(rows.address[first]), int(rows.address[last] + rows.size[last]), core, first, last))
    hulls.sort()
    joint = program.attrs.get("partitions") == "joint"  # one space: only lifetimes decide what may share bytes
    reach = hulls[0] if hulls else None
    for hull in hulls[1:]:
        assert reach is not None
        if hull[0] < reach[1] and not joint:
            message = (
                f"the partitions of core {reach[2]} ({reach[0]:#x}:{reach[1]:#x}) and core {hull[2]} "
                f"({hull[0]:#x}:{hull[1]:#x}) overlap"
            )
            labels = (location_label(program, hull[3]), location_label(program, reach[4]))
            subject = Subject("overlapping partitions", model.function, cores=(reach[2], hull[2]))
            found.append(Diagnostic("overlapping-storage", Severity.ERROR, message, labels, subject=subject))
        if hull[1] > reach[1]:
            reach = hull
    capacity = program.attrs.get("capacity")
    used = sum(end - begin for begin, end, *_ in hulls)
    if joint and hulls:
        used = max(hull[1] for hull in hulls) - hulls[0][0]
    if isinstance(capacity, int) and not isinstance(capacity, bool) and used > capacity:
        parts = ", ".join(f"core {core}: {end - begin}" for begin, end, core, *_ in sorted(hulls, key=lambda h: h[2]))
        message = f"the program occupies {used} bytes of DRAM, but its capacity is {capacity}"
        subject = Subject("capacity", model.function)
        notes = (f"bytes by core: {parts}",)
        found.append(Diagnostic("over-capacity", Severity.ERROR, message, (), notes, subject=subject))
    return found


def check_lifetimes(model: Model, order: Order, extents: Extents, schedule: Ids) -> list[Diagnostic]:
    """`overlapping-storage`: two owners share bytes while both are live."""
    program, mine, rows = model.program, model.locations, model.program.locations
    owners = model.owners()
    placed = (rows.address[mine] != NONE) & (owners[mine] == mine) & (rows.size[mine] > 0)
    if not placed.any():
        return []
    of_access = positions(mine, len(program.locations))[owners[model.location]]
    permanent = is_permanent(model)
    sequence = _sequence(of_access, schedule, placed, permanent)
    lifetimes = scan_lifetimes(of_access, model.queue[model.instruction], len(mine), len(model.queue_core))
    atoms = max(len(extents.first_key), 1)
    pairs = sweep.scan_storage(
        order,
        lifetimes,
        sequence,
        permanent,
        rows.kind[mine] != Kind.INTERNAL,
        extents.starts,
        extents.low,
        extents.high,
        sweep.bitmap_levels(atoms),
        atoms,
        _MAX_PAIRS,
    )
    total = int(pairs.total[0])
    found: list[Diagnostic] = []
    for first, second in zip(pairs.first[0, :total].tolist(), pairs.second[0, :total].tolist(), strict=False):
        if len(found) == _MAX_FINDINGS:
            break
        found.append(_overlap(model, extents, lifetimes, permanent, first, second))
    if total > len(found):
        notes = (*found[-1].notes, f"{total - len(found)} more pairs of locations overlap like this")
        last = found[-1]
        found[-1] = replace(last, notes=notes)
    return found


def is_permanent(model: Model) -> Bools:
    """Which of the function's locations are live from its start to its end, by their places in `model.locations`."""
    mine, rows = model.locations, model.program.locations
    found = (rows.kind[mine] != Kind.INTERNAL) & (rows.kind[mine] != Kind.OUTPUT)
    accessed = np.zeros(len(rows), bool)
    accessed[model.owners()[model.program.accesses.location]] = True
    for place in np.flatnonzero(rows.kind[mine] == Kind.OUTPUT).tolist():
        row = int(mine[place])
        found[place] = not accessed[row] or model.program.location_attrs(row).get("partial") is True
    return np.asarray(found)


def _sequence(of_access: Ids, schedule: Ids, placed: Bools, permanent: Bools) -> Ids:
    """Placed owners that are ever live, by their first access in the schedule; permanent ones come first."""
    never = len(schedule)
    first = np.full(len(placed), never, np.int64)
    # The last assignment to a place wins, so go through the schedule backwards.
    first[of_access[schedule[::-1]]] = np.arange(never - 1, -1, -1)
    first[permanent] = -1
    living = np.flatnonzero(placed & (first < never))
    return living[np.argsort(first[living], kind="stable")].astype(np.int32)


def _overlap(
    model: Model, extents: Extents, lifetimes: Lifetimes, permanent: Bools, first: int, second: int
) -> Diagnostic:
    program = model.program
    here, there = int(model.locations[first]), int(model.locations[second])
    address = program.locations.address
    low = max(int(address[here]), int(address[there]))
    high = min(int(address[row] + extents.storage.row[row]) for row in (here, there))
    where = f"bytes {low:#x}:{high:#x}" if high > low else "bytes"
    message = (
        f"{model.location_name(here)} and {model.location_name(there)} of core {program.location_core[there]} share "
        f"{where} while both are live"
    )
    notes = []
    for place, row in ((first, here), (second, there)):
        if permanent[place] or program.locations.kind[row] == Kind.OUTPUT:
            notes.append(why_live(model, row, permanent=bool(permanent[place])))
            continue
        rows = slice(int(lifetimes.starts[place]), int(lifetimes.starts[place + 1]))
        ends = (int(lifetimes.first[rows].min()), int(lifetimes.last[rows].max()))
        start, end = (int(model.instruction[access]) for access in ends)
        notes.append(
            f"{model.location_name(row)} is used from {model.name(start)} on core {model.core[start]} to "
            f"{model.name(end)} on core {model.core[end]}"
        )
    help_text = (
        "move one of them to other bytes, or order all accesses of one before all accesses of the other (with a "
        "dependence inside a core, a barrier between cores)"
    )
    labels = (location_label(program, there), location_label(program, here))
    subject = storage_subject(model, here, there)
    return Diagnostic("overlapping-storage", Severity.ERROR, message, labels, tuple(notes), (help_text,), subject)


def why_live(model: Model, row: int, *, permanent: bool) -> str:
    """Why a location that is not internal is live."""
    since = "in the whole function" if permanent else "from its first access to the end of the function"
    kind = Kind(int(model.program.locations.kind[row])).text
    return f"{model.location_name(row)} is kind={kind}: it is live {since}"


def storage_subject(model: Model, first: int, second: int) -> Subject:
    """Two locations that share bytes."""
    entities = (model.location_entity(first), model.location_entity(second))
    cores = tuple(sorted({each.core for each in entities}))
    return Subject("shared bytes", model.function, locations=entities, cores=cores)
