"""Contents that are known while tracing: small integer tensors, so that an indirect access has an exact address.

Indices come from concrete arguments, constants and `iota`, pass through copies and integer arithmetic, and end as the
offset of an access. `Values` holds what is known of one storage, element by element; everything else is unknown, and
the access that rests on it is recorded as "some of these bytes".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_ELEMENTS = 1 << 16
"""Storages of more elements are not followed."""

Array = npt.NDArray[Any]


class Values:
    """The elements of one storage as float64 (exact for the integers that indices are); NaN: not known."""

    __slots__ = ("data",)

    def __init__(self, elements: int) -> None:
        self.data: Array = np.full(elements, np.nan)

    def read(self, index: Array) -> Array:
        """Elements at flat positions."""
        found: Array = self.data[index]
        return found

    def write(self, index: Array, values: Array | float) -> None:
        """Set elements at flat positions."""
        self.data[index] = values


def flat_index(offset: int, strides: Sequence[int], shape: Sequence[int]) -> Array:
    """Flat element positions of a view, in its shape."""
    index = np.full((1,) * len(shape), offset, np.int64)
    for axis, (stride, count) in enumerate(zip(strides, shape, strict=True)):
        steps = stride * np.arange(count, dtype=np.int64)
        index = index + steps.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return index


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "divide": np.divide,
    "mod": np.mod,
    "logical_and": lambda x, y: ((x != 0) & (y != 0)).astype(float),
    "equal": lambda x, y: (x == y).astype(float),
    "less": lambda x, y: (x < y).astype(float),
    "greater": lambda x, y: (x > y).astype(float),
    "less_equal": lambda x, y: (x <= y).astype(float),
    "greater_equal": lambda x, y: (x >= y).astype(float),
    "left_shift": lambda x, y: x * 2.0**y,
    "right_shift": lambda x, y: np.floor(x / 2.0**y),
}
"""Operators that are computed, by their NKI name."""


def compute(op: str, x: Array | float, y: Array | float) -> Array | None:
    """`op(x, y)` where both are known, NaN elsewhere; None when the operator is not computed."""
    function = ARITHMETIC.get(op)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(function(np.asarray(x, float), np.asarray(y, float)), float)
    known = ~(np.isnan(x) | np.isnan(y))
    found: Array = np.where(known, result, np.nan)
    return found
