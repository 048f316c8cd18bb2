"""One run's memory, and what an instruction does to it.

An instruction reads its operands, computes (`numerics.evaluate`), and writes its results. The two halves are
apart, because a `sendrecv` reads when it arrives and writes, what its partner has read, when it completes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from haulout.ir.arrays import operand_arrays
from haulout.ir.attributes import AttrValue
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bytes
from haulout.ir.verify import instruction_label, location_label
from haulout.sim.layout import Layout
from haulout.sim.memory import Memory
from haulout.sim.numerics import TensorType, evaluate
from haulout.sim.regions import Regions
from haulout.support.diagnostics import Diagnostics, HauloutError, Severity, bad_input

_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")
_MOST = 20
"""Findings that are listed."""
_BYTE: np.dtype[Any] = np.dtype(np.uint8)


class Machine:
    """Executes instructions of one program, each at the moment that the schedule gives it."""

    def __init__(self, program: Program, memory: Memory, layout: Layout, found: Diagnostics) -> None:
        self.program, self.memory, self.layout, self.found = program, memory, layout, found
        self.operands = memory.operands
        self._starts = program.access_starts.tolist()
        self._middle = self.operands.middle.tolist()
        self._location = program.accesses.location.tolist()
        self._opcode = [program.strings[row] for row in program.instructions.opcode.tolist()]
        self._attrs_row = program.instructions.attrs.tolist()
        self._attrs: dict[int, dict[str, AttrValue]] = {}
        self._types: dict[tuple[int, int, int], TensorType] = {}

    def execute(self, instruction: int) -> None:
        """Read, compute and write, at once."""
        try:
            self._compute(instruction)
        except HauloutError as error:
            raise self._at(instruction, error) from None

    def read(self, instruction: int) -> Bytes:
        """All bytes that an instruction reads, in the order of its operands."""
        reads, _ = self._accesses(instruction)
        self._check_defined(instruction, reads)
        return np.concatenate([np.zeros(0, np.uint8), *map(self.memory.read, reads)])

    def write(self, instruction: int, data: Bytes) -> None:
        """Put bytes into what an instruction writes, in the order of its operands."""
        _, writes = self._accesses(instruction)
        wanted = sum(self.operands[access].nbytes for access in writes)
        if wanted != len(data):
            label = instruction_label(self.program, instruction)
            bad_input(f"{len(data)} bytes arrive, its destination holds {wanted}", label)
        begin = 0
        for access in writes:
            end = begin + self.operands[access].nbytes
            self.memory.write(access, data[begin:end])
            begin = end

    def _compute(self, instruction: int) -> None:
        opcode = self._opcode[instruction]
        reads, writes = self._accesses(instruction)
        self._check_defined(instruction, reads)
        if opcode == "dma_copy" and len(reads) == len(writes) == 1:
            sizes = [self.operands[access].nbytes for access in (reads[0], writes[0])]
            if sizes[0] != sizes[1]:
                bad_input(f"`dma_copy` reads {sizes[0]} bytes and writes {sizes[1]}")
            self.memory.write(writes[0], self.memory.read(reads[0]))
            return
        if opcode in _COLLECTIVES:
            bad_input(f"`{opcode}` cannot be executed by a core", help=["compile the program: it lowers collectives"])
        attrs = self._attributes(instruction)
        if opcode == "memset":
            outputs = [TensorType(_BYTE, (self.operands[access].nbytes,)) for access in writes]
            results = evaluate(opcode, attrs, [], outputs)
        else:
            types = self._typed(instruction)
            inputs = [
                self.memory.read(access).view(each.dtype).reshape(each.shape)
                for access, each in zip(reads, types, strict=False)
            ]
            results = evaluate(opcode, attrs, inputs, types[len(reads) :])
        for access, result in zip(writes, results, strict=True):
            self.memory.write(access, result.reshape(-1).view(np.uint8))

    def _accesses(self, instruction: int) -> tuple[range, range]:
        """Rows of `accesses`: reads, writes."""
        begin, middle, end = self._starts[instruction], self._middle[instruction], self._starts[instruction + 1]
        return range(begin, middle), range(middle, end)

    def _attributes(self, instruction: int) -> dict[str, AttrValue]:
        text = self._attrs_row[instruction]
        if text not in self._attrs:
            self._attrs[text] = self.program.instruction_attrs(instruction)
        return self._attrs[text]

    def _typed(self, instruction: int) -> list[TensorType]:
        """Types of all operands, reads first; they follow from the attributes' text, the place, and the location."""
        begin, end = self._starts[instruction], self._starts[instruction + 1]
        text = self._attrs_row[instruction]
        keys = [(text, access - begin, self._location[access]) for access in range(begin, end)]
        if not all(key in self._types for key in keys):
            for key, array in zip(keys, chain(*operand_arrays(self.program, instruction)), strict=True):
                self._types[key] = TensorType(NUMPY[array.dtype], array.shape)
        types = [self._types[key] for key in keys]
        for access, each in zip(range(begin, end), types, strict=True):
            if each.nbytes != self.operands[access].nbytes:
                touched = self.operands[access].nbytes
                bad_input(f"an operand is {each}, which is {each.nbytes} bytes, but touches {touched}")
        return types

    def _check_defined(self, instruction: int, reads: Sequence[int]) -> None:
        told: set[int] = set()
        for access in reads:
            undefined = self.memory.undefined(access)
            location = int(self.program.accesses.location[access])
            if undefined is None or location in told or len(self.found) >= _MOST:
                continue
            told.add(location)
            name = self.program.strings[int(self.program.locations.name[location])]
            self.found.add(
                "uninitialized-read",
                Severity.ERROR,
                f"{undefined[0]} of the bytes that it reads of %{name} have never been written, the first at byte "
                f"{self.layout.byte_of(location, undefined[1])}",
                instruction_label(self.program, instruction),
                location_label(self.program, location),
            )

    def _at(self, instruction: int, error: HauloutError) -> HauloutError:
        label = instruction_label(self.program, instruction)
        return HauloutError(*(replace(each, labels=(label, *each.labels)) for each in error.diagnostics))


def check_patterns_known(program: Program, regions: Regions, instructions: np.ndarray[Any, Any]) -> None:
    """`bad-input` at the first of some instructions that touches bytes which are not known statically."""
    unknown = np.zeros(len(program.instructions), np.bool_)
    first = regions.starts[: len(program.accesses)]
    unknown[program.accesses.instruction[regions.run[first] == NONE]] = True
    unknown[program.barriers.instruction] = False
    for row in instructions[unknown[instructions]][:1].tolist():
        bad_input(
            "it touches bytes that are not known statically (`?`); the simulator must know them",
            instruction_label(program, row),
        )
