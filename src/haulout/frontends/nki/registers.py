"""Virtual registers and the loops that they bound.

The value of a register is known if it comes from a constant or from a tensor with known contents. Then loops run as
often as on the device. Otherwise the body is recorded once, as a loop of the program. With `trips` it is recorded
that many times in sequence instead, and a note reports it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

from haulout.frontends.nki import session
from haulout.frontends.nki.findings import kernel_place


class VirtualRegister:
    """A scalar on an engine; arithmetic gives another."""

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self.value = state
        self.turns: dict[tuple[str, int], int] = {}
        """How often `while` asked at each place."""
        self.open: dict[tuple[str, int], int] = {}
        """Loops that it began, by place."""
        self.constant = state
        """Its value where the kernel gave a number, whatever is known since."""
        self.source: tuple[Any, ...] | None = None
        """What gives its value on the device: `("register", N)` of an instruction that loads it, `("loop", N)` of the
        index of a loop, `(OPERATOR, LEFT, RIGHT)`; None: that is not known."""
        session.recorder().registers.append(self)

    def __repr__(self) -> str:
        return "a register" if self.value is None else f"a register that holds {self.value}"

    def __bool__(self) -> bool:
        """Whether a `while` goes on: as the value says, or once for the recording, or `trips` times in all."""
        if self.value is not None:
            return self.value != 0
        recorder, place = session.recorder(), kernel_place(2)
        if not linecache.getline(*place).lstrip().startswith("while"):
            recorder.note_register(place)
            return True
        if recorder.trips is None:
            number = self.open.pop(place, None)
            if number is not None:
                recorder.end_loop(number)
                return False
            self.open[place] = recorder.begin_loop(place, ("while", self, self))
            return True
        turn = self.turns.get(place, 0)
        self.turns[place] = turn + 1
        if turn == 0:
            recorder.note_loop(place)
        if turn < recorder.trips:
            return True
        del self.turns[place]
        return False

    def __index__(self) -> int:
        """The value as an integer; what is not known counts as 0 and is noted."""
        if self.value is None:
            session.recorder().note_register(kernel_place(2))
            return 0
        return self.value

    __int__ = __index__

    def _with(self, operator: str, left: Any, right: Any, result: int) -> VirtualRegister:
        known = not any(isinstance(each, VirtualRegister) and each.value is None for each in (left, right))
        made = VirtualRegister(result if known else None)
        sides = [each if isinstance(each, VirtualRegister) else int(each) for each in (left, right)]
        if not all(isinstance(each, int) or each.constant is not None for each in sides):
            made.constant, made.source = None, (operator, *sides)
        return made

    def __add__(self, other: Any) -> VirtualRegister:
        return self._with("add", self, other, _number(self) + _number(other))

    def __sub__(self, other: Any) -> VirtualRegister:
        return self._with("subtract", self, other, _number(self) - _number(other))

    def __rsub__(self, other: Any) -> VirtualRegister:
        return self._with("subtract", other, self, _number(other) - _number(self))

    def __mul__(self, other: Any) -> VirtualRegister:
        return self._with("multiply", self, other, _number(self) * _number(other))

    def loaded(self) -> int:
        """Its number, which an instruction that loads it gives a value on the device."""
        registers = session.recorder().registers
        number = next(at for at, each in enumerate(registers) if each is self)
        self.constant, self.source = None, ("register", number)
        return number

    def moved(self, value: Any) -> None:
        """It takes a number or the value of another register."""
        if isinstance(value, VirtualRegister):
            self.value, self.constant, self.source = value.value, value.constant, value.source
        else:
            self.value = self.constant = int(value)
            self.source = None
        if session.recorder().is_inside_loop():
            # The next iteration may read what this one has set, which no instruction records.
            self.constant = self.source = None

    __radd__ = __add__
    __rmul__ = __mul__


def _number(value: Any) -> int:
    if isinstance(value, VirtualRegister):
        return value.value or 0
    return int(value)


Bound = int | VirtualRegister


def dynamic_range(start: Bound, stop: Bound | None = None, step: int = 1) -> Iterator[Any]:
    """`nl.dynamic_range`: all iterations when the bounds are known; else the body once, with an unknown index."""
    first, last = (0, start) if stop is None else (start, stop)
    bounds = [bound.value if isinstance(bound, VirtualRegister) else int(bound) for bound in (first, last)]
    if bounds[0] is not None and bounds[1] is not None:
        yield from range(bounds[0], bounds[1], step)
        return
    recorder, place = session.recorder(), kernel_place(2)
    if recorder.trips is None:
        number = recorder.begin_loop(place, ("range", first, last, step))
        index = VirtualRegister(None)
        index.source = ("loop", number)
        try:
            yield index
        finally:
            recorder.end_loop(number)
        return
    recorder.note_loop(place)
    begin = bounds[0] if bounds[0] is not None else 0
    yield from range(begin, begin + recorder.trips * step, step)


def fori_loop(lower: Bound, upper: Bound, body_fun: Callable[[VirtualRegister], None], step: int = 1) -> None:
    """`nl.fori_loop`: the body with each index, or once with an unknown one."""
    for index in dynamic_range(lower, upper, step):
        body_fun(index if isinstance(index, VirtualRegister) else VirtualRegister(index))


def while_loop(init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]) -> None:
    """`nl.while_loop`: the body while the register that it returns is not zero; once when that is not known."""
    condition, turns = init, 0
    recorder, place = session.recorder(), kernel_place(2)
    while condition.value != 0:
        if condition.value is None and recorder.trips is None:
            number = recorder.begin_loop(place)
            following = body_fun(VirtualRegister(None))
            recorder.decide_loop(number, ("while", condition, following))
            recorder.end_loop(number)
            return
        if condition.value is None:
            recorder.note_loop(place)
            turns += 1
            if turns > (recorder.trips or 0):
                return
        condition = body_fun(condition)
