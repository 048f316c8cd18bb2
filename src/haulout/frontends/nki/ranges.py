"""Declared ranges of indices, `idx=i32[64,1]{0:16}`: bounds of unknown contents.

A range belongs to a whole storage. It propagates through copies and through addition, subtraction and multiplication
with constants. Writes to parts of a tensor join their ranges. Any other instruction makes the range unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from haulout.frontends.nki.accessed import accessed
from haulout.frontends.nki.dtypes import ELEMENT_TYPES
from haulout.frontends.nki.storage import Buffer, Interval
from haulout.frontends.nki.tensor import Tensor

_COPIES = frozenset(
    {
        "dma_copy",
        "tensor_copy",
        "nc_stream_shuffle",
        "nc_transpose",
        "dma_transpose",
        "load",
        "store",
        "assign",
        "copy",
    }
)


_EXACT = {"float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}
"""Integers up to here are exact in a float type; in the others none is taken to be."""


def follow_range(name: str, given: Mapping[str, Any], writes: Sequence[Tensor]) -> None:
    """Update the ranges of what an instruction writes."""
    dst = given.get("dst")
    for tensor in writes:
        storage = tensor.storage
        found = _result(name, given) if tensor is dst and tensor.buffer is not Buffer.shared_hbm else None
        if found is not None and not _is_held(found, tensor, moved=name in _COPIES):
            found = None
        if found is None or storage.within is None or accessed(tensor).patterns == (None,):
            storage.within = found
        else:
            storage.within = _join(storage.within, found)
        if storage.within is not None and found is not None and tensor.is_indirect():
            storage.within = None


def _is_held(found: Interval, tensor: Tensor, *, moved: bool) -> bool:
    """Whether a view keeps such integers as they are: floats are exact up to a size."""
    most = _EXACT.get(tensor.dtype) if "float" in tensor.dtype else 1 << 31
    return (moved or _same_numbers(tensor)) and most is not None and -most <= found[0] and found[1] <= most + 1


def _join(one: Interval, other: Interval) -> Interval:
    """The least interval around both; one without numbers is nothing written yet."""
    if one[0] == one[1]:
        return other
    return min(one[0], other[0]), max(one[1], other[1])


def range_of(value: Any) -> Interval | None:
    """The range of an operand: of a tensor's storage, or a constant alone."""
    if isinstance(value, Tensor):
        if not _same_numbers(value):
            return None
        within = value.storage.within
        return within if within is not None and within[0] < within[1] else None
    if isinstance(value, int | float) and float(value).is_integer():
        return int(value), int(value) + 1
    return None


def _same_numbers(tensor: Tensor) -> bool:
    """Whether a view has the numbers of its storage: integers read as floats, or in parts, are others."""
    stored = tensor.storage.dtype
    return tensor.dtype == stored or (
        "int" in tensor.dtype and "int" in stored and tensor.itemsize == ELEMENT_TYPES[stored].bytes
    )


def _copied(source: Any, dst: Any) -> Interval | None:
    """The range behind a copy: of the bits, when both sides look at them as the same other type."""
    if not isinstance(source, Tensor) or not isinstance(dst, Tensor) or _same_numbers(source) != _same_numbers(dst):
        return None
    if _same_numbers(source):
        return range_of(source)
    same = source.dtype == dst.dtype and source.storage.dtype == dst.storage.dtype
    return (
        range_of(Tensor.of(source.storage))
        if same and source.itemsize == Tensor.of(source.storage).itemsize
        else None
    )


def _result(name: str, given: Mapping[str, Any]) -> Interval | None:
    if name in _COPIES:
        return _copied(given.get("src", given.get("data")), given.get("dst")) if not given.get("dst_rmw_op") else None
    if name == "iota":
        return _counted(given)
    if name in ("memset", "fill"):
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


def _counted(given: Mapping[str, Any]) -> Interval | None:
    """`iota`: the ends of offset + partition * channel_multiplier + what the pattern gives."""
    dst, pattern, offset = given.get("dst"), given.get("pattern"), given.get("offset") or 0
    if not isinstance(dst, Tensor) or not pattern:
        return None
    steps = [(given.get("channel_multiplier") or 0, dst.shape[0]), *((step, count) for step, count in pattern)]
    if not all(isinstance(each, int) for each in (offset, *(part for step in steps for part in step))):
        return None
    ends = [step * (count - 1) for step, count in steps]
    return offset + sum(min(end, 0) for end in ends), offset + sum(max(end, 0) for end in ends) + 1


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
