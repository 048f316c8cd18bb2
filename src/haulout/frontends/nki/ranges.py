"""Declared ranges of indices, `idx=i32[64,1]{0:16}`: where contents are not known, what they lie between may be.

A range belongs to a whole storage. It passes through copies and through addition, subtraction and multiplication with
constants, is joined where a tensor is written piece by piece, and is gone after anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from haulout.frontends.nki.storage import Buffer, Interval
from haulout.frontends.nki.tensor import Tensor

_COPIES = frozenset({"dma_copy", "tensor_copy", "nc_stream_shuffle", "nc_transpose", "dma_transpose"})


def follow_range(name: str, given: Mapping[str, Any], writes: Sequence[Tensor]) -> None:
    """Update the ranges of what an instruction writes."""
    dst = given.get("dst")
    for tensor in writes:
        storage = tensor.storage
        found = _result(name, given) if tensor is dst and tensor.buffer is not Buffer.shared_hbm else None
        if found is None or storage.within is None or tensor.bytes().patterns == (None,):
            storage.within = found
        else:
            storage.within = _join(storage.within, found)
        if storage.within is not None and found is not None and tensor.is_indirect():
            storage.within = None


def _join(one: Interval, other: Interval) -> Interval:
    """The least interval around both; one without numbers is nothing written yet."""
    if one[0] == one[1]:
        return other
    return min(one[0], other[0]), max(one[1], other[1])


def range_of(value: Any) -> Interval | None:
    """The range of an operand: of a tensor's storage, or a constant alone."""
    if isinstance(value, Tensor):
        within = value.storage.within
        return within if within is not None and within[0] < within[1] else None
    if isinstance(value, int | float) and float(value).is_integer():
        return int(value), int(value) + 1
    return None


def _result(name: str, given: Mapping[str, Any]) -> Interval | None:
    if name in _COPIES:
        return range_of(given.get("src", given.get("data"))) if given.get("dst_rmw_op") is None else None
    if name == "memset":
        return range_of(given.get("value"))
    if name != "tensor_scalar":
        return None
    found = range_of(given.get("data"))
    for at in ("0", "1"):
        op = given.get(f"op{at}")
        if found is None or op is None:
            break
        other = range_of(given.get(f"operand{at}"))
        if other is None:
            return None
        found = _combine(str(getattr(op, "__name__", op)), found, other, bool(given.get(f"reverse{at}")))
    return found


def _combine(op: str, one: Interval, other: Interval, turned: bool) -> Interval | None:
    left, right = (other, one) if turned else (one, other)
    ends = [(a, b) for a in (left[0], left[1] - 1) for b in (right[0], right[1] - 1)]
    match op:
        case "add":
            values = [a + b for a, b in ends]
        case "subtract":
            values = [a - b for a, b in ends]
        case "multiply":
            values = [a * b for a, b in ends]
        case "maximum":
            values = [max(a, b) for a, b in ends]
        case "minimum":
            values = [min(a, b) for a, b in ends]
        case _:
            return None
    return min(values), max(values) + 1
