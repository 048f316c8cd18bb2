"""The state of one core between instructions.

    scalar, vector     accumulators of the engines: one float32 for each partition. After an instruction that leaves
                       the vector engine's in an unknown state they are NaN
    registers          scalar registers by number
    known, remarks     which accumulators are defined; what is said about values, `Remarks`
    loops, turns       the index of each loop whose trip count only the device knows, and how often it was asked
    log                what each instruction found in registers, `RegisterLog`
    written            bytes of a location of PSUM that a matrix multiplication has written since its allocation

Cores issue instructions in program order, with the values that registers have then; when the engines execute them is
another matter. The run in program order records these values, and the runs under other schedules take them.

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


_TURN, _LOADED = -1, -2
"""Numbers of values that are not expressions."""


class RegisterLog:
    """The values of registers in program order, by instruction, execution and expression.

    An engine executes its instructions in order, so the executions of one instruction are in program order under
    every schedule, and their number tells them apart.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[int, int, int], int] = {}
        self._executions: dict[int, int] = {}
        self.diverged: dict[int, tuple[int, float]] = {}
        """Row of a load -> what it loads in program order, and what it loaded first that differs."""

    def again(self) -> RegisterLog:
        """The same values for another run."""
        found = RegisterLog()
        found._values = self._values
        return found

    def begin(self, row: int) -> None:
        """An instruction executes once more."""
        self._executions[row] = self._executions.get(row, 0) + 1

    def value(self, row: int, number: int, find: Callable[[], int]) -> int:
        """The value of an expression; `number` tells those of one instruction apart."""
        key = row, self._executions.get(row, 0), number
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = find()
        return found

    def loaded(self, row: int, value: float) -> int:
        """What a register holds after a load that found a value. Raises `bad-input` in program order for NaN."""

        def whole() -> int:
            if not np.isfinite(value):
                bad_input(f"it loads {value} into a register; was it ever written?")
            return int(value)

        found = self.value(row, _LOADED, whole)
        if not np.isfinite(value) or found != int(value):
            self.diverged.setdefault(row, (found, value))
        return found


class Remarks:
    """What is to be said about values that instructions met: the first text for each row and kind (`remarks.py`)."""

    def __init__(self) -> None:
        self.texts: dict[tuple[int, str], str] = {}

    def add(self, row: int, kind: str, text: str) -> None:
        """Keep a text."""
        self.texts.setdefault((row, kind), text)


class CoreState:
    """Everything that a core keeps between instructions, apart from memory."""

    def __init__(self, log: RegisterLog | None = None, remarks: Remarks | None = None) -> None:
        self.log = RegisterLog() if log is None else log
        self.remarks = Remarks() if remarks is None else remarks
        self.known = {"scalar": np.zeros(PARTITIONS, np.bool_), "vector": np.zeros(PARTITIONS, np.bool_)}
        """Which accumulators of an engine an instruction has defined."""
        self.scalar: Array = np.full((PARTITIONS, 1), np.nan, np.float32)
        self.vector: Array = np.full((PARTITIONS, 1), np.nan, np.float32)
        self.registers: dict[int, int] = {}
        self.loops: dict[int, int] = {}
        self.turns: dict[int, int] = {}
        self.written: dict[int, Array] = {}
        self._turn_of: dict[int, int] = {}

    def flags(self, room: Room, row: int) -> Array:
        """One flag for each byte of a location of PSUM; new in each turn of the loop that allocates it. `row`: of the
        instruction that asks.
        """
        found = self.written.get(room.location)
        if found is None:
            found = self.written[room.location] = np.zeros(room.size, np.uint8)
        if room.loop is not None:
            loop = room.loop
            turn = self.log.value(row, _TURN, lambda: self.turns.get(loop, 0))
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
