"""The attribute `args`: all arguments of an NKI instruction, so that its text defines what it computes.

One list for each parameter: `[NAME, VALUE...]`. A tensor is its operands (numbers, reads first), element type, shape
and strides in elements, and its index, if any. Two instructions with equal opcodes, equal `args` and equal input
bytes compute the same. An instruction with an argument that has no text form has no `args`. Only `args` has the order
of elements: the patterns of operands are sets of bytes (`byte_sets.py`).

The simulator also needs where tensors begin, if their operands do not say so (`at`), and the arguments of
instructions that have no `args` because they read registers or are in two parts (`call`). Nothing else reads these.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from haulout.frontends.nki.accessed import accessed
from haulout.frontends.nki.recorder import LoopDetail, MeetingDetail, Operand, Record
from haulout.frontends.nki.registers import VirtualRegister
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.attributes import AttrValue

_OURS = "haulout."
REGISTER = "$"
"""How an expression of registers begins."""


class _UnsaidError(Exception):
    """A value without a text that says all of it."""


def instruction_args(record: Record) -> dict[str, AttrValue]:
    """`args` of an instruction, and `at`; a `sendrecv` has them only where it delivers in another order than it
    reads.
    """
    if isinstance(record.detail, MeetingDetail):
        if record.detail.alike and not record.maybe:
            # Both ends take the bytes in the order of their patterns, which is that of the elements or is said.
            return {} if all(_is_upwards(each) for each in _tensors(record.given)) else instruction_call(record)
        return {"args": "reordered"} | instruction_call(record)
    try:
        found = _written(record)
    except _UnsaidError:
        return instruction_call(record)
    return {} if found is None else {"args": found} | _where(record)


def instruction_call(record: Record) -> dict[str, AttrValue]:
    """`call` and `at`: what `args` would say, of an instruction whose result does not follow from that and from its
    input bytes alone, because it reads registers or is in two parts.
    """
    try:
        found = _written(record, registers=True)
    except _UnsaidError:
        return {}
    return {} if found is None else {"call": found} | _where(record)


def _written(record: Record, registers: bool = False) -> list[AttrValue] | None:
    if record.given is None:
        return None
    given = [(name, _value(value, record, registers)) for name, value in record.given.items() if name != "name"]
    return [[name, *(_listed(value))] for name, value in given]


def _listed(value: AttrValue) -> list[AttrValue]:
    """A list in place of its brackets, unless it is an expression."""
    return value if isinstance(value, list) and value[:1] != [REGISTER] else [value]


def _where(record: Record) -> dict[str, AttrValue]:
    """`at=[[OPERAND,OFFSET],...]`, for all tensors in the order in which `args` has them: an operand of the tensor's
    location, and its first element. Nothing where the operands of `args` say so.
    """
    tensors = [each for name, value in (record.given or {}).items() if name != "name" for each in _tensors(value)]
    operands = [*record.reads, *record.writes]
    if all(each.indirect is None and _touched(each)[0] in operands for each in tensors):
        return {}
    numbers = [number for number, _ in operands]
    return {
        "at": [
            [numbers.index(each.storage.number) if each.storage.number in numbers else -1, each.offset]
            for each in tensors
        ]
    }


def _tensors(value: Any) -> Iterator[Tensor]:
    """Tensors of a value, each before the one with its indices, in the order of `_value`."""
    match value:
        case Tensor():
            yield value
            if value.indirect is not None:
                yield from _tensors(value.indirect.index)
        case list() | tuple():
            for each in value:
                yield from _tensors(each)
        case Mapping():
            for key, each in value.items():
                yield from _tensors(key)
                yield from _tensors(each)
        case _ if type(value).__module__.startswith(_OURS) and hasattr(value, "__dict__"):
            for each in vars(value).values():
                yield from _tensors(each)


def _is_upwards(tensor: Tensor) -> bool:
    """Whether elements that follow each other lie one behind the other."""
    reach = 1
    for stride, count in reversed([each for each in zip(tensor.strides, tensor.shape, strict=True) if each[1] > 1]):
        if stride < reach:
            return False
        reach = stride * count
    return True


def _touched(tensor: Tensor) -> list[Operand]:
    return [(tensor.storage.number, pattern) for pattern in accessed(tensor).patterns] or [(-1, None)]


def _value(value: Any, record: Record, registers: bool = False) -> AttrValue:
    match value:
        case Tensor():
            return _tensor(value, record, registers)
        case bool() | int() | float() | str():
            return value
        case None:
            return "none"
        case np.generic():
            return _value(value.item(), record, registers)
        case list() | tuple():
            return [_value(each, record, registers) for each in value]
        case Mapping():
            return [[_value(key, record, registers), _value(each, record, registers)] for key, each in value.items()]
        case enum.Enum():
            return str(value.name)
        case VirtualRegister():
            if not registers:
                raise _UnsaidError
            return _expression(value)
        case np.ufunc():
            return value.__name__
    name = getattr(value, "__name__", None)
    module = getattr(value, "__module__", None) or type(value).__module__
    if isinstance(name, str) and module.startswith(_OURS):
        return name
    if type(value).__module__.startswith(_OURS) and hasattr(value, "__dict__"):
        return [type(value).__name__, *([key, _value(each, record, registers)] for key, each in vars(value).items())]
    raise _UnsaidError


def _expression(register: VirtualRegister) -> AttrValue:
    """A register's value as the simulator finds it: a number, or an expression (`haulout.sim.nki.registers`)."""
    if register.constant is not None:
        return register.constant
    match register.source:
        case ("register" | "loop" as kind, int() as number):
            return [REGISTER, kind, number]
        case (str() as operator, left, right):
            sides = [_expression(each) if isinstance(each, VirtualRegister) else each for each in (left, right)]
            return [REGISTER, operator, *sides]
    raise _UnsaidError


def decision(detail: LoopDetail) -> dict[str, AttrValue]:
    """`call` of what decides a loop; nothing where that is not known."""
    if detail.decides is None:
        return {}
    kind, first, second, *step = detail.decides
    try:
        sides = [_expression(each) if isinstance(each, VirtualRegister) else each for each in (first, second)]
    except _UnsaidError:
        return {}
    return {"call": [["dst", [0], "uint32", [1], [1]], [kind, detail.number, *sides, *step]]}


def _tensor(tensor: Tensor, record: Record, registers: bool) -> list[AttrValue]:
    operands = [*record.reads, *record.writes]
    found: list[AttrValue] = [
        [operands.index(each) for each in _touched(tensor) if each in operands],
        tensor.dtype,
        list(tensor.shape),
        list(tensor.strides),
    ]
    if tensor.indirect is not None:
        index = _value(tensor.indirect.index, record, registers)
        found.append([index, tensor.indirect.vector, tensor.indirect.stride, tensor.indirect.extent])
    return found
