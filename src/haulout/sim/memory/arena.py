"""The bytes of a run, and which of them hold a value.

Bytes are read and written through the extents of an operand. An extent with dims is accessed in the widest words, up
to eight bytes, that its offset, strides and run allow. Whether bytes hold a value is recorded by atom (`atoms.py`),
since every operand writes all bytes of an atom or none.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from haulout.ir.patterns import Pattern
from haulout.ir.schema import Bytes
from haulout.sim.memory.operands import Operands

_WORD = 8


class Memory:
    """The arena of one run; bytes that have not been written read as 0, and `undefined` reports them."""

    def __init__(self, size: int, operands: Operands) -> None:
        self.operands = operands
        self.bytes: Bytes = np.zeros(-(-size // _WORD) * _WORD, np.uint8)
        self._holds_value = np.zeros(len(operands.atoms), np.bool_)

    def read(self, operand: int) -> Bytes:
        """The operand's bytes in order; may be a view of the memory."""
        parts = [
            np.ascontiguousarray(self._words(pattern)).reshape(-1).view(np.uint8)
            if pattern.dims
            else self._words(pattern)
            for pattern in self.operands[operand].patterns
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def write(self, operand: int, data: Bytes) -> None:
        """Store the operand's bytes, which then hold a value."""
        patterns, _, atoms = self.operands[operand]
        begin = 0
        for pattern in patterns:
            target = self._words(pattern)
            piece = data[begin : begin + pattern.nbytes]
            target[...] = piece.view(target.dtype).reshape(target.shape)
            begin += pattern.nbytes
        self._holds_value[atoms] = True

    def undefined(self, operand: int) -> tuple[int, int] | None:
        """How many of the operand's bytes hold no value, and the first of them in the arena; None when all do."""
        index = self.operands[operand].atoms
        holds = self._holds_value[index]
        if holds.all():
            return None
        without = np.arange(len(self._holds_value))[index][~holds]
        cuts = self.operands.atoms.cuts
        return int((cuts[without + 1] - cuts[without]).sum()), int(cuts[without.min()])

    def _words(self, pattern: Pattern) -> np.ndarray[Any, Any]:
        """A view of the bytes of an extent; with dims, as words, the last axis along the run."""
        if not pattern.dims:
            return self.bytes[pattern.offset : pattern.offset + pattern.run]
        common = gcd(pattern.offset, pattern.run, _WORD, *(stride for stride, _ in pattern.dims))
        words = self.bytes.view(f"u{common}")
        counts = [count for _, count in pattern.dims]
        strides = [stride for stride, _ in pattern.dims]
        return as_strided(words[pattern.offset // common :], (*counts, pattern.run // common), (*strides, common))
