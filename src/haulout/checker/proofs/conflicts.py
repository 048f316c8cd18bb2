"""Conflicts: each pair of accesses of a common byte, one of them a write, must be ordered, between cores and inside
one.

The bytes are those of storage itself: after allocation two tensors that share an address conflict, before it two
accesses through the same owner. The sweep (`sweep.py`) finds the pairs; this file prepares its columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.happens_before import Order
from haulout.checker.proofs import sweep
from haulout.checker.proofs.extents import Extents
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids
from haulout.support.jit import compiled_if_large

MAX_PAIRS = 1 << 17
"""Pairs of each kind that are kept for the report; all are counted."""
MAX_SECOND_SWEEP = 1 << 16
"""A program with bad pairs and no more accesses than this is swept again with the whole history kept."""


HAZARDS = ("write after write", "read after write", "write after read")
"""The relation of two conflicting accesses."""


@dataclass(slots=True)
class Conflicts:
    """Bad pairs of one kind (`sweep.RACE`, ...): the first access came earlier in the schedule."""

    kind: int
    first: Ids
    second: Ids
    total: int


def find_conflicts(model: Model, order: Order, extents: Extents, schedule: Ids) -> list[Conflicts]:
    """The bad pairs of every kind that has some."""
    touched = _touched(model, order, extents)
    atoms = max(len(extents.first_key), 1)
    slots = int(extents.slot.max(initial=NONE)) + 1
    levels = sweep.bitmap_levels(atoms)

    each = extents.of_access[schedule]
    work = int((np.diff(extents.starts) + np.diff(extents.overlap_starts))[each].sum())

    def swept(forget: bool, limit: int) -> sweep.Pairs:
        with compiled_if_large(work):
            return sweep.scan_conflicts(order, touched, schedule, levels, atoms, slots, forget, limit)

    pairs = swept(True, MAX_PAIRS)
    if np.delete(pairs.total, sweep.COMMUTING).any() and len(schedule) <= MAX_SECOND_SWEEP:
        pairs = swept(False, MAX_PAIRS)
    found = []
    for kind, total in enumerate(pairs.total.tolist()):
        kept = min(total, MAX_PAIRS)
        if total and kind != sweep.COMMUTING:
            found.append(Conflicts(kind, pairs.first[kind, :kept], pairs.second[kind, :kept], total))
    return found


def _touched(model: Model, order: Order, extents: Extents) -> sweep.Touched:
    queues = len(model.queue_core)
    unsure = model.maybe | extents.unknown[extents.of_access]
    # A stream is the part of a queue with one kind of atomics (or none), split again into certain and uncertain
    # accesses. Each part is in order too, and an uncertain access does not hide a certain one.
    part = 2 * np.where(model.atomic > 0, 2 * model.atomic + model.fetches, 0) + unsure
    parts = int(part.max(initial=1)) + 1
    stream = model.queue[model.instruction] + np.int32(queues) * part
    used = np.flatnonzero(np.bincount(stream, minlength=parts * queues))
    dense = np.zeros(parts * queues, np.int32)
    dense[used] = np.arange(len(used))
    atomic_of = used // max(queues, 1) // 2
    return sweep.Touched(
        extent=extents.of_access,
        write=model.write,
        owner=model.owners()[model.location],
        stream=dense[stream],
        stream_queue=(used % max(queues, 1)).astype(np.int32),
        stream_atomic=np.where(atomic_of > 1, atomic_of // 2, 0).astype(np.int32),
        stream_fetches=(atomic_of > 1) & (atomic_of % 2 == 1),
        unsure=unsure,
        starts=extents.starts,
        low=extents.low,
        high=extents.high,
        slot=extents.slot,
        overlap_starts=extents.overlap_starts,
        overlaps=extents.overlaps,
    )
