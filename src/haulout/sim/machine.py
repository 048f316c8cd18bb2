"""One run's memory, and the effect of instructions on it.

An instruction is a step, bound to the places of its operands (`steps`): it reads, computes and writes in place. As a
`sendrecv` reads when it arrives and writes its partner's bytes when it completes, reading and writing are functions
of their own. A branch only reads its `cond`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.paths import named
from haulout.ir.program import Program
from haulout.ir.schema import Bytes
from haulout.sim.claims import Claims
from haulout.sim.flow.code import Code
from haulout.sim.flow.visits import Iteration
from haulout.sim.memory.arena import Memory
from haulout.sim.memory.extents import Extents
from haulout.sim.memory.layout import Layout
from haulout.sim.nki.binder import PREFIX
from haulout.sim.nki.call import Call
from haulout.sim.nki.registers import RegisterLog
from haulout.sim.steps.bind import Binder
from haulout.sim.steps.make import Step
from haulout.support.diagnostics import Diagnostic, Diagnostics, HauloutError, Severity, Span, bad_input

_MAX_FINDINGS = 20
"""Findings that are listed."""


class _Prepared(NamedTuple):
    """What all executions of an instruction share."""

    reads: tuple[int, ...]
    """Rows of `accesses`."""
    writes: tuple[int, ...]
    moves: bool
    """Whether an operand moves with the iterations."""


class Machine:
    """Executes the code of one program, each row at the moment that the schedule gives it."""

    def __init__(
        self,
        code: Code,
        memory: Memory,
        layout: Layout,
        found: Diagnostics,
        claims: Claims | None = None,
        registers: RegisterLog | None = None,
    ) -> None:
        self.code, self.memory, self.layout, self.found = code, memory, layout, found
        self.claims = claims if claims is not None and claims.rows else None
        self.program = code.program
        self.operands = memory.operands
        self._repeats = bool(code.sections.structure.loops)
        """Whether rows may run more than once, so that what they share is kept."""
        self._shows_fresh = _rows_of_nki(code)
        """Instructions of NKI may read elements that were never written, which are NaN, and not use the result."""
        self.fresh: set[int] = set()
        """Those that did."""
        self._known: dict[int, _Prepared] = {}
        self._exchanges: dict[int, Call | None] = {}
        self._binder = Binder(code, memory.operands, memory.bytes, layout, registers)
        self._steps: dict[tuple[int, tuple[int, ...]], Step] = {}
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
        call = self._exchange(instruction)
        if call is not None:
            call.state.log.begin(instruction)
            return np.ascontiguousarray(call.place("src").get()).reshape(-1).view(np.uint8).copy()
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
        call = self._exchange(instruction)
        if call is not None:
            dst = call.place("dst")
            dst.put(data.view(dst.dtype))
        begin = 0
        for access in writes:
            end = begin + self.operands[access].nbytes
            if call is None:
                self.memory.write(access, data[begin:end])
            self._written(instruction, access)
            begin = end

    def _exchange(self, instruction: int) -> Call | None:
        """The tensors of a `sendrecv` of NKI that says in which order it takes their elements."""
        if instruction not in self._exchanges:
            nki = self._binder.nki if self._shows_fresh[instruction] else None
            self._exchanges[instruction] = None if nki is None else nki.exchange(instruction)
        return self._exchanges[instruction]

    def takes(self, branch: int) -> bool:
        """Whether a branch takes the loop's body: the first element of `cond` is not zero."""
        operand = int(self.code.begin[branch])
        self._check_defined(branch, (operand,))
        data = self.memory.read(operand)
        dtype = self.program.strings.get(int(self.program.locations.dtype[self.operands.location[operand]]))
        return bool((data if dtype is None else data.view(NUMPY[dtype]) != 0).any())

    def _compute(self, instruction: int, around: Iteration) -> None:
        known = self._prepared(instruction)
        reads, writes = (self._operands(known, each, around) for each in (known.reads, known.writes))
        self._check_defined(instruction, reads)
        key = instruction, (*reads, *writes)
        step = self._steps.get(key)
        if step is None:
            step = self._binder.step(*key)
            if self._repeats:
                self._steps[key] = step
        step()
        for access in writes:
            self._written(instruction, access)

    def _written(self, instruction: int, operand: int) -> None:
        self.memory.written(operand)
        if self.claims is not None:
            self.claims.wrote(instruction, int(self.operands.location[operand]), self.memory.read(operand))

    def _prepared(self, instruction: int) -> _Prepared:
        known = self._known.get(instruction)
        if known is None:
            begin, middle, end = (
                int(column[instruction]) for column in (self.code.begin, self.code.middle, self.code.end)
            )
            known = _Prepared(
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

    def _check_defined(self, row: int, reads: Sequence[int]) -> None:
        if self._shows_fresh[row]:
            if row not in self.fresh and any(self.memory.undefined(operand) is not None for operand in reads):
                self.fresh.add(row)
            return
        for operand in reads:
            undefined = self.memory.undefined(operand)
            if undefined is None or len(self.found) >= _MAX_FINDINGS:
                continue
            location = int(self.operands.location[operand])
            if (row, location) in self._reported:
                continue
            self._reported.add((row, location))
            name = named(self.program, location)
            self.found.add(
                "uninitialized-read",
                Severity.ERROR,
                f"{undefined[0]} of the bytes that it reads of {name} were never written, the first at byte "
                f"{self.layout.byte_of(location, undefined[1])}",
                self.code.label(row),
                location_label(self.program, location),
            )

    def remarks(self) -> Iterator[Diagnostic]:
        """Values whose result on the device is not known, once for each source line."""
        if self._binder.nki is None:
            return
        said: set[tuple[str, Span | None]] = set()
        for (row, kind), text in sorted(self._binder.nki.remarks.texts.items()):
            label = self.code.label(row)
            if (kind, label.span) not in said:
                said.add((kind, label.span))
                yield Diagnostic("undefined-result", Severity.NOTE, text, (label,))

    def _at(self, instruction: int, error: HauloutError) -> HauloutError:
        label = self.code.label(instruction)
        return HauloutError(*(replace(each, labels=(label, *each.labels)) for each in error.diagnostics))


def _rows_of_nki(code: Code) -> list[bool]:
    program = code.program
    opcodes = [number for number, text in enumerate(program.strings) if text.startswith(PREFIX)]
    found = np.isin(program.instructions.opcode, opcodes)
    if found.any():
        exchanges = [number for number, text in enumerate(program.strings) if text == "sendrecv"]
        found |= np.isin(program.instructions.opcode, exchanges)
    return [*found.tolist(), *[False] * (len(code) - len(found))]


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
