"""The bytes of a run, and which of them hold a value.

Bytes are read and written through the operands' slots (`slots.py`). Whether bytes hold a value is recorded by atom
(`atoms.py`), since every operand writes all bytes of an atom or none.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.schema import Bools, Bytes
from haulout.sim.memory.operands import Operands
from haulout.sim.memory.slots import Slot, new_arena
from haulout.sim.numerics.types import TensorType

_BYTE = np.dtype(np.uint8)


class Memory:
    """The arena of one run; bytes that have not been written read as 0, and `undefined` reports them."""

    def __init__(self, size: int, operands: Operands) -> None:
        self.operands = operands
        self.bytes: Bytes = new_arena(size)
        self._holds_value = np.zeros(len(operands.atoms), np.bool_)

    def read(self, operand: int) -> Bytes:
        """The operand's bytes in order; may be a view of the memory."""
        return self._slot(operand).read()

    def write(self, operand: int, data: Bytes) -> None:
        """Store the operand's bytes, which then hold a value."""
        self._slot(operand).write(data)
        self.written(operand)

    def written(self, operand: int) -> None:
        """All bytes of the operand hold a value."""
        self._holds_value[self.operands[operand].atoms] = True

    def undefined(self, operand: int) -> tuple[int, int] | None:
        """How many of the operand's bytes hold no value, and the first of them in the arena; None when all do."""
        index = self.operands[operand].atoms
        holds = self._holds_value[index]
        if np.logical_and.reduce(holds):  # less overhead than `all`
            return None
        without = np.arange(len(self._holds_value))[index][~holds]
        cuts = self.operands.atoms.cuts
        return int((cuts[without + 1] - cuts[without]).sum()), int(cuts[without.min()])

    def holds_value(self, operand: int) -> Bools:
        """Of each byte of an operand that is contiguous: whether it holds a value."""
        index, cuts = self.operands[operand].atoms, self.operands.atoms.cuts
        atoms = np.arange(len(self._holds_value))[index]
        return np.repeat(self._holds_value[atoms], cuts[atoms + 1] - cuts[atoms])

    def _slot(self, operand: int) -> Slot:
        patterns, nbytes, _ = self.operands[operand]
        return Slot(self.bytes, patterns, TensorType(_BYTE, (nbytes,)))
