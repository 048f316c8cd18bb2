"""The attribute `args`: all arguments of an NKI instruction, so that its text defines what it computes.

One list for each parameter: `[NAME, VALUE...]`. A tensor is its operands (numbers, reads first), element type, shape
and strides in elements, and its index, if any. Two instructions with equal opcodes, equal `args` and equal input
bytes compute the same. An instruction with an argument that has no text form has no `args`. Only `args` has the order
of elements: the patterns of operands are sets of bytes (`byte_sets.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np

from haulout.frontends.nki.recorder import MeetingDetail, Record
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.attributes import AttrValue

_OURS = "haulout."


class _UnsaidError(Exception):
    """A value without a text that says all of it."""


def instruction_args(record: Record) -> dict[str, AttrValue]:
    """`args` of an instruction; a `sendrecv` has them only where it delivers in another order than it reads."""
    if isinstance(record.detail, MeetingDetail):
        return {} if record.detail.alike and not record.maybe else {"args": "reordered"}
    if record.given is None:
        return {}
    try:
        given = [(name, _value(value, record)) for name, value in record.given.items() if name != "name"]
    except _UnsaidError:
        return {}
    return {"args": [[name, *(value if isinstance(value, list) else [value])] for name, value in given]}


def _value(value: Any, record: Record) -> AttrValue:
    match value:
        case Tensor():
            return _tensor(value, record)
        case bool() | int() | float() | str():
            return value
        case None:
            return "none"
        case np.generic():
            return _value(value.item(), record)
        case list() | tuple():
            return [_value(each, record) for each in value]
        case Mapping():
            return [[_value(key, record), _value(each, record)] for key, each in value.items()]
        case enum.Enum():
            return str(value.name)
    name = getattr(value, "__name__", None)
    module = getattr(value, "__module__", None) or type(value).__module__
    if isinstance(name, str) and module.startswith(_OURS):
        return name
    if type(value).__module__.startswith(_OURS) and hasattr(value, "__dict__"):
        return [type(value).__name__, *([key, _value(each, record)] for key, each in vars(value).items())]
    raise _UnsaidError


def _tensor(tensor: Tensor, record: Record) -> list[AttrValue]:
    operands = [*record.reads, *record.writes]
    touched = [(tensor.storage.number, pattern) for pattern in tensor.bytes().patterns]
    found: list[AttrValue] = [
        [operands.index(each) for each in touched if each in operands],
        tensor.dtype,
        list(tensor.shape),
        list(tensor.strides),
    ]
    if tensor.indirect is not None:
        index = tensor.indirect.index
        if not isinstance(index, Tensor):
            raise _UnsaidError
        found.append([_tensor(index, record), tensor.indirect.vector, tensor.indirect.stride, tensor.indirect.extent])
    return found
