"""The arena of a run, and the operands of instructions as NumPy views of it.

An operand of one pattern is a view in its logical shape where strides can say so; then nothing is copied to read or
to write it. Any other operand is gathered into an array, and scattered from one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from haulout.ir.patterns import Pattern
from haulout.ir.schema import Bytes
from haulout.sim.numerics.types import Array, TensorType

_ALIGNMENT = 64
"""Of the first byte, as of the parts of a layout."""
_WORD = 8
"""Bytes of the widest word that is moved at once."""


def new_arena(size: int) -> Bytes:
    """Bytes that are zero, the first at a multiple of 64."""
    room = np.zeros(size + _ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % _ALIGNMENT
    return room[begin : begin + size]


class Slot:
    """An operand: an array of a type in the arena."""

    __slots__ = ("_patterns", "_pieces", "arena", "contiguous", "type", "view")

    def __init__(self, arena: Bytes, patterns: Sequence[Pattern], kind: TensorType) -> None:
        self.arena, self.type = arena, kind
        self._pieces: list[Array] | None = None
        self._patterns = patterns
        self.view: Array | None = _typed(arena, patterns[0], kind) if len(patterns) == 1 else None
        """It in its logical shape, without a copy; None where strides cannot say so."""
        self.contiguous = self.view is not None and self.view.flags.c_contiguous

    @property
    def pieces(self) -> list[Array]:
        """Its bytes in order, as words."""
        if self._pieces is None:
            self._pieces = [_words(self.arena, pattern) for pattern in self._patterns]
        return self._pieces

    def read(self) -> Array:
        """A C-contiguous array: a view where the operand is contiguous, else a copy."""
        if self.view is not None:
            return np.ascontiguousarray(self.view).reshape(self.type.shape)
        parts = [np.ascontiguousarray(piece).reshape(-1).view(np.uint8) for piece in self.pieces]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return whole.view(self.type.dtype).reshape(self.type.shape)

    def write(self, value: Array) -> None:
        """Store an array of its type."""
        if self.view is not None:
            np.copyto(self.view, value)
            return
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        begin = 0
        for piece in self.pieces:
            end = begin + piece.nbytes
            piece[...] = data[begin:end].view(piece.dtype).reshape(piece.shape)
            begin = end

    def same_as(self, other: Slot) -> bool:
        """Whether both are one array of the arena."""
        one, two = self.view, other.view
        return (
            one is not None
            and two is not None
            and self._patterns[0].offset == other._patterns[0].offset
            and (one.dtype, one.shape, one.strides) == (two.dtype, two.shape, two.strides)
            and self.arena is other.arena
        )

    def meets(self, other: Slot) -> bool:
        """Whether both may share bytes; exact only for contiguous operands."""
        if self.view is not None and other.view is not None:
            return np.may_share_memory(self.view, other.view)
        return any(np.may_share_memory(one, two) for one in self.pieces for two in other.pieces)


def _words(arena: Bytes, pattern: Pattern) -> Array:
    """The bytes of a pattern as the widest words that offset, strides and run allow, the last axis along the run."""
    if not pattern.dims:
        return arena[pattern.offset : pattern.offset + pattern.run]
    width = gcd(pattern.offset, pattern.run, _WORD, *(stride for stride, _ in pattern.dims))
    return _strided(arena, pattern, np.dtype(f"u{width}"))


def _typed(arena: Bytes, pattern: Pattern, kind: TensorType) -> Array | None:
    """A pattern as an array of elements in the logical shape; None where that takes a copy."""
    if pattern.nbytes != kind.nbytes or pattern.run % kind.dtype.itemsize:
        return None
    if prod(kind.shape) == 0:
        return np.zeros(kind.shape, kind.dtype)
    if not pattern.dims:
        return np.ndarray(kind.shape, kind.dtype, arena.data, pattern.offset)
    strides = _reshaped(_strided(arena, pattern, kind.dtype), kind.shape)
    return None if strides is None else np.ndarray(kind.shape, kind.dtype, arena.data, pattern.offset, strides)


def _strided(arena: Bytes, pattern: Pattern, dtype: np.dtype[Any]) -> Array:
    shape = (*(count for _, count in pattern.dims), pattern.run // dtype.itemsize)
    strides = (*(stride for stride, _ in pattern.dims), dtype.itemsize)
    return np.ndarray(shape, dtype, arena.data, pattern.offset, strides)


def _reshaped(array: Array, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides with which the elements of an array are, in order, an array of another shape; None: there are none.

    Axes of the array are split and joined from the last one on; axes of one element have any stride.
    """
    left = [(count, stride) for count, stride in zip(array.shape, array.strides, strict=True) if count != 1]
    result = []
    for extent in reversed(shape):
        if extent == 1 or not left:
            result.append(array.itemsize)
            continue
        count, stride = left.pop()
        while count < extent and left and left[-1][1] == stride * count:
            count *= left.pop()[0]
        if count % extent:
            return None
        result.append(stride)
        if count > extent:
            left.append((count // extent, stride * extent))
    return tuple(reversed(result))
