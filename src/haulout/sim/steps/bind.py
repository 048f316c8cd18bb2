"""From an instruction of the code to its step: attributes are read and types found once for all that share them."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

import numpy as np

from haulout.ir.arrays import operand_arrays
from haulout.ir.attributes import AttrValue
from haulout.ir.dtypes import NUMPY
from haulout.ir.opaque import refuse_execution
from haulout.ir.opcodes import OPAQUE
from haulout.ir.schema import Bytes
from haulout.sim.flow.code import Code
from haulout.sim.memory.layout import Layout
from haulout.sim.memory.operands import Operands
from haulout.sim.memory.slots import Slot
from haulout.sim.nki.binder import PREFIX, NkiBinder
from haulout.sim.nki.registers import RegisterLog
from haulout.sim.numerics.types import TensorType
from haulout.sim.steps.make import Plans, Step, make_step
from haulout.support.diagnostics import bad_input

_BYTE = np.dtype(np.uint8)


class Binder:
    """Makes the steps of a program's instructions in one arena."""

    def __init__(
        self,
        code: Code,
        operands: Operands,
        arena: Bytes,
        layout: Layout | None = None,
        registers: RegisterLog | None = None,
    ) -> None:
        self.code, self.program, self.operands, self.arena = code, code.program, operands, arena
        self.nki = None if layout is None else NkiBinder(code, layout, arena, registers)
        self._attrs: dict[int, dict[str, AttrValue]] = {}
        self._plans: defaultdict[int, Plans] = defaultdict(dict)
        self._types: dict[tuple[int, int, int, tuple[int, ...]], TensorType] = {}
        self._moving: dict[int, list[TensorType]] = {}
        """The types of operands that move with the iterations; they are bound anew for each."""

    def step(self, row: int, places: tuple[int, ...]) -> Step:
        """The step of an instruction whose operands are at these places, reads first.

        Raises `HauloutError` (`bad-input`) for an instruction that no core can execute.
        """
        program = self.program
        opcode = program.strings[int(program.instructions.opcode[row])]
        if opcode.startswith(OPAQUE):
            refuse_execution(program, row)
        if self.nki is not None and opcode.startswith(PREFIX):
            return self.nki.step(row)
        text = int(program.instructions.attrs[row])
        attrs = self._attrs.get(text)
        if attrs is None:
            attrs = self._attrs[text] = program.instruction_attrs(row)
        reads = int(self.code.middle[row] - self.code.begin[row])
        if opcode == "memset" or (opcode == "dma_copy" and reads == len(places) - reads == 1):
            slots = [self.raw(place) for place in places]
        else:
            types = self._typed(row, attrs, places)
            slots = [
                Slot(self.arena, self.operands[place].patterns, kind)
                for place, kind in zip(places, types, strict=True)
            ]
        return make_step(opcode, attrs, slots[:reads], slots[reads:], self._plans[text])

    def raw(self, place: int) -> Slot:
        """An operand as a row of bytes."""
        known = self.operands[place]
        return Slot(self.arena, known.patterns, TensorType(_BYTE, (known.nbytes,)))

    def _typed(self, row: int, attrs: dict[str, AttrValue], places: tuple[int, ...]) -> list[TensorType]:
        """The types of all operands; they follow from the attributes' text, the position, and the location's type."""
        operands, program = self.operands, self.program
        if row in self._moving:
            return self._moving[row]
        text = int(program.instructions.attrs[row])
        locations = operands.location[list(places)].tolist()
        names = program.locations.dtype[locations].tolist()
        keys = [
            (text, at, name, program.shape(location))
            for at, (name, location) in enumerate(zip(names, locations, strict=True))
        ]
        if not all(key in self._types for key in keys):
            for key, array in zip(keys, chain(*operand_arrays(program, row, attrs)), strict=True):
                self._types[key] = TensorType(NUMPY[array.dtype], array.shape)
        types = [self._types[key] for key in keys]
        for place, kind in zip(places, types, strict=True):
            if kind.nbytes != operands[place].nbytes:
                bad_input(f"an operand is {kind}, which is {kind.nbytes} bytes, but touches {operands[place].nbytes}")
        if row in operands.strided.moving:
            self._moving[row] = types
        return types
