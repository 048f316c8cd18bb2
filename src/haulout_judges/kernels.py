"""Kernels of the judges: Numba's, compiled once a machine. They are no part of the product, so `haulout warmup`
does not know them. A kernel calls only kernels of its own file: the judges share no method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., Any])
Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]


def kernel(function: F) -> F:
    """A function that Numba compiles on its first call and keeps on disk."""
    compile_it: Any = numba.njit
    return cast("F", compile_it(cache=True)(function))


def column(values: Iterable[int]) -> Ints:
    """Integers as an array."""
    return np.array(list(values), np.int64)


def lists(values: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Lists of integers as two arrays: where each begins, and all of them."""
    return column(accumulate(map(len, values), initial=0)), column(each for one in values for each in one)
