"""fold_constants: what is known on each core before it runs, above all what follows from its partition id.

A partitioned module asks for its partition id and computes offsets from it. Here every core is compiled by itself, so
the id is a constant and the offsets are too. Small instructions whose operands are all constants are executed and
become constants; a dynamic slice or update at constant offsets becomes a copy of exactly known bytes, so that no
later analysis has to take it for an access to the whole location.

Whether an instruction folds depends on kinds and sizes, never on values, so all cores keep the same instructions.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from haulout.ir import dtypes
from haulout.ir.arrays import Array, operand_arrays, require_bytes
from haulout.ir.edit import compact, drop_locations
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.rows import Changes, Operand
from haulout.ir.schema import Bools, Ints
from haulout.passes.base import Pass, PassContext
from haulout.passes.make_room import make_room
from haulout.sim.numerics import TensorType, evaluate
from haulout.sim.numerics.evaluate import KERNELS
from haulout.support.diagnostics import HauloutError, bad_input

LIMIT = 1024
"""Bytes of a result that is worth storing."""
SMALL = 64
"""Bytes that a result may have whatever it is made from. Beyond them a constant must not grow: a broadcast one would
be live in the whole function, and is better computed where it is needed."""


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Executes what is constant, and makes dynamic slices and updates at constant places static.

    Before: sound. After: the program computes the same; constants that nothing reads any more are gone.
    """

    name: ClassVar[str] = "fold_constants"

    def run(self, program: Program, context: PassContext) -> Program:
        """Rounds of folding until nothing changes, then static slices."""
        folded = 0
        while len(rows := _foldable(program)):
            program = _execute(program, rows)
            folded += len(rows)
        program, static = _static_slices(program)
        used = np.zeros(len(program.locations), bool)
        used[program.owner[program.accesses.location]] = True
        used[program.owner[program.locations.remote_name != NONE]] = True
        used[program.blocks.cond[program.blocks.cond != NONE]] = True
        dead = (program.locations.kind == Kind.CONST) & ~used
        context.count(self.name, folded=folded, static_slices=static, dead_constants=int(dead.sum()))
        return drop_locations(program, ~dead) if dead.any() else program


def _per_instruction(program: Program, flags: Bools) -> Bools:
    """Whether a flag of accesses holds for all operands of each instruction."""
    broken = np.zeros(len(program.instructions), bool)
    broken[program.accesses.instruction[~flags]] = True
    result: Bools = ~broken
    return result


def _foldable(program: Program) -> Any:
    """Rows whose operands are constants that nothing writes, and whose results are small, whole, local, internal, not
    placed yet and written nowhere else."""
    accesses, locations = program.accesses, program.locations
    const = _constants(program) & (locations.dtype != NONE)
    writers = _writers(program)
    result_fits = (locations.kind == Kind.INTERNAL) & (locations.space == Space.DRAM_LOCAL) & (writers == 1)
    result_fits &= (locations.size <= LIMIT) & (locations.dtype != NONE) & (locations.address == NONE)
    known_bytes = np.append(program.patterns.run != NONE, True)[accesses.pattern]
    at = accesses.location
    read = ~accesses.write
    # group by instruction: bytes of the constants that it reads
    source = np.bincount(accesses.instruction[read], locations.size[at[read]], minlength=len(program.instructions))
    no_growth = locations.size[at] <= np.maximum(source[accesses.instruction], SMALL)
    fits = result_fits[at] & no_growth & (accesses.pattern == NONE)
    good = np.where(accesses.write, fits, const[at] & known_bytes)
    known = np.array([text in KERNELS for text in program.strings])
    some_write = np.zeros(len(program.instructions), bool)
    some_write[accesses.instruction[accesses.write]] = True
    reads_const = np.zeros(len(program.instructions), bool)
    reads_const[accesses.instruction[~accesses.write]] = True
    candidate = _per_instruction(program, good) & known[program.instructions.opcode] & some_write & reads_const
    return np.flatnonzero(candidate)


def _writers(program: Program) -> Ints:
    """Writes to each location, under its own name or through views."""
    accesses = program.accesses
    counts: Ints = np.bincount(program.owner[accesses.location[accesses.write]], minlength=len(program.locations))
    return counts


def _constants(program: Program) -> Bools:
    """Locations whose contents are known and stay."""
    locations = program.locations
    known: Bools = (locations.kind == Kind.CONST) & (locations.data != NONE) & (_writers(program) == 0)
    return known


def _contents(program: Program, array: Array) -> np.ndarray[Any, Any]:
    """The value of a constant operand."""
    text = program.strings[int(program.locations.data[array.location])]
    data = np.frombuffer(base64.b64decode(text), np.uint8)
    if array.pattern is not None:
        data = data[array.pattern.bytes()]
    return np.frombuffer(data.tobytes(), dtypes.NUMPY[array.dtype]).reshape(array.shape)


