"""The state of one core between instructions.

    scalar, vector     accumulators of the engines: one float32 for each partition. After an instruction that leaves
                       the vector engine's in an unknown state they are NaN
    registers          scalar registers by number
    loops, turns       the index of each loop whose trip count only the device knows, and how often it was asked
    written            bytes of a location of PSUM that a matrix multiplication has written since its allocation

An expression of registers is `["$",register,N]`, `["$",loop,N]` or `["$",OPERATOR,LEFT,RIGHT]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from haulout.sim.nki.places import Room
from haulout.sim.numerics.types import Array
from haulout.support.diagnostics import bad_input

PARTITIONS = 128
IDENTITY = {
    "add": 0.0,
    "subtract": 0.0,
    "multiply": 1.0,
    "max": -np.inf,
    "maximum": -np.inf,
    "min": np.inf,
    "minimum": np.inf,
    "abs_max": 0.0,
    "abs_min": np.inf,
}
"""What each reduction begins with."""
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
}


class CoreState:
    """Everything that a core keeps between instructions, apart from memory."""

    def __init__(self) -> None:
        self.scalar: Array = np.full((PARTITIONS, 1), np.nan, np.float32)
        self.vector: Array = np.full((PARTITIONS, 1), np.nan, np.float32)
        self.registers: dict[int, int] = {}
        self.loops: dict[int, int] = {}
        self.turns: dict[int, int] = {}
        self.written: dict[int, Array] = {}
        self._turn_of: dict[int, int] = {}

    def flags(self, room: Room) -> Array:
        """One flag for each byte of a location of PSUM; new in each turn of the loop that allocates it."""
        found = self.written.get(room.location)
        if found is None:
            found = self.written[room.location] = np.zeros(room.size, np.uint8)
        if room.loop is not None:
            turn = self.turns.get(room.loop, 0)
            if self._turn_of.get(room.location) != turn:
                self._turn_of[room.location] = turn
                found[:] = 0
        return found


def expression(value: list[Any], state: CoreState) -> Callable[[], int]:
    """The function that gives the value of an expression."""
    match value:
        case ["$", "register", int() as number]:

            def register() -> int:
                if number not in state.registers:
                    bad_input(f"register {number} is read before it has a value")
                return state.registers[number]

            return register
        case ["$", "loop", int() as number]:
            return lambda: state.loops[number]
        case ["$", str() as name, left, right] if name in _ARITHMETIC:
            function, one, other = _ARITHMETIC[name], operand(left, state), operand(right, state)
            return lambda: function(one(), other())
    bad_input(f"an expression of registers must be a register, a loop or a sum of them, found {value!r}")


def operand(value: Any, state: CoreState) -> Callable[[], int]:
    """An integer or an expression, as a function."""
    if isinstance(value, int):
        return lambda: value
    if isinstance(value, list):
        return expression(value, state)
    bad_input(f"expected an integer or an expression of registers, found {value!r}")
