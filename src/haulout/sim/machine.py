"""One run's memory, and what an instruction does to it.

An instruction reads its operands, computes (`numerics.evaluate`), and writes its results. The two halves are
apart, because a `sendrecv` reads when it arrives and writes, what its partner has read, when it completes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from haulout.ir.arrays import Array, operand_arrays
from haulout.ir.attributes import AttrValue
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bytes
from haulout.ir.verify import instruction_label, location_label
from haulout.sim.memory import Memory
from haulout.sim.numerics import TensorType, evaluate
from haulout.sim.regions import Regions
from haulout.support.diagnostics import Diagnostics, HauloutError, Severity, bad_input

_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")
_MOST = 20
"""Findings that are listed."""


class Machine:
    """Executes instructions of one program, each at the moment that the schedule gives it."""

    def __init__(self, program: Program, regions: Regions, memory: Memory, found: Diagnostics) -> None:
        self.program, self.regions, self.memory, self.found = program, regions, memory, found
        self._access_starts = program.access_starts.tolist()
        self._is_write = program.accesses.write.tolist()
        self._opcode = [program.strings[row] for row in program.instructions.opcode.tolist()]
        self._attrs: dict[int, dict[str, AttrValue]] = {}

    def execute(self, instruction: int) -> None:
        """Read, compute and write, at once."""
        try:
            self._compute(instruction)
        except HauloutError as error:
            raise self._at(instruction, error) from None

    def read(self, instruction: int) -> Bytes:
        """All bytes that an instruction reads, in the order of its operands."""
        reads, _ = self._operands(instruction)
        self._check_defined(instruction, reads)
        return np.concatenate([np.zeros(0, np.uint8), *(self.memory.read(self.regions, access) for access in reads)])

    def write(self, instruction: int, data: Bytes) -> None:
        """Put bytes into what an instruction writes, in the order of its operands."""
        _, writes = self._operands(instruction)
        wanted = [self.regions.nbytes(access) for access in writes]
        if sum(wanted) != len(data):
            label = instruction_label(self.program, instruction)
            bad_input(f"{len(data)} bytes arrive, its destination holds {sum(wanted)}", label)
        begin = 0
        for access, size in zip(writes, wanted, strict=True):
            self.memory.write(self.regions, access, data[begin : begin + size])
            begin += size

    def _compute(self, instruction: int) -> None:
        opcode = self._opcode[instruction]
        reads, writes = self._operands(instruction)
        self._check_defined(instruction, reads)
        if opcode == "dma_copy" and len(reads) == len(writes) == 1:
            if self.regions.nbytes(reads[0]) != self.regions.nbytes(writes[0]):
                sizes = [self.regions.nbytes(access) for access in (reads[0], writes[0])]
                bad_input(f"`dma_copy` reads {sizes[0]} bytes and writes {sizes[1]}")
            self.memory.write(self.regions, writes[0], self.memory.read(self.regions, reads[0]))
            return
        if opcode in _COLLECTIVES:
            bad_input(f"`{opcode}` cannot be executed by a core", help=["compile the program: it lowers collectives"])
        if opcode == "memset":
            outputs = [TensorType(np.dtype(np.uint8), (self.regions.nbytes(access),)) for access in writes]
            results = evaluate(opcode, self._attributes(instruction), [], outputs)
        else:
            taken, given = operand_arrays(self.program, instruction)
            inputs = [self._typed(access, array) for access, array in zip(reads, taken, strict=True)]
            outputs = [self._type(access, array) for access, array in zip(writes, given, strict=True)]
            results = evaluate(opcode, self._attributes(instruction), inputs, outputs)
        for access, result in zip(writes, results, strict=True):
            self.memory.write(self.regions, access, result.reshape(-1).view(np.uint8))

    def _operands(self, instruction: int) -> tuple[Sequence[int], Sequence[int]]:
        """Rows of `accesses`: reads, writes."""
        begin, end = self._access_starts[instruction], self._access_starts[instruction + 1]
        middle = next((access for access in range(begin, end) if self._is_write[access]), end)
        return range(begin, middle), range(middle, end)

    def _attributes(self, instruction: int) -> dict[str, AttrValue]:
        text = int(self.program.instructions.attrs[instruction])
        if text not in self._attrs:
            self._attrs[text] = self.program.instruction_attrs(instruction)
        return self._attrs[text]

    def _type(self, access: int, array: Array) -> TensorType:
        output = TensorType(NUMPY[array.dtype], array.shape)
        touched = self.regions.nbytes(access)
        if output.nbytes != touched:
            bad_input(f"an operand is {output}, which is {output.nbytes} bytes, but touches {touched}")
        return output

    def _typed(self, access: int, array: Array) -> np.ndarray[Any, Any]:
        output = self._type(access, array)
        return self.memory.read(self.regions, access).view(output.dtype).reshape(output.shape)

    def _check_defined(self, instruction: int, reads: Sequence[int]) -> None:
        told: set[int] = set()
        for access in reads:
            undefined = self.memory.undefined(self.regions, access)
            location = int(self.program.accesses.location[access])
            if len(undefined) and location not in told and len(self.found) < _MOST:
                told.add(location)
                name = self.program.strings[int(self.program.locations.name[location])]
                self.found.add(
                    "uninitialized-read",
                    Severity.ERROR,
                    f"{int(undefined.sum())} of the {len(undefined)} bytes that it reads of %{name} have never been "
                    f"written, the first at byte {int(undefined.argmax())}",
                    instruction_label(self.program, instruction),
                    location_label(self.program, location),
                )

    def _at(self, instruction: int, error: HauloutError) -> HauloutError:
        label = instruction_label(self.program, instruction)
        return HauloutError(*(replace(each, labels=(label, *each.labels)) for each in error.diagnostics))


def check_patterns_known(program: Program, regions: Regions, instructions: np.ndarray[Any, Any]) -> None:
    """`bad-input` at the first of some instructions that touches bytes which are not known statically."""
    unknown = np.zeros(len(program.instructions), np.bool_)
    unknown[program.accesses.instruction[regions.run[regions.starts[:-1]] == NONE]] = True
    unknown[program.barriers.instruction] = False
    for row in instructions[unknown[instructions]][:1].tolist():
        bad_input(
            "it touches bytes that are not known statically (`?`); the simulator must know them",
            instruction_label(program, row),
        )
