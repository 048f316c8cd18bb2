"""Scalar registers, and the loops whose trip count only the device knows."""

from __future__ import annotations

from typing import Any

import numpy as np

from haulout.sim.nki.call import Call
from haulout.sim.nki.registers import operand
from haulout.sim.nki.types import from_f32
from haulout.support.diagnostics import bad_input


def register_load(call: Call) -> None:
    """A register takes an element of a tensor."""
    number = call.args.get("register")
    if not isinstance(number, int):
        bad_input("attribute `call`: `register` must be a number")
    found = call.place("src").get().ravel()[0]
    call.state.registers[number] = call.state.log.loaded(
        call.row, found.item() if found.dtype.kind in "iu" else float(found)
    )


def register_store(call: Call) -> None:
    """A tensor of one element takes the value of a register."""
    dst, value = call.place("dst"), call.number("value")
    dst.put(from_f32(np.full(dst.shape, value, np.int64), dst.name))


def loop(call: Call) -> None:
    """Decides whether the body runs once more: `range=[LOOP,START,STOP,STEP]`, or `while=[LOOP,FIRST,NEXT]`."""
    state, again = call.state, False
    match call.args:
        case {"range": [int() as number, start, stop, int() as step]}:
            state.turns[number] = state.turns.get(number, 0) + 1
            if number in state.loops:
                state.loops[number] += step
            else:
                state.loops[number] = _value(start, call)
            last = _value(stop, call)
            again = state.loops[number] < last if step > 0 else state.loops[number] > last
        case {"while": [int() as number, first, following]}:
            state.turns[number] = state.turns.get(number, 0) + 1
            again = _value(following if number in state.loops else first, call) != 0
            state.loops[number] = 1
        case _:
            bad_input("what decides this loop is not known")
    if not again:
        state.loops.pop(number, None)
    call.place("dst").put(np.array([again]))


def _value(value: Any, call: Call) -> int:
    if callable(value):
        return int(value())
    return operand(value, call.state)()


def nothing(call: Call) -> None:
    """It only has its place in the order."""
