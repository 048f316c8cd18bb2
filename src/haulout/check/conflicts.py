"""Every pair of accesses that touch a common byte, one of them a write, must be ordered: between cores and inside
one.

The bytes are those of the storage itself: after allocation two tensors that share an address conflict, before it two
accesses through the same owner. The sweep (`sweep.py`) finds the pairs; this file gives it its columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.check import sweep
from haulout.check.model import Model
from haulout.check.order import Order
from haulout.check.regions import Regions
from haulout.ir.attributes import parse_attrs
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids
from haulout.support.jit import compiled_if_large

MOST_PAIRS = 1 << 17
"""Pairs of each kind that are kept for the report; all are counted."""
THOROUGH = 1 << 16
"""A program that has bad pairs and no more accesses than this is swept again without forgetting anything."""


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
    if pairs.total.any() and len(events) <= THOROUGH:
        pairs = swept(False, MOST_PAIRS)
    found = []
    for kind, total in enumerate(pairs.total.tolist()):
        kept = min(total, MOST_PAIRS)
        if total:
            found.append(Conflicts(kind, pairs.first[kind, :kept], pairs.second[kind, :kept], total))
    return found


def _touched(model: Model, order: Order, regions: Regions) -> sweep.Touched:
    queues = len(model.queue_core)
    zero = _fills_zero(model)[model.instruction] & model.write
    # A stream is a queue, or the part of it that fills with zeros: each part is in order too.
    stream = model.queue[model.instruction] + np.int32(queues) * zero
    used = np.flatnonzero(np.bincount(stream, minlength=2 * queues))
    dense = np.zeros(2 * queues, np.int32)
    dense[used] = np.arange(len(used))
    return sweep.Touched(
        region=regions.of_access,
        write=model.write,
        owner=model.owners()[model.location],
        stream=dense[stream],
        stream_queue=(used % max(queues, 1)).astype(np.int32),
        stream_fill=used >= queues,
        unknown=regions.unknown,
        starts=regions.starts,
        low=regions.low,
        high=regions.high,
        slot=regions.slot,
        meet_starts=regions.meet_starts,
        meets=regions.meets,
    )


def _fills_zero(model: Model) -> Bools:
    """Instructions that write nothing but zero bytes, whatever the place: two such writes do each other no harm."""
    program = model.program
    instructions = program.instructions.take(model.rows)
    memset = np.flatnonzero(instructions.opcode == program.strings.find("memset"))
    zero = np.zeros(len(instructions), bool)
    texts, which = np.unique(instructions.attrs[memset], return_inverse=True)
    values = [parse_attrs(program.strings[text]).get("value") if text != NONE else None for text in texts.tolist()]
    is_zero = np.array([type(value) is int and value == 0 for value in values], bool)
    zero[memset] = is_zero[which] if len(memset) else False
    return zero
