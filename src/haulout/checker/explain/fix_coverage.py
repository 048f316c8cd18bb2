"""Which of the unordered pairs a fix would order, by masks over all pairs that were kept: without a new check.

An edge orders what comes before its one end with what comes after its other. A barrier on every core orders what
stands before it on one core with what stands behind it on another. Advice that is verified does not need this; it
groups the pairs of programs that are too large to verify a fix.
"""

from __future__ import annotations

import numpy as np

from haulout.checker.explain.fixes import AddBarrier, AddDependence, Fix
from haulout.checker.model import Model
from haulout.checker.order.graph import Graph
from haulout.checker.order.happens_before import Order
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids


def orders(model: Model, order: Order, graph: Graph, first: Ids, second: Ids, fix: Fix) -> Bools:
    """Which pairs of accesses a fix orders, in one direction or the other."""
    return leads(model, order, graph, first, second, fix) | leads(model, order, graph, second, first, fix)


def leads(model: Model, order: Order, graph: Graph, first: Ids, second: Ids, fix: Fix) -> Bools:
    """Of which pairs a fix brings the first access before the second."""
    found = np.zeros(len(first), bool)
    ends = [_ends(model, edit) for edit in fix.edits if not isinstance(edit, AddBarrier)]
    if ends and all(NONE not in each for each in ends):
        # The edges of one fix lead from one to the next.
        found |= _before(order, graph, first, ends[0][0]) & _after(order, graph, second, ends[-1][1])
    for edit in fix.edits:
        if isinstance(edit, AddBarrier):
            found |= _stands_before(model, first, edit) & ~_stands_before(model, second, edit)
    return found


def _ends(model: Model, edit: object) -> tuple[int, int]:
    """The instructions of the model between which an edit makes an edge; NONE: not in it."""
    producer, consumer = edit.producer, edit.consumer  # type: ignore[attr-defined]
    if model.unrolled is None:
        return int(model.local[producer]), int(model.local[consumer])
    origin = model.unrolled.origin[model.rows]
    copies = [np.flatnonzero(origin == row) for row in (producer, consumer)]
    if not all(map(len, copies)):
        return NONE, NONE
    late = isinstance(edit, AddDependence) and edit.carried
    return int(copies[0][0]), int(copies[1][-1 if late else 0])


def _before(order: Order, graph: Graph, accesses: Ids, end: int) -> Bools:
    """Complete when an instruction is."""
    i = order.instruction[accesses]
    same = (order.core[i] == order.core[end]) & (order.clock[end, order.column[i]] >= i)
    found: Bools = same | np.any(order.down[order.node[accesses]] <= order.up[graph.leave[end]], axis=1)
    return found


def _after(order: Order, graph: Graph, accesses: Ids, end: int) -> Bools:
    """Not begun before an instruction is."""
    i = order.instruction[accesses]
    same = (order.core[i] == order.core[end]) & (order.clock[i, order.column[end]] >= end)
    found: Bools = same | np.any(order.down[graph.enter[end]] <= order.up[order.node[accesses]], axis=1)
    return found


def _stands_before(model: Model, accesses: Ids, barrier: AddBarrier) -> Bools:
    """In the list of its core, which is where a block stands in the text when there are several."""
    instruction = model.instruction[accesses]
    rows = model.rows[instruction]
    if model.unrolled is not None:
        branch = model.unrolled.origin[rows] == NONE
        last = np.searchsorted(model.unrolled.source.instructions.block, model.unrolled.block[rows], "right")
        rows = np.where(branch, last, model.unrolled.origin[rows])
    before = np.array([place.before for place in barrier.places], np.int64)
    found: Bools = rows < before[model.core[instruction]]
    return found
