"""Memory for what a kernel needs while it runs; a thread keeps it for the next kernel.

A page that a process touches for the first time costs as much as a pass over it. Arrays that come and go take ever
new pages from the C library, so kernels that need many of them take them from here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import TypeAlias

import numpy as np

from haulout.sim.numerics.types import Array, DType

Take: TypeAlias = Callable[[tuple[int, ...], DType], Array]

_SIZE = 1 << 24
"""Bytes; what does not fit is allocated as usual. NumPy asks for large pages for an array of this size."""
_ALIGNMENT = 64


class _Kept(threading.local):
    """The memory of one thread."""

    def __init__(self) -> None:
        self.bytes = np.empty(_SIZE, np.uint8)
        self.used = -self.bytes.ctypes.data % _ALIGNMENT


_kept = _Kept()


@contextmanager
def scratch() -> Iterator[Take]:
    """A function that gives arrays of a shape and type, not initialised, which are valid inside."""
    before = _kept.used

    def take(shape: tuple[int, ...], dtype: DType) -> Array:
        begin, size = _kept.used, prod(shape) * dtype.itemsize
        if begin + size > _SIZE:
            return np.empty(shape, dtype)
        _kept.used += -(-size // _ALIGNMENT) * _ALIGNMENT
        return _kept.bytes[begin : begin + size].view(dtype).reshape(shape)

    try:
        yield take
    finally:
        _kept.used = before
