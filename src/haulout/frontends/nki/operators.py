"""`nl.add` and the like: named in instructions, or called on tensors, which gives a new tensor in SBUF.

nl.add(a, b, dtype=nl.float32)    element by element, with NumPy's broadcasting; a mask cuts operands and result
nl.max(a, axis=1)                 over axes; the partition and one more axis stay
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from haulout.frontends.nki import session
from haulout.frontends.nki.dtypes import nki_name
from haulout.frontends.nki.findings import kernel_place, reject
from haulout.frontends.nki.index_arrays import mask_box, masked
from haulout.frontends.nki.storage import Buffer
from haulout.ir.enums import Engine

if TYPE_CHECKING:
    from haulout.frontends.nki.tensor import Tensor

_SCALAR: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": max,
    "minimum": min,
    "max": max,
    "min": min,
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "square": lambda x: x * x,
    "power": lambda x, y: x**y,
    "negative": lambda x: -x,
}
REDUCTIONS = frozenset({"max", "min", "sum", "mean", "var", "prod", "all", "any"})
"""Operators that reduce axes when they are called on a tensor."""


class Operator:
    """An operator by its name in `nki.language`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return f"nl.{self.__name__}"

    def __call__(self, *operands: Any, **options: Any) -> Any:
        """The result on numbers; on tensors, an instruction that is recorded."""
        tensors = [each for each in operands if hasattr(each, "storage")]
        if not tensors:
            if self.__name__ not in _SCALAR:
                reject(f"nl.{self.__name__} takes tensors, found {operands!r}")
            return _SCALAR[self.__name__](*operands)
        if self.__name__ in REDUCTIONS:
            axis = options.get("axis", operands[1] if len(operands) > 1 else None)
            return self._reduce(tensors[0], axis, options)
        shape = tensors[0].shape
        for other in tensors[1:]:
            shape = broadcast_shape(shape, other.shape)
        given: dict[str, Any] = {"op": self}
        given |= {"src": operands[0]} if len(operands) == 1 else {"operands": operands}
        return record_tile(self.__name__, shape, tensors, given, options)

    def _reduce(self, tensor: Tensor, axis: Any, options: Mapping[str, Any]) -> Tensor:
        if axis is None:
            reject(f"nl.{self.__name__} needs `axis`")
        shape = reduced_shape(tensor.shape, axis, keepdims=bool(options.get("keepdims")))
        given = {"op": self, "src": tensor, "axis": axis}
        return record_tile(self.__name__, shape, [tensor], given, options, rank=tensor.ndim)

    def into(self, dst: Tensor, *operands: Any) -> Tensor:
        """The result in a tensor that is there: `x += y`."""
        tensors = [each for each in operands if hasattr(each, "storage")]
        given = {"dst": dst, "op": self, "operands": operands}
        session.recorder().add(f"nki.{self.__name__}", Engine.VECTOR, tensors, [dst], kernel_place(2), None, given)
        return dst


def record_tile(
    name: str,
    shape: tuple[int, ...],
    reads: list[Tensor],
    given: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    rank: int | None = None,
    buffer: Buffer = Buffer.sbuf,
    engine: Engine = Engine.VECTOR,
) -> Tensor:
    """Record a function of `nki.language` that returns a tile.

    `options`: `dtype` and `mask` as the kernel gives them. `rank`: axes of the operands if the result has others;
    then a mask may only cut the first.
    """
    recorder, place = session.recorder(), kernel_place(2)
    dtype = reads[0].dtype
    if (wanted := options.get("dtype")) is not None:
        dtype = nki_name(wanted) or dtype
    result: Tensor = recorder.allocate(shape, dtype, buffer, name=f"{name}_result", place=place)
    written, mask = result, options.get("mask")
    if mask is not None and mask is not True:
        box = mask_box(mask)
        if box is None:
            return result
        cuts = {id(each): masked(each, mask, box) for each in reads}
        reads = [cuts[id(each)] for each in reads]
        given = {key: _replaced(value, cuts) for key, value in given.items()}
        # The result of a reduction has the first axis of its operand only.
        if rank is None or len(shape) == rank:
            written = masked(result, mask, box)
        else:
            written = result.cut((masked_rows(mask, box, result), *((0, count) for count in shape[1:])))
    recorder.add(f"nki.{name}", engine, reads, [written], place, None, {"dst": written, **given})
    return result


def masked_rows(mask: Any, box: tuple[tuple[int, int], ...], result: Tensor) -> tuple[int, int]:
    """The partitions of a result that a mask keeps."""
    return box[0] if mask.shape[0] == result.shape[0] else (0, result.shape[0])


def _replaced(value: Any, cuts: Mapping[int, Tensor]) -> Any:
    if isinstance(value, tuple):
        return tuple(cuts.get(id(each), each) for each in value)
    return cuts.get(id(value), value)


def broadcast_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcasting of two shapes; `kernel-error` if they do not agree."""
    length = max(len(first), len(second))
    one = (1,) * (length - len(first)) + first
    other = (1,) * (length - len(second)) + second
    if any(a != b and 1 not in (a, b) for a, b in zip(one, other, strict=True)):
        reject(f"shapes {list(first)} and {list(second)} do not broadcast")
    return tuple(max(a, b) for a, b in zip(one, other, strict=True))


def reduced_shape(shape: tuple[int, ...], axis: Any, *, keepdims: bool = False) -> tuple[int, ...]:
    """The shape without the reduced axes; the partition and one more axis stay."""
    axes = axis if isinstance(axis, list | tuple) else [axis]
    gone = {int(each) % len(shape) for each in axes}
    left = [1 if at in gone else count for at, count in enumerate(shape)]
    if not keepdims:
        left = [count for at, count in enumerate(left) if at == 0 or at not in gone]
    return tuple(left) if len(left) > 1 else (*left, 1)
