"""Atomic accesses: read-modify-writes that happen in one step, and which of them may run in either order.

An instruction that accumulates (`add @dma0 (%acc, %x) -> (%acc) atomic=[0,2]`) reads bytes and writes them back; its
two atomic operands are these. Accumulations with one operation and one element type commute: what the bytes hold in
the end is the same in every order (sums and products of floats but for their rounding). So they need no order among
each other. Anything else that touches the bytes does.

`fetch_and_op` writes the value that it found to another place as well. That value depends on the order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.ir import dtypes
from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.opcodes import COMMUTING, FETCH
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids


@dataclass(frozen=True, slots=True)
class Atomics:
    """What the atomic accesses of a program do."""

    kind: Ids
    """Of each access: 0 when it is ordinary; atomic accesses of equal kinds commute."""
    fetches: Bools
    """Of each access: it is atomic, and its instruction hands on the value that it found."""


def find_atomics(program: Program) -> Atomics:
    """The kinds of all accesses."""
    accesses, instructions = program.accesses, program.instructions
    kind = np.zeros(len(accesses), np.int32)
    fetches = np.zeros(len(accesses), bool)
    atomic = np.flatnonzero(accesses.atomic)
    if not len(atomic):
        return Atomics(kind, fetches)
    # Copies of an instruction, in loops that are written out, say the same.
    row = accesses.instruction[atomic]
    number = atomic - program.access_starts[row]
    said = np.stack([instructions.opcode[row], instructions.attrs[row], accesses.location[atomic], number])
    _, first, which = np.unique(said, axis=1, return_index=True, return_inverse=True)
    numbers: dict[tuple[str | None, str | None], int] = {}
    found = []
    for access in atomic[first].tolist():
        key = accumulates(program, int(accesses.instruction[access])), element_type(program, access)
        found.append(numbers.setdefault(key, len(numbers) + 1))
    kind[atomic] = np.array(found, np.int32)[which.ravel()]
    fetches[atomic] = instructions.opcode[row] == program.strings.find(FETCH)
    return Atomics(kind, fetches)


def accumulates(program: Program, instruction: int) -> str | None:
    """The operation by which an instruction changes what it reads; None when it is none that commutes."""
    opcode = program.strings[int(program.instructions.opcode[instruction])]
    operation = program.instruction_attrs(instruction).get("op") if opcode == FETCH else opcode
    return operation if isinstance(operation, str) and operation in COMMUTING else None


def element_type(program: Program, access: int) -> str | None:
    """The element type of an operand: what its instruction says, else its location, else the location's owner."""
    row = int(program.accesses.instruction[access])
    listed = program.instruction_attrs(row).get("dtypes")
    number = access - int(program.access_starts[row])
    if isinstance(listed, list) and number < len(listed):
        return listed[number] if isinstance(listed[number], str) else None  # type: ignore[return-value]
    location = int(program.accesses.location[access])
    for place in (location, int(program.owner[location])):
        if place != NONE and program.locations.dtype[place] != NONE:
            return program.strings[int(program.locations.dtype[place])]
    return None


def access_sorts(program: Program) -> Ids:
    """Of each access its sort: 0 a write, 1 a read, then a pair for each kind of atomic accesses.

    The accesses of a `fetch_and_op` count as ordinary ones: a compiler keeps the order that decides what it fetches.
    """
    atomics = find_atomics(program)
    kind = np.where(atomics.fetches, 0, atomics.kind)
    found: Ids = (2 * kind + ~program.accesses.write).astype(np.int32)
    return found


def atomic_fault(program: Program, row: int, operands: list[int]) -> str | None:
    """Why some operands of an instruction cannot be atomic."""
    accesses, first = program.accesses, int(program.access_starts[row])
    opcode = program.strings[int(program.instructions.opcode[row])]
    if accumulates(program, row) is None:
        listed = ", ".join(sorted(COMMUTING))
        what = f"{FETCH} needs op= to be one of" if opcode == FETCH else f"{format_name(opcode)} is none of {FETCH},"
        return f"it cannot be atomic: {what} {listed}"
    if [bool(accesses.write[access]) for access in operands] != [False, True]:
        return "atomic= needs two operands, one that is read and one that is written"
    read, write = operands
    sides = []
    for access in operands:
        owner, pattern = int(program.owner[accesses.location[access]]), program.pattern(int(accesses.pattern[access]))
        sides.append((owner, pattern, _steps_of(program, access)))
    if sides[0] != sides[1]:
        return "its atomic operands must be the same bytes, read and written"
    if opcode == FETCH and (read != first or not bool(accesses.write[write]) or accesses.write[write - 1]):
        return f"{FETCH}: atomic= must name the first that is read and the first that is written"
    types = {element_type(program, access) for access in operands}
    (dtype, *more) = types
    if dtype not in dtypes.NUMPY or more:
        return "its atomic operands need one element type"
    item = dtypes.itemsize(str(dtype))
    _, pattern, steps = sides[0]
    places = [stride for _, stride, _, _ in steps]
    if pattern is not None and not pattern.is_unknown:
        places += [pattern.offset, pattern.run, *(stride for stride, _ in pattern.dims)]
    if any(place % item for place in places):
        return f"its atomic operands must be whole elements, of {item} bytes each"
    return None


def _steps_of(program: Program, access: int) -> tuple[tuple[int, int, int, int], ...]:
    """(header, stride, modulus, phase) of the steps of an operand."""
    steps = program.steps
    rows = slice(*np.searchsorted(steps.access, [access, access + 1]).tolist())
    columns = (steps.header, steps.stride, steps.modulus, steps.phase)
    return tuple(sorted(zip(*(column[rows].tolist() for column in columns), strict=True)))
