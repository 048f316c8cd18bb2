"""Reads of unwritten bytes that do no harm: what is made of them reaches nothing that is seen.

Undefined bytes are followed from the reads to outputs, conditions, indices, collectives, and instructions whose
effect is not known: first through all blocks in any order and any number of times (`values/undefined_in_loops.py`),
and where they reach one so, in the order of the text (`taint.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from haulout.checker.columns import distinct, join_ranges
from haulout.checker.flow.pairs import Touches
from haulout.checker.flow.taint import InOrder
from haulout.checker.flow.text import Text
from haulout.checker.proofs.extents import Extents
from haulout.checker.values.byte_flow import Runs, ordered
from haulout.checker.values.harm import guilty
from haulout.checker.values.undefined_in_loops import AnyOrderFlow
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids, Ints

_MAX_RUNS = 1 << 18
"""Runs of the extents of a location from which the bytes of atoms are made."""


@dataclass(frozen=True, slots=True)
class Undefined:
    """A read of unwritten bytes."""

    access: int
    missing: Runs | None
    """Bytes of the owner; None: any that it reads."""


def harmful(text: Text, touches: Touches, order: Ids, reads: Sequence[Undefined]) -> list[int]:
    """Which of some reads may do harm, by their places in the list; `order` has all accesses as they are walked."""
    if not reads:
        return []
    model = touches.model
    assert model.unrolled is not None
    owners, program = model.owners(), model.unrolled.source
    flow = AnyOrderFlow(program, text.runs.flow.functions, owners)
    found: list[int] = []
    begins: list[_Begin] = []
    for at, read in enumerate(reads):
        origin = int(model.unrolled.access_origin[model.access[read.access]])
        if origin == NONE:
            found.append(at)  # a branch
            continue
        some = read.missing if read.missing is not None else flow.operands.extent(origin).runs
        begins.append((at, (int(owners[model.location[read.access]]), some)))
    left = guilty(begins, lambda some: flow.reach([begin for _, begin in some]) is not None, len(begins))
    if not left:
        return found
    # What may be seen in any order need not be in that of the text.
    taint = InOrder(text, touches, order, [reads[at].access for at, _ in left], flow.operands)
    seen = guilty(left, lambda some: taint.reaches({reads[at].access: begin[1] for at, begin in some}), len(left))
    return sorted([*found, *(at for at, _ in seen)])


_Begin = tuple[int, tuple[int, Runs]]
"""A read, by its place in the list, and the bytes of an owner."""


def bytes_of(extents: Extents, location: int, atoms: Ids) -> Runs | None:
    """The bytes of a location that some atoms are, or more; None: that takes too long.

    Bytes that the same extents cover are one atom; the set of extents over bytes is identified by the exclusive or of
    a random number for each, as `extents.py` does it. A location's own extents tell its bytes apart, or fewer do.
    """
    inside = np.zeros(len(extents.first_key) + 1, bool)
    inside[atoms] = True
    above = _meeting(extents, inside)
    size = extents.starts[above + 1] - extents.starts[above]
    ranges = join_ranges(extents.starts[above], size)
    inside[join_ranges(extents.low[ranges], extents.high[ranges] - extents.low[ranges])] = True
    used = _meeting(extents, inside)  # others that cut those
    if sum(extents.max_runs(each) for each in used.tolist()) > _MAX_RUNS:
        return None
    marks = np.random.default_rng(0).integers(1, 1 << 62, len(used))
    runs = [extents.runs(each) for each in used.tolist()]
    low, high = (np.concatenate(side) for side in zip(*runs, strict=True))
    mark = np.repeat(marks, [len(each[0]) for each in runs])
    edges = distinct(np.concatenate([low, high]))
    cover = _covers(np.searchsorted(edges, low), np.searchsorted(edges, high), mark, len(edges))
    size = extents.starts[used + 1] - extents.starts[used]
    ranges = join_ranges(extents.starts[used], size)
    low, high = (column[ranges].astype(np.int64) for column in (extents.low, extents.high))
    of_atom = _covers(low, high, np.repeat(marks, size), len(inside))
    wanted = np.flatnonzero(np.isin(cover[:-1], of_atom[atoms]) & (cover[:-1] != 0))
    return _of_owner(extents, location, edges[wanted], edges[wanted + 1])


def _meeting(extents: Extents, atoms: Bools) -> Ints:
    """The extents that have some of the atoms of a mask."""
    before = np.append(0, np.cumsum(atoms))
    hits = np.append(0, np.cumsum(before[extents.high] - before[extents.low]))
    return np.flatnonzero(hits[extents.starts[1:]] > hits[extents.starts[:-1]])


def _covers(first: Ints, end: Ints, mark: Ints, size: int) -> Ints:
    """The exclusive or of the marks over each of some places."""
    edge = np.zeros(size + 1, np.int64)
    np.bitwise_xor.at(edge, first, mark)
    np.bitwise_xor.at(edge, end, mark)
    return np.bitwise_xor.accumulate(edge)[:size]


def _of_owner(extents: Extents, location: int, low: Ints, high: Ints) -> Runs:
    """Keys as bytes of a location; those outside are left out."""
    storage = extents.storage
    base, row, pitch = (int(column[location]) for column in (storage.base, storage.row, storage.pitch))
    size = int(extents.program.locations.size[location])
    low, high = low - base, high - base
    if pitch:
        low, high = low // pitch * row + low % pitch, (high - 1) // pitch * row + (high - 1) % pitch + 1
    low, high = np.maximum(low, 0), np.minimum(high, size)
    kept = high > low
    return ordered(low[kept], high[kept])