def _execute(program: Program, rows: Any) -> Program:
    """Run the instructions; their results become constants and they go."""
    data, kind = program.locations.data.copy(), program.locations.kind.copy()
    for row in rows.tolist():
        opcode = program.strings[int(program.instructions.opcode[row])]
        reads, writes = operand_arrays(program, row)
        if opcode == "dma_copy":
            _require_copy(program, row, reads, writes)
            text = base64.b64decode(program.strings[int(program.locations.data[reads[0].location])])
            whole = np.frombuffer(text, np.uint8)
            values = [whole if reads[0].pattern is None else whole[reads[0].pattern.bytes()]]
        else:
            require_bytes(program, row, reads + writes)
            types = [TensorType(dtypes.NUMPY[out.dtype], out.shape) for out in writes]
            inputs = [_contents(program, array) for array in reads]
            try:
                values = list(evaluate(opcode, program.instruction_attrs(row), inputs, types))
            except HauloutError as error:
                label = instruction_label(program, row)
                raise HauloutError(*(replace(each, labels=(label,)) for each in error.diagnostics)) from error
        for out, value in zip(writes, values, strict=True):
            data[out.location] = program.strings.intern(base64.b64encode(value.tobytes()).decode())
            kind[out.location] = int(Kind.CONST)
    keep = np.ones(len(program.instructions), bool)
    keep[rows] = False
    locations = program.locations.replace(data=data, kind=kind)
    return compact(program.replace(locations=locations), keep)[0]


def _require_copy(program: Program, row: int, reads: list[Array], writes: list[Array]) -> None:
    """`bad-input` unless it copies one operand to one result of as many bytes."""
    sizes = [program.locations.size[each.location] if each.pattern is None else each.pattern.nbytes for each in reads]
    if len(reads) != 1 or len(writes) != 1 or sizes[0] != program.locations.size[writes[0].location]:
        bad_input("a copy has one operand and one result of as many bytes", instruction_label(program, row))


def _static_slices(program: Program) -> tuple[Program, int]:
    """dynamic_slice and dynamic_update_slice at constant offsets, as copies with exact patterns.

    An update that is not in place is two copies, of the whole and of the piece, each with a `seq` of its own.
    """
    opcode, strings = program.instructions.opcode, program.strings
    updates = opcode == strings.find("dynamic_update_slice")
    rows = np.flatnonzero(updates | (opcode == strings.find("dynamic_slice"))).tolist()
    known = _constants(program)
    found = [each for row in rows if (each := _static_slice(program, row, known, bool(updates[row]))) is not None]
    double = np.zeros(len(program.instructions), bool)
    double[[each.row for each in found if each.update is not None]] = True
    program = make_room(program, double, 2)
    changes, taken = Changes(program), set(program.instructions.name.tolist())
    for each in found:
        name = program.instruction_name(each.row)
        _copy(changes, each.row, name, *each.copy)
        if each.update is not None:
            _copy(changes, each.row, _free_name(program, f"{name}.update", taken), *each.update, part=1)
        changes.delete(each.row)
    return (changes.apply()[0], len(found)) if found else (program, 0)


@dataclass(frozen=True, slots=True)
class _Static:
    """What a slice or an update at a constant place becomes: a copy (source, target), perhaps a second behind it."""

    row: int
    copy: tuple[Operand, Operand]
    update: tuple[Operand, Operand] | None = None


def _static_slice(program: Program, row: int, known: Bools, update: bool) -> _Static | None:
    """The copies for one slice or update; None: it stays as it is."""
    reads, writes = operand_arrays(program, row)
    if len(reads) < 1 + update or len(writes) != 1:
        bad_input(f"{len(reads)} operands and {len(writes)} results", instruction_label(program, row))
    source, starts, target = reads[0], reads[1 + update :], writes[0]
    constant = all(known[start.location] and (start.pattern is None or start.pattern.run != NONE) for start in starts)
    if not constant or any(array.pattern is not None for array in (source, target)):
        return None
    require_bytes(program, row, reads + writes)
    piece = reads[1] if update else target
    _require_box(program, row, source, piece, starts)
    extents = list(piece.shape)
    # HLO clamps the start so that the box is inside.
    places = [
        min(max(int(_contents(program, start).reshape(())), 0), size - extent)
        for start, size, extent in zip(starts, source.shape, extents, strict=True)
    ]
    box = source.box(places, extents)
    if not update:
        return _Static(row, ((source.location, box), target.operand))
    if source.location == target.location:
        return _Static(row, (piece.operand, (source.location, box)))
    if program.owner[piece.location] == program.owner[target.location]:
        return None  # the copy of the whole would overwrite the piece
    return _Static(row, (source.operand, target.operand), (piece.operand, (target.location, box)))


def _require_box(program: Program, row: int, source: Array, piece: Array, starts: list[Array]) -> None:
    """`bad-input` unless `piece` is a box of `source`, with one scalar start for each axis."""
    fits = len(piece.shape) == len(source.shape) and piece.dtype == source.dtype
    if not fits or any(extent > size for extent, size in zip(piece.shape, source.shape, strict=True)):
        bad_input(f"a piece {piece} is no box of {source}", instruction_label(program, row))
    if len(starts) != len(source.shape) or any(start.shape or start.dtype[0] not in "su" for start in starts):
        bad_input(
            f"{len(starts)} starts for {len(source.shape)} axes, expected one scalar integer for each",
            instruction_label(program, row),
        )


def _free_name(program: Program, name: str, taken: set[int]) -> str:
    """The name, or one with a number where an instruction has it."""
    free, count = name, 0
    while program.strings.find(free) in taken - {NONE}:
        count += 1
        free = f"{name}{count}"
    return free


def _copy(changes: Changes, row: int, name: str, source: Operand, target: Operand, part: int = 0) -> None:
    """A copy on the instruction's own engine, at its own time or `part` behind it."""
    rows = changes.program.instructions
    engine, seq = Engine(int(rows.engine[row])), int(rows.seq[row])
    time = NONE if seq == NONE else seq + part
    changes.instruction(row, name, "dma_copy", engine, [source], [target], seq=time)
