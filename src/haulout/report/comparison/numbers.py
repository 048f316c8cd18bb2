"""Whether two arrays agree.

Floats agree when `|a - b| <= atol + rtol * max|a|`, where the largest magnitude is that of the whole array A; without
`rtol` it is the one of the element type (`sim/expect.py`). Everything else agrees when it is equal. NaN agrees with
NaN, and an infinity with itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.sim.expect import TOLERANCE

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """How far two arrays are apart."""

    count: int
    """Elements beyond the limit."""
    largest: float
    """The largest difference; infinite where only one is finite."""
    index: tuple[int, ...]
    """Where that is."""
    limit: float


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What differences are allowed."""

    rtol: float | None = None
    atol: float = 0.0
    each: bool = False
    """Elements are allowed differences by their own magnitude, or 1000 times the median, not by an outlier's."""

    def compare(self, want: Array, got: Array) -> Difference:
        """How far `got` is from `want`, which has the same shape and element type."""
        if not is_float(want.dtype):
            wrong = want != got
            apart = np.where(wrong, np.abs(want.astype(np.float64) - got.astype(np.float64)), 0.0)
            return _difference(wrong, apart, 0.0)
        a, b = want.astype(np.float64), got.astype(np.float64)
        finite = np.isfinite(a)
        rtol = TOLERANCE.get(str(want.dtype), 0.1) if self.rtol is None else self.rtol
        largest = float(np.abs(a[finite]).max(initial=0.0))
        limit = self.atol + rtol * largest
        limits: Array | float = limit
        if self.each and largest:
            sizes = np.abs(np.where(finite, a, 0.0))
            scale = min(largest, 1000 * float(np.median(sizes[sizes > 0])))
            limits = self.atol + rtol * np.maximum(sizes, scale)
            limit = self.atol + rtol * scale
        with np.errstate(invalid="ignore"):
            apart = np.abs(a - b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))
        return _difference(apart > limits, apart, limit)

    def times(self, factor: float, dtype: np.dtype[Any]) -> Tolerance:
        """A wider tolerance, by element: a mask of -1e9 among small numbers hides nothing."""
        rtol = TOLERANCE.get(str(dtype), 0.1) if self.rtol is None else self.rtol
        return Tolerance(rtol * factor, self.atol * factor, each=True)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether values of a type are rounded."""
    return str(dtype) in TOLERANCE or str(dtype).startswith("float8")


def _difference(wrong: Array, apart: Array, limit: float) -> Difference:
    count = int(np.count_nonzero(wrong))
    if not count:
        return Difference(0, float(apart.max(initial=0.0)), (), limit)
    where = np.unravel_index(int(np.argmax(np.where(wrong, apart, -1.0))), apart.shape)
    return Difference(count, float(apart[where]), tuple(int(each) for each in where), limit)
