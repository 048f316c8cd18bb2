"""The bytes of a run, and which of them hold a value.

Reading and writing go through the regions of an operand. A region with dims is walked in the widest words
that its offset, strides and run allow, up to eight bytes.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from haulout.ir.patterns import Pattern
from haulout.ir.schema import Bools, Bytes
from haulout.sim.regions import Regions

_WORD = 8


class Memory:
    """The arena of one run; bytes that nobody has written read as 0 and are known as such."""

    def __init__(self, size: int) -> None:
        whole = -(-size // _WORD) * _WORD
        self.bytes: Bytes = np.zeros(whole, np.uint8)
        self.written: Bools = np.zeros(whole, np.bool_)

    def read(self, regions: Regions, operand: int) -> Bytes:
        """The operand's bytes in order; may be a view of the memory."""
        parts = [
            np.ascontiguousarray(_words(self.bytes, pattern)).reshape(-1).view(np.uint8)
            for pattern in regions.patterns(operand)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def write(self, regions: Regions, operand: int, data: Bytes) -> None:
        """Store the operand's bytes, which then hold a value."""
        begin = 0
        for pattern in regions.patterns(operand):
            target = _words(self.bytes, pattern)
            piece = data[begin : begin + pattern.nbytes]
            target[...] = piece.view(target.dtype).reshape(target.shape)
            _words(self.written, pattern)[...] = _TRUE[target.dtype.itemsize]
            begin += pattern.nbytes

    def undefined(self, regions: Regions, operand: int) -> Bools:
        """Which of the operand's bytes hold no value; empty when all do."""
        holds = [_words(self.written, pattern) for pattern in regions.patterns(operand)]
        if all(bool((part == _TRUE[part.dtype.itemsize]).all()) for part in holds):
            return np.zeros(0, np.bool_)
        return ~np.concatenate([np.ascontiguousarray(part).reshape(-1).view(np.bool_) for part in holds])


_TRUE: dict[int, Any] = {width: int.from_bytes(b"\1" * width, "little") for width in (1, 2, 4, 8)}


def _words(cells: np.ndarray[Any, Any], pattern: Pattern) -> np.ndarray[Any, Any]:
    """A view of the cells that a region touches; with dims, as words, the last axis along the run."""
    if not pattern.dims:
        return cells[pattern.offset : pattern.offset + pattern.run]
    common = gcd(pattern.offset, pattern.run, _WORD, *(stride for stride, _ in pattern.dims))
    words = cells.view(f"u{common}")
    counts = [count for _, count in pattern.dims]
    strides = [stride for stride, _ in pattern.dims]
    return as_strided(words[pattern.offset // common :], (*counts, pattern.run // common), (*strides, common))
