"""How many of the unordered pairs a fix would order: the masks are over all pairs that were kept, as columns.

A barrier on every core orders what stands before it on one core with what stands behind it on another. An edge orders
what comes before its one end with what comes after its other; one to or from a barrier does so through the barrier.
"""

from __future__ import annotations

from dataclasses import dataclass

from haulout.check.conflicts import Conflicts
from haulout.check.model import Model
from haulout.check.order import Order
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids


@dataclass(frozen=True, slots=True)
class Fence:
    """A barrier of all engines and cores behind one instruction and before another, of a different core."""

    behind: int
    before: int


@dataclass(frozen=True, slots=True)
class Edge:
    """One instruction waits for another, of the same core."""

    producer: int
    consumer: int


@dataclass(frozen=True, slots=True)
class EdgeIn:
    """A barrier (line, index) waits for an instruction; `consumer`, unless it is NONE, waits for the barrier."""

    producer: int
    line: int
    index: int
    consumer: int = NONE


@dataclass(frozen=True, slots=True)
class EdgeOut:
    """An instruction waits for a barrier (line, index)."""

    line: int
    index: int
    consumer: int


Cut = Fence | Edge | EdgeIn | EdgeOut


def count_cut(model: Model, order: Order, conflicts: Conflicts, cut: Cut) -> int:
    """How many of the kept pairs a fix orders, in one direction or the other."""
    first, second = conflicts.first, conflicts.second
    ordered = _cuts(model, order, first, second, cut) | _cuts(model, order, second, first, cut)
    return int(ordered.sum())


def _cuts(model: Model, order: Order, first: Ids, second: Ids, cut: Cut) -> Bools:
    i, j = order.instruction[first], order.instruction[second]
    match cut:
        case Fence(behind, before):
            return _stands_before(model, i, behind, before) & _stands_behind(model, j, behind, before)
        case Edge(producer, consumer):
            return _comes_before(order, i, producer) & _comes_after(order, j, consumer)
        case EdgeIn(producer, line, index, consumer):
            after = order.up[order.node[second], line] >= index
            if consumer != NONE:
                after |= _comes_after(order, j, consumer)
            reached: Bools = _comes_before(order, i, producer) & after
            return reached
        case EdgeOut(line, index, consumer):
            left: Bools = (order.down[order.node[first], line] <= index) & _comes_after(order, j, consumer)
            return left


def _comes_before(order: Order, instructions: Ids, end: int) -> Bools:
    """Complete when `end` is, as far as its own core is concerned."""
    same = order.core[instructions] == order.core[end]
    found: Bools = same & (order.clock[end, order.column[instructions]] >= instructions)
    return found


def _comes_after(order: Order, instructions: Ids, end: int) -> Bools:
    same = order.core[instructions] == order.core[end]
    found: Bools = same & (order.clock[instructions, order.column[end]] >= end)
    return found


def _stands_before(model: Model, instructions: Ids, behind: int, before: int) -> Bools:
    """By list order on the two cores, on others by time, where it is known."""
    core, time = model.core[instructions], model.time
    found: Bools = (core == model.core[behind]) & (instructions <= behind)
    found |= (core == model.core[before]) & (instructions < before)
    found |= _elsewhere(model, core, behind, before) & (time[instructions] <= time[behind])
    return found


def _stands_behind(model: Model, instructions: Ids, behind: int, before: int) -> Bools:
    core, time = model.core[instructions], model.time
    found: Bools = (core == model.core[behind]) & (instructions > behind)
    found |= (core == model.core[before]) & (instructions >= before)
    found |= _elsewhere(model, core, behind, before) & (time[instructions] >= time[before])
    return found


def _elsewhere(model: Model, core: Ids, behind: int, before: int) -> Bools:
    """Other cores than the two, if there is a common time by which the barrier can be placed on them."""
    timed = NONE < int(model.time[behind]) < int(model.time[before])
    found: Bools = (core != model.core[behind]) & (core != model.core[before])
    return found & timed
