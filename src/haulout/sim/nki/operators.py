"""ALU operators on float32, and on the bits of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from haulout.sim.numerics.types import Array
from haulout.support.diagnostics import bad_input

Binary = Callable[[Any, Any], Any]
Unary = Callable[[Any], Any]
_ONE = np.float32(1)


def _truth(function: Binary) -> Binary:
    return lambda x, y: function(x, y).astype(np.float32)


def _abs_max(x: Any, y: Any) -> Any:
    return np.where(np.abs(x) > np.abs(y), x, y)


def _abs_min(x: Any, y: Any) -> Any:
    return np.where(np.abs(x) < np.abs(y), x, y)


ARITHMETIC: dict[str, Binary] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "max": np.maximum,
    "minimum": np.minimum,
    "min": np.minimum,
    "equal": _truth(np.equal),
    "not_equal": _truth(np.not_equal),
    "greater": _truth(np.greater),
    "greater_equal": _truth(np.greater_equal),
    "less": _truth(np.less),
    "less_equal": _truth(np.less_equal),
    "logical_and": _truth(lambda x, y: np.logical_and(x != 0, y != 0)),
    "logical_or": _truth(lambda x, y: np.logical_or(x != 0, y != 0)),
    "logical_xor": _truth(lambda x, y: np.logical_xor(x != 0, y != 0)),
    "power": np.power,
    "pow": np.power,
    "abs_max": _abs_max,
    "abs_min": _abs_min,
    "divide": np.divide,
    "mod": np.mod,
    "fmod": np.fmod,
    "bypass": lambda x, y: x,
}
"""Comparisons and logic give 1.0 or 0.0. `divide`, `mod` and `fmod` are not in the hardware."""

UNARY: dict[str, Unary] = {
    "abs": np.abs,
    "rsqrt": lambda x: _ONE / np.sqrt(x),
    "reciprocal": lambda x: _ONE / x,
    "square": np.square,
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "sqrt": np.sqrt,
    "negative": np.negative,
    "logical_not": lambda x: (x == 0).astype(np.float32),
}
"""The operand of the instruction is not used."""


def _shift(function: Binary) -> Binary:
    def shifted(x: Any, y: Any) -> Any:
        bits = 8 * x.dtype.itemsize
        unsigned = x.view(f"u{x.dtype.itemsize}")
        by = np.asarray(y).astype(np.int64)
        inside = (by >= 0) & (by < bits)
        moved = function(unsigned, np.where(inside, by, 0).astype(unsigned.dtype))
        return np.where(inside, moved, 0).astype(unsigned.dtype).view(x.dtype)

    return shifted


BITS: dict[str, Binary] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": _shift(np.left_shift),
    "logical_shift_left": _shift(np.left_shift),
    "right_shift": _shift(np.right_shift),
    "logical_shift_right": _shift(np.right_shift),
    "invert": lambda x, y: np.invert(x),
}
"""Of integers of one type; shifts are logical, and one by as many bits as the type has gives 0."""

COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
INTEGER_EXACT = frozenset(["add", "subtract", "multiply", "maximum", "max", "minimum", "min", *COMPARISONS])
"""Operators that GpSimd computes on 32-bit integers as they are."""


def arithmetic(name: str) -> Binary:
    """The function of an operator, for two operands or one."""
    if name in ARITHMETIC:
        return ARITHMETIC[name]
    if name in UNARY:
        function = UNARY[name]
        return lambda x, y: function(x)
    bad_input(f"`{name}` is not an operator that the simulator has")


def reducer(name: str) -> Callable[[Array], Array]:
    """Reduction of the last axis, kept as one column."""
    match name:
        case "add":
            return lambda x: x.sum(axis=-1, keepdims=True, dtype=x.dtype)
        case "multiply":
            return lambda x: x.prod(axis=-1, keepdims=True, dtype=x.dtype)
        case "max" | "maximum":
            return lambda x: x.max(axis=-1, keepdims=True)
        case "min" | "minimum":
            return lambda x: x.min(axis=-1, keepdims=True)
        case "average":
            return lambda x: x.mean(axis=-1, keepdims=True, dtype=x.dtype)
    function = BITS.get(name) or arithmetic(name)
    if name not in ("subtract", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or",
                    "logical_xor", "abs_max", "abs_min"):  # fmt: skip
        bad_input(f"`{name}` does not reduce")

    def reduce(x: Array) -> Array:
        found = x[..., :1]
        for at in range(1, x.shape[-1]):
            found = function(found, x[..., at : at + 1])
        return found

    return reduce
