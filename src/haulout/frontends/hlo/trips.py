"""Trip counts of counted loops.

A counted loop has this form: the condition is one comparison of a carried integer with a constant, the integer starts
at a constant, and the body adds a constant to it or subtracts one. The trip count of any other loop is unknown, and
so is that of a loop whose integer would overflow before the comparison fails.
"""

from __future__ import annotations

from typing import NamedTuple

from haulout.frontends.hlo.opcodes import HOLDS, MIRRORED
from haulout.frontends.hlo.values import Array, Carried, Loop, Operation, View
from haulout.ir.dtypes import NUMPY


class Counter(NamedTuple):
    """The integer of a counted loop."""

    state: Array
    start: int
    step: int
    trips: int
    """Times that the body runs."""


def trip_count(loop: Loop) -> int | None:
    """Times that the body runs; None when it is not known."""
    counter = counter_of(loop)
    return None if counter is None else counter.trips


def counter_of(loop: Loop) -> Counter | None:
    """The counter of a loop; None where it has none, or where the trip count is not known."""
    compare = loop.condition.array.producer
    if not isinstance(compare, Operation) or compare.opcode != "compare" or len(compare.operands) != 2:
        return None
    written = compare.instruction.attributes.get("direction")
    direction = written.text if written is not None else ""
    if direction not in HOLDS:
        return None
    carried = {each.state: each for each in loop.carried}
    left, right = compare.operands
    if right.array in carried:
        left, right, direction = right, left, MIRRORED[direction]
    counter = carried.get(left.array)
    if counter is None or left.shape.dtype != counter.state.shape.dtype:
        return None
    start, step, limit = _constant(counter.init), _step(counter), _constant(right)
    if start is None or step is None or limit is None:
        return None
    trips = _count(start, step, limit, direction)
    if trips is None or not _fits(start + trips * step, left.shape.dtype):
        return None
    return Counter(counter.state, start, step, trips)


def _count(start: int, step: int, limit: int, direction: str) -> int | None:
    """The smallest k for which `start + k * step DIRECTION limit` is false; None: there is none without wrapping."""
    if not HOLDS[direction](start, limit):
        return 0
    match direction:
        case "EQ":
            return 1 if step else None
        case "NE":
            meets = step != 0 and (limit - start) % step == 0 and (limit > start) == (step > 0)
            return (limit - start) // step if meets else None
        case "GT" | "GE":
            start, step, limit = -start, -step, -limit
    if step <= 0:
        return None
    first_false = limit + 1 if direction in ("LE", "GE") else limit
    return -((start - first_false) // step)


def _fits(value: int, dtype: str) -> bool:
    bits = 8 * NUMPY[dtype].itemsize
    return 0 <= value < 1 << bits if dtype[0] == "u" else -(1 << bits - 1) <= value < 1 << bits - 1


def _step(counter: Carried) -> int | None:
    """What an iteration adds."""
    update = counter.new.array.producer
    if not isinstance(update, Operation) or len(update.operands) != 2:
        return None
    first, second = update.operands
    match update.opcode:
        case "add" if first.array is counter.state:
            return _constant(second)
        case "add" if second.array is counter.state:
            return _constant(first)
        case "subtract" if first.array is counter.state:
            amount = _constant(second)
            return None if amount is None else -amount
    return None


def _constant(view: View) -> int | None:
    """The value of an integer constant of one element."""
    array: Array = view.array
    literal = array.source.literal
    if array.producer is not None or literal is None or literal.size != 1 or view.shape.dtype != array.shape.dtype:
        return None
    return int(literal.reshape(-1)[0]) if literal.dtype.kind in "iu" else None
