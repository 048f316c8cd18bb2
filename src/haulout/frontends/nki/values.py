"""Contents that are known in the trace: small integer tensors, so that an indirect access has exact bytes.

Indices come from array arguments, constants and `iota`, propagate through copies, transposes and arithmetic, and
become the offset of an access. `Values` has the known contents of one storage byte by byte, so that a view with
another element type reads the same value as on the device. Everything else is unknown, and an access that depends on
it is recorded as "some of these bytes".

    bits      elements as unsigned integers of their size, with a mask of the known ones: for moves
    numbers   elements as float64, NaN if unknown or not exact: for arithmetic
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from haulout.frontends.nki.dtypes import ELEMENT_TYPES
from haulout.ir.dtypes import NUMPY

MAX_ELEMENTS = 1 << 16
"""Storages of more elements are not followed."""
_EXACT = 1 << 53
"""Integers up to here are exact as float64."""
_EXACT_FLOAT32 = 1 << 24
"""Integers up to here are exact as float32, which is what engines compute in."""
_NO_NUMBERS = frozenset({"tfloat32", "float8_e8m0fnu"})
"""Types whose bits are not those of the type that stores them."""

Array = npt.NDArray[Any]


class Bits(NamedTuple):
    """Elements of one type, in the shape of a view."""

    bits: Array
    known: Array

    def arranged(self, how: Callable[[Array], Array]) -> Bits:
        """The same elements in other places."""
        return Bits(how(self.bits), how(self.known))


class Values:
    """The bytes of one storage, and which of them are known."""

    __slots__ = ("data", "known")

    def __init__(self, size: int) -> None:
        self.data: Array = np.zeros(size, np.uint8)
        self.known: Array = np.zeros(size, bool)

    def fill(self, array: Array) -> None:
        """All bytes, from an array of the storage's element type."""
        self.data[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.known[:] = True

    def read(self, index: Array, itemsize: int) -> Bits:
        """Elements of so many bytes at flat positions."""
        places = _bytes_at(index, itemsize)
        bits = np.ascontiguousarray(self.data[places]).view(f"u{itemsize}")[..., 0]
        return Bits(bits, np.asarray(self.known[places].all(axis=-1)))

    def write(self, index: Array, itemsize: int, found: Bits | None) -> None:
        """Set elements at flat positions; None: they are no longer known."""
        places = _bytes_at(index, itemsize)
        if found is None:
            self.known[places] = False
            return
        self.data[places] = np.ascontiguousarray(found.bits)[..., None].view(np.uint8)
        self.known[places] = found.known[..., None]


def _bytes_at(index: Array, itemsize: int) -> Array:
    places: Array = index[..., None] * itemsize + np.arange(itemsize)
    return places


def flat_index(offset: int, strides: Sequence[int], shape: Sequence[int]) -> Array:
    """Flat element positions of a view, in its shape."""
    index = np.full((1,) * len(shape), offset, np.int64)
    for axis, (stride, count) in enumerate(zip(strides, shape, strict=True)):
        steps = stride * np.arange(count, dtype=np.int64)
        index = index + steps.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return index


# -- numbers ---------------------------------------------------------------------------------------------------------


def decode(found: Bits, dtype: str) -> Array:
    """Elements of an NKI type as float64; NaN: not known, or not exact."""
    element = ELEMENT_TYPES[dtype]
    if dtype in _NO_NUMBERS or "_x4" in dtype:
        return np.full(found.bits.shape, np.nan)
    numbers = np.ascontiguousarray(found.bits).view(NUMPY[element.stored]).astype(np.float64)
    return np.where(found.known & (np.abs(numbers) <= _EXACT), numbers, np.nan)


def encode(numbers: Array, dtype: str) -> Bits:
    """Numbers as an engine stores them: integers to the nearest, ties to even, and held to what the type has."""
    element = ELEMENT_TYPES[dtype]
    shape = np.shape(numbers)
    known = ~np.isnan(numbers)
    if dtype in _NO_NUMBERS or "_x4" in dtype:
        return Bits(np.zeros(shape, f"u{element.bytes}"), np.zeros(shape, bool))
    numbers, kind = np.where(known, numbers, 0.0), NUMPY[element.stored]
    if kind.kind in "iu":
        bits = 8 * kind.itemsize
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind.kind == "i" else (0, (1 << bits) - 1)
        known &= np.abs(numbers) <= _EXACT
        numbers = np.clip(np.rint(numbers), least, min(most, _EXACT))
    with np.errstate(all="ignore"):
        stored = numbers.astype(kind)
    return Bits(np.ascontiguousarray(stored).view(f"u{element.bytes}").reshape(shape), known)


def converted(found: Bits, source: str, target: str) -> Bits:
    """Elements of one type as another: as they are, or through float32."""
    return found if source == target else encode(through_float32(decode(found, source)), target)


def through_float32(numbers: Array) -> Array:
    """Numbers that float32 has exactly; NaN for the others."""
    with np.errstate(all="ignore"):
        held: Array = np.where(numbers.astype(np.float32).astype(np.float64) == numbers, numbers, np.nan)
    return held


def _on_bits(function: Callable[[Any, Any], Any], x: Array, y: Array) -> Array:
    """An operator on the bits of integers that are not negative; NaN elsewhere."""
    fit = (x >= 0) & (y >= 0) & (x <= _EXACT_FLOAT32) & (y <= _EXACT_FLOAT32) & (x % 1 == 0) & (y % 1 == 0)
    left, right = (np.where(fit, each, 0).astype(np.int64) for each in (x, y))
    return np.where(fit, function(left, right), np.nan)


def _shifted(x: Array, y: Array) -> Array:
    """A logical shift of integers that are not negative, to the left by `y`; NaN elsewhere."""
    fit = (x >= 0) & (x % 1 == 0) & (np.abs(y) < 32)
    return np.where(fit, np.floor(x * 2.0 ** np.where(fit, y, 0)), np.nan)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "max": np.maximum,
    "min": np.minimum,
    "divide": np.divide,
    "mod": np.mod,
    "logical_and": lambda x, y: ((x != 0) & (y != 0)).astype(float),
    "logical_or": lambda x, y: ((x != 0) | (y != 0)).astype(float),
    "equal": lambda x, y: (x == y).astype(float),
    "not_equal": lambda x, y: (x != y).astype(float),
    "less": lambda x, y: (x < y).astype(float),
    "greater": lambda x, y: (x > y).astype(float),
    "less_equal": lambda x, y: (x <= y).astype(float),
    "greater_equal": lambda x, y: (x >= y).astype(float),
    "bitwise_and": lambda x, y: _on_bits(np.bitwise_and, x, y),
    "bitwise_or": lambda x, y: _on_bits(np.bitwise_or, x, y),
    "bitwise_xor": lambda x, y: _on_bits(np.bitwise_xor, x, y),
    "left_shift": lambda x, y: _shifted(x, y),
    "right_shift": lambda x, y: _shifted(x, -y),
    "logical_shift_left": lambda x, y: _shifted(x, y),
    "logical_shift_right": lambda x, y: _shifted(x, -y),
    "bypass": lambda x, y: x + 0 * y,
}
"""Operators that are computed, by their NKI name."""


def compute(op: str, x: Array | float, y: Array | float) -> Array | None:
    """`op(x, y)` as float32 arithmetic has it, NaN where an operand or the result is not known or not exact; None
    when the operator is not computed."""
    function = ARITHMETIC.get(op)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(function(np.asarray(x, float), np.asarray(y, float)), float)
        # Integers are exact on every engine up to here; beyond it they depend on which one computes.
        exact = (np.abs(result) <= _EXACT_FLOAT32) & (np.abs(x) <= _EXACT_FLOAT32) & (np.abs(y) <= _EXACT_FLOAT32)
        rounded = result.astype(np.float32).astype(np.float64)
    known = ~(np.isnan(x) | np.isnan(y)) & exact
    found: Array = np.where(known, rounded, np.nan)
    return found
