"""Byte patterns: which bytes of a location an operand touches.

`Pattern(offset, run, dims)` touches, for every index vector i, the `run` bytes from `offset + sum(stride * i)`, in
that order (dims outermost first). Canonical form: contiguous dims folded into the run or into each other, dims of
count 1 dropped; the order of the bytes is unchanged by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from haulout.ir.enums import NONE


class Pattern(NamedTuple):
    """One byte pattern. `run == NONE` is `?`: some bytes, statically unknown."""

    offset: int
    run: int
    dims: tuple[tuple[int, int], ...] = ()
    """(stride in bytes, count), outermost first."""

    @property
    def is_unknown(self) -> bool:
        """Whether it is `?`."""
        return self.run == NONE

    @property
    def hull(self) -> tuple[int, int]:
        """First byte touched and the end."""
        low = self.offset + sum(stride * (count - 1) for stride, count in self.dims if stride < 0)
        high = self.offset + sum(stride * (count - 1) for stride, count in self.dims if stride > 0)
        return low, high + self.run

    @property
    def nbytes(self) -> int:
        """Bytes moved by a copy through this pattern; a byte touched twice counts twice."""
        total = self.run
        for _, count in self.dims:
            total *= count
        return total

    def canonical(self) -> Pattern:
        """The same bytes in the same order, with as few dims as possible."""
        if self.is_unknown:
            return UNKNOWN
        run, dims = self.run, [dim for dim in self.dims if dim[1] != 1]
        while dims and dims[-1][0] == run:
            run *= dims.pop()[1]
        folded: list[tuple[int, int]] = []
        for stride, count in reversed(dims):
            if folded and stride == folded[-1][0] * folded[-1][1]:
                folded[-1] = (folded[-1][0], folded[-1][1] * count)
            else:
                folded.append((stride, count))
        return Pattern(self.offset, run, tuple(reversed(folded)))

    def starts(self) -> npt.NDArray[np.int64]:
        """The first byte of every run, in order; int64, as many as the product of the counts."""
        starts = np.array([self.offset], np.int64)
        for stride, count in self.dims:
            starts = (starts[:, None] + stride * np.arange(count, dtype=np.int64)).ravel()
        return starts

    def bytes(self) -> npt.NDArray[np.int64]:
        """Every byte touched, in order; int64 of length `nbytes`."""
        return (self.starts()[:, None] + np.arange(self.run, dtype=np.int64)).ravel()

    def __str__(self) -> str:
        """As the format writes it."""
        if self.is_unknown:
            return "?"
        if not self.dims:
            return f"{self.offset}:{self.offset + self.run}"
        dims = ",".join(f"{stride}x{count}" for stride, count in self.dims)
        return f"{self.offset};{dims};{self.run}"


UNKNOWN = Pattern(0, NONE)
"""`?`"""


def row_major_strides(shape: Sequence[int], itemsize: int) -> list[int]:
    """Byte stride of each dimension of a row-major array."""
    strides, step = [0] * len(shape), itemsize
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= shape[axis]
    return strides


def strided(offset: int, strides: Sequence[int], counts: Sequence[int], itemsize: int) -> Pattern:
    """The pattern of an array view: elements of `itemsize` bytes at `offset + sum(strides * index)`, canonical."""
    return Pattern(offset, itemsize, tuple(zip(strides, counts, strict=True))).canonical()
