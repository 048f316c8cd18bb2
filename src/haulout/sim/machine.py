"""One run's memory, and the effect of instructions on it.

An instruction reads its operands, computes (`numerics.evaluate`), and writes its results. Reading and writing are
separate functions, because a `sendrecv` reads when it arrives and writes its partner's bytes when it completes. A
branch only reads its `cond`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from haulout.ir.arrays import operand_arrays
from haulout.ir.attributes import AttrValue
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.opcodes import lookup
from haulout.ir.program import Program
from haulout.ir.schema import Bytes
from haulout.sim.claims import Claims
from haulout.sim.flow.code import Code
from haulout.sim.flow.visits import Iteration
from haulout.sim.memory.arena import Memory
from haulout.sim.memory.extents import Extents
from haulout.sim.memory.layout import Layout
from haulout.sim.numerics import TensorType, evaluate
from haulout.support.diagnostics import Diagnostics, HauloutError, Severity, bad_input

_MAX_FINDINGS = 20
"""Findings that are listed."""
_BYTE: np.dtype[Any] = np.dtype(np.uint8)


class _Prepared(NamedTuple):
    """What all executions of an instruction share."""

    opcode: str
    reads: tuple[int, ...]
    """Rows of `accesses`."""
    writes: tuple[int, ...]
    moves: bool
    """Whether an operand moves with the iterations."""


class Machine:
    """Executes the code of one program, each row at the moment that the schedule gives it."""

    def __init__(
        self, code: Code, memory: Memory, layout: Layout, found: Diagnostics, claims: Claims | None = None
    ) -> None:
        self.code, self.memory, self.layout, self.found = code, memory, layout, found
        self.claims = claims if claims is not None and claims.rows else None
        self.program = code.program
        self.operands = memory.operands
        self._repeats = bool(code.sections.structure.loops)
        """Whether rows may run more than once, so that what they share is kept."""
        self._known: dict[int, _Prepared] = {}
        self._attrs: dict[int, dict[str, AttrValue]] = {}
        self._types: dict[tuple[int, int, int], TensorType] = {}
        self._typed_rows: dict[int, list[TensorType]] = {}
        self._reported: set[tuple[int, int]] = set()

    def execute(self, instruction: int, around: Iteration) -> None:
        """Read, compute and write, at once; `around`: the iterations of the loops around it."""
        try:
            self._compute(instruction, around)
        except HauloutError as error:
            raise self._at(instruction, error) from None

    def read(self, instruction: int, around: Iteration) -> Bytes:
        """All bytes that an instruction reads, in the order of its operands."""
        known = self._prepared(instruction)
        reads = self._operands(known, known.reads, around)
        self._check_defined(instruction, reads)
        return np.concatenate([np.zeros(0, np.uint8), *map(self.memory.read, reads)])

    def write(self, instruction: int, data: Bytes, around: Iteration) -> None:
        """Put bytes into what an instruction writes, in the order of its operands."""
        known = self._prepared(instruction)
        writes = self._operands(known, known.writes, around)
        wanted = sum(self.operands[access].nbytes for access in writes)
        if wanted != len(data):
            bad_input(
                f"it receives {len(data)} bytes, but its destination has {wanted}", self.code.label(instruction)
            )
        begin = 0
        for access in writes:
            end = begin + self.operands[access].nbytes
            self._store(instruction, access, data[begin:end])
            begin = end

    def takes(self, branch: int) -> bool:
        """Whether a branch takes the loop's body: the first element of `cond` is not zero."""
        operand = int(self.code.begin[branch])
        self._check_defined(branch, (operand,))
        data = self.memory.read(operand)
        dtype = self.program.strings.get(int(self.program.locations.dtype[self.operands.location[operand]]))
        return bool((data if dtype is None else data.view(NUMPY[dtype]) != 0).any())

    def _compute(self, instruction: int, around: Iteration) -> None:
        known = self._prepared(instruction)
        opcode = known.opcode
        reads, writes = (self._operands(known, each, around) for each in (known.reads, known.writes))
        self._check_defined(instruction, reads)
        if opcode == "dma_copy" and len(reads) == len(writes) == 1:
            sizes = [self.operands[access].nbytes for access in (reads[0], writes[0])]
            if sizes[0] != sizes[1]:
                bad_input(f"`dma_copy` reads {sizes[0]} bytes and writes {sizes[1]}")
            self._store(instruction, writes[0], self.memory.read(reads[0]))
            return
        if lookup(opcode).collective:
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
            self._store(instruction, access, result.reshape(-1).view(np.uint8))

    def _store(self, instruction: int, operand: int, data: Bytes) -> None:
        if self.claims is not None:
            self.claims.wrote(instruction, int(self.operands.location[operand]), data)
        self.memory.write(operand, data)

    def _prepared(self, instruction: int) -> _Prepared:
        known = self._known.get(instruction)
        if known is None:
            begin, middle, end = (
                int(column[instruction]) for column in (self.code.begin, self.code.middle, self.code.end)
            )
            known = _Prepared(
                self.program.strings[int(self.program.instructions.opcode[instruction])],
                tuple(range(begin, middle)),
                tuple(range(middle, end)),
                instruction in self.operands.strided.moving,
            )
            if self._repeats:
                self._known[instruction] = known
        return known

    def _operands(self, known: _Prepared, accesses: tuple[int, ...], around: Iteration) -> tuple[int, ...]:
        """The operands of accesses, where the iteration takes them."""
        if not known.moves:
            return accesses
        return tuple(self.operands.strided.operand(access, around) for access in accesses)

    def _attributes(self, instruction: int) -> dict[str, AttrValue]:
        text = int(self.program.instructions.attrs[instruction])
        if text not in self._attrs:
            self._attrs[text] = self.program.instruction_attrs(instruction)
        return self._attrs[text]

    def _typed(self, instruction: int) -> list[TensorType]:
        """Types of all operands, reads first; they follow from the attributes' text, the place, and the location."""
        if instruction in self._typed_rows:
            return self._typed_rows[instruction]
        known = self._prepared(instruction)
        accesses = (*known.reads, *known.writes)
        text = int(self.program.instructions.attrs[instruction])
        keys = [(text, at, int(self.operands.location[access])) for at, access in enumerate(accesses)]
        if not all(key in self._types for key in keys):
            for key, array in zip(keys, chain(*operand_arrays(self.program, instruction)), strict=True):
                self._types[key] = TensorType(NUMPY[array.dtype], array.shape)
        types = [self._types[key] for key in keys]
        for access, each in zip(accesses, types, strict=True):
            if each.nbytes != self.operands[access].nbytes:
                touched = self.operands[access].nbytes
                bad_input(f"an operand is {each}, which is {each.nbytes} bytes, but touches {touched}")
        if self._repeats:
            self._typed_rows[instruction] = types
        return types

    def _check_defined(self, row: int, reads: Sequence[int]) -> None:
        for operand in reads:
            undefined = self.memory.undefined(operand)
            if undefined is None or len(self.found) >= _MAX_FINDINGS:
                continue
            location = int(self.operands.location[operand])
            if (row, location) in self._reported:
                continue
            self._reported.add((row, location))
            name = self.program.strings[int(self.program.locations.name[location])]
            self.found.add(
                "uninitialized-read",
                Severity.ERROR,
                f"{undefined[0]} of the bytes that it reads of %{name} were never written, the first at byte "
                f"{self.layout.byte_of(location, undefined[1])}",
                self.code.label(row),
                location_label(self.program, location),
            )

    def _at(self, instruction: int, error: HauloutError) -> HauloutError:
        label = self.code.label(instruction)
        return HauloutError(*(replace(each, labels=(label, *each.labels)) for each in error.diagnostics))


def check_patterns_known(program: Program, extents: Extents, instructions: np.ndarray[Any, Any]) -> None:
    """`bad-input` at the first of some instructions that touches bytes which are not known statically."""
    unknown = np.zeros(len(program.instructions), np.bool_)
    first = extents.starts[: len(program.accesses)]
    unknown[program.accesses.instruction[extents.run[first] == NONE]] = True
    unknown[program.barriers.instruction] = False
    for row in instructions[unknown[instructions]][:1].tolist():
        bad_input(
            "it touches bytes that are not known statically (`?`), which the simulator does not support",
            instruction_label(program, row),
        )
