"""The arguments of one instruction, read from its attributes `args` (or `call`) and `at`.

    args=[[PARAMETER,VALUE...],...]     a tensor: [OPERANDS],TYPE,[SHAPE],[STRIDES](,[INDEX,VECTOR,STRIDE,EXTENT])
    call=...                            the same, where `args` would not define the result: with scalar registers, or
                                        of an instruction that is in two parts
    at=[[OPERAND,OFFSET],...]           where the tensors are, in the order of `args`: an operand of their location,
                                        and their first element. Without it, the pattern of their operand says so

The rest of an instruction's names are operators, modes and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from haulout.ir.attributes import AttrValue, int_list
from haulout.sim.nki.places import Moved, Place
from haulout.sim.nki.registers import CoreState, expression
from haulout.support.diagnostics import bad_input

MakePlace = Callable[[int, "Layout", "int | None", "Moved | None"], "Place | None"]
"""A tensor from the number of an operand, its layout, its offset (None: that of the operand), and what moves it; None
for one that the instruction does not touch.
"""


class Layout(NamedTuple):
    """What `args` says of a tensor."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Call:
    """One instruction: its arguments by parameter, the state of its core, and its row."""

    __slots__ = ("args", "name", "row", "state")

    def __init__(self, name: str, args: dict[str, Any], state: CoreState, row: int) -> None:
        self.name, self.args, self.state, self.row = name, args, state, row

    def place(self, parameter: str) -> Place:
        """A tensor that must be given."""
        found = self.args.get(parameter)
        if not isinstance(found, Place):
            bad_input(f"`{parameter}` must be a tensor, found {found!r}")
        return found

    def has(self, parameter: str) -> bool:
        """Whether an argument is given and not None."""
        return self.args.get(parameter) is not None

    def places(self, parameter: str) -> list[Place]:
        """Tensors of a list, or one alone."""
        found = self.args.get(parameter)
        listed = found if isinstance(found, list) else [found]
        return [each for each in listed if isinstance(each, Place)]

    def every_place(self) -> list[Place]:
        """All tensors, with those that hold indices."""
        found = list(_all_places(self.args.values()))
        return found + [each.moved.index for each in found if each.moved and isinstance(each.moved.index, Place)]

    def word(self, parameter: str, default: str = "") -> str:
        """The name of an operator or mode."""
        found = self.args.get(parameter)
        return default if found is None else str(found)

    def flag(self, parameter: str) -> bool:
        """A Boolean that is False when it is not given."""
        return bool(self.args.get(parameter))

    def number(self, parameter: str, default: float = 0) -> Any:
        """A number, or that of a scalar register."""
        found = self.args.get(parameter)
        if found is None:
            return default
        if callable(found):
            return found()
        if not isinstance(found, int | float):
            bad_input(f"`{parameter}` must be a number, found {found!r}")
        return found

    def numbers(self, parameter: str) -> list[int]:
        """A list of integers, or one alone."""
        found = self.args.get(parameter)
        listed = found if isinstance(found, list) else [] if found is None else [found]
        if not all(isinstance(each, int) for each in listed):
            bad_input(f"`{parameter}` must be integers, found {found!r}")
        return listed

    def operand(self, parameter: str, default: float = 0.0) -> Any:
        """A float32 scalar, or the float32 column of a tensor with one element in each partition."""
        found = self.args.get(parameter)
        if isinstance(found, Place):
            return found.f32()
        return np.float32(self.number(parameter, default))

    def pattern(self, parameter: str = "pattern") -> list[tuple[int, int]]:
        """`[[step, count], ...]`."""
        found = self.args.get(parameter)
        if isinstance(found, list) and int_list(found) is not None:
            found = [found]  # a list of one pair
        pairs = [int_list(each) for each in found] if isinstance(found, list) else [None]
        if any(each is None or len(each) != 2 for each in pairs):
            bad_input(f"`{parameter}` must be [[step, count], ...], found {found!r}")
        return [(each[0], each[1]) for each in pairs if each is not None]


def read_call(name: str, value: AttrValue, at: AttrValue | None, make: MakePlace, state: CoreState, row: int) -> Call:
    """The arguments that an attribute gives. Raises `bad-input` where it is malformed."""
    if not isinstance(value, list):
        bad_input(f"attribute `args`: expected [[PARAMETER,VALUE...],...], found {value!r}")
    reader = _Reader(make, state, None if at is None else _pairs(at), row, count())
    args: dict[str, Any] = {}
    for each in value:
        if not isinstance(each, list) or not each or not isinstance(each[0], str):
            bad_input(f"attribute `args`: expected [PARAMETER,VALUE...], found {each!r}")
        given = each[1:]
        args[each[0]] = reader.read(given[0] if len(given) == 1 else given)
    if args.get("oob_mode") == "skip":
        for found in _all_places(args.values()):
            found.skips = True
    return Call(name, args, state, row)


class _Reader(NamedTuple):
    make: MakePlace
    state: CoreState
    places: Iterator[tuple[int, int]] | None
    row: int
    numbers: Iterator[int]
    """Of expressions."""

    def read(self, value: AttrValue) -> Any:
        if value == "none":
            return None
        if not isinstance(value, list):
            return value
        if value and value[0] == "$":
            return partial(self.state.log.value, self.row, next(self.numbers), expression(value, self.state))
        found = self._tensor(value)
        return [self.read(each) for each in value] if found is None else found

    def _tensor(self, value: list[AttrValue]) -> Place | None:
        if len(value) not in (4, 5) or not isinstance(value[1], str):
            return None
        operands, shape, strides = (int_list(value[at]) for at in (0, 2, 3))
        if operands is None or shape is None or strides is None or len(shape) != len(strides):
            return None
        operand, offset = (operands[0] if operands else -1), None
        if self.places is not None:
            operand, offset = next(self.places, (-1, 0))
        moved = None
        if len(value) == 5:
            match value[4]:
                case [index, bool() as vector, int() as stride, int()]:
                    moved = Moved(self.read(index), vector, stride)
                case _:
                    bad_input(f"attribute `args`: expected [INDEX,VECTOR,STRIDE,EXTENT], found {value[4]!r}")
        return self.make(operand, Layout(value[1], tuple(shape), tuple(strides)), offset, moved)


def _pairs(at: AttrValue) -> Iterator[tuple[int, int]]:
    pairs = [int_list(each) for each in at] if isinstance(at, list) else [None]
    if any(each is None or len(each) != 2 for each in pairs):
        bad_input(f"attribute `at`: expected [[OPERAND,OFFSET],...], found {at!r}")
    return iter([(each[0], each[1]) for each in pairs if each is not None])


def _all_places(values: Any) -> Iterator[Place]:
    for each in values:
        if isinstance(each, Place):
            yield each
        elif isinstance(each, list):
            yield from _all_places(each)
