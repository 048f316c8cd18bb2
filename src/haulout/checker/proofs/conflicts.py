"""Every pair of accesses that touch a common byte, one of them a write, must be ordered: between cores and inside
one.

The bytes are those of the storage itself: after allocation two tensors that share an address conflict, before it two
accesses through the same owner. The sweep (`sweep.py`) finds the pairs; this file gives it its columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.happens_before import Order
from haulout.checker.proofs import sweep
from haulout.checker.proofs.extents import Regions
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids
from haulout.support.jit import compiled_if_large

MOST_PAIRS = 1 << 17
"""Pairs of each kind that are kept for the report; all are counted."""
THOROUGH = 1 << 16
"""A program that has bad pairs and no more accesses than this is swept again without forgetting anything."""


HAZARDS = ("write after write", "read after write", "write after read")
"""What two conflicting accesses are to each other."""


@dataclass(slots=True)
class Conflicts:
    """Bad pairs of one kind (`sweep.RACE`, ...): the first access came earlier in the schedule."""

    kind: int
    first: Ids
    second: Ids
    total: int


def find_conflicts(model: Model, order: Order, regions: Regions, events: Ids) -> list[Conflicts]:
    """The bad pairs of every kind, empty kinds left out."""
    touched = _touched(model, order, regions)
    atoms = max(len(regions.first_key), 1)
    slots = int(regions.slot.max(initial=NONE)) + 1
    levels = sweep.bitmap_levels(atoms)

    each = regions.of_access[events]
    work = int((np.diff(regions.starts) + np.diff(regions.meet_starts))[each].sum())

    def swept(forget: bool, most: int) -> sweep.Pairs:
        with compiled_if_large(work):
            return sweep.scan_conflicts(order, touched, events, levels, atoms, slots, forget, most)

    pairs = swept(True, MOST_PAIRS)
    if np.delete(pairs.total, sweep.COMMUTING).any() and len(events) <= THOROUGH:
        pairs = swept(False, MOST_PAIRS)
    found = []
    for kind, total in enumerate(pairs.total.tolist()):
        kept = min(total, MOST_PAIRS)
        if total and kind != sweep.COMMUTING:
            found.append(Conflicts(kind, pairs.first[kind, :kept], pairs.second[kind, :kept], total))
    return found


def _touched(model: Model, order: Order, regions: Regions) -> sweep.Touched:
    queues = len(model.queue_core)
    unsure = model.maybe | regions.unknown[regions.of_access]
    # A stream is a queue, or the part of it that is atomic in one way, and of these what is certain and what is not:
    # each part is in order too, and what is not certain does not hide what is.
    part = 2 * np.where(model.atomic > 0, 2 * model.atomic + model.fetches, 0) + unsure
    parts = int(part.max(initial=1)) + 1
    stream = model.queue[model.instruction] + np.int32(queues) * part
    used = np.flatnonzero(np.bincount(stream, minlength=parts * queues))
    dense = np.zeros(parts * queues, np.int32)
    dense[used] = np.arange(len(used))
    atomic_of = used // max(queues, 1) // 2
    return sweep.Touched(
        region=regions.of_access,
        write=model.write,
        owner=model.owners()[model.location],
        stream=dense[stream],
        stream_queue=(used % max(queues, 1)).astype(np.int32),
        stream_atomic=np.where(atomic_of > 1, atomic_of // 2, 0).astype(np.int32),
        stream_fetches=(atomic_of > 1) & (atomic_of % 2 == 1),
        unsure=unsure,
        starts=regions.starts,
        low=regions.low,
        high=regions.high,
        slot=regions.slot,
        meet_starts=regions.meet_starts,
        meets=regions.meets,
    )
