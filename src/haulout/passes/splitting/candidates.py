"""What may be cut: locations that are equal within classes of cores, and the operations that write them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from haulout.analysis.core_labels import core_labels
from haulout.ir.dtypes import itemsize
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.patterns import row_major_strides
from haulout.ir.program import Program
from haulout.ir.schema import Bools
from haulout.passes.splitting.asked_cuts import add_asked_cuts
from haulout.passes.splitting.keys import Key, Operand
from haulout.passes.splitting.operations import Classes, Operation, read_operation


@dataclass(slots=True)
class Candidates:
    """Locations and instructions by their rows on the first core."""

    classes: dict[int, Classes]
    """Of each location that is equal within classes of one size, two or more, those classes."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes of each location that may be cut; all that write it are in `operations`."""
    operations: dict[int, Operation] = field(default_factory=dict)
    """Operations that may be cut."""
    kept: dict[int, str] = field(default_factory=dict)
    """Why other locations stay as they are, of those that instructions write."""
    refused: set[int] = field(default_factory=set)
    """Operations that cannot be cut by themselves."""


def find_candidates(program: Program) -> Candidates:
    """What may be cut; the cores must run in lockstep."""
    found = Candidates(_classes(program))
    writers, apart = _writers(program), _touched_apart(program)
    for location in found.classes:
        if writers[location]:
            reason = _obstacle(program, location, bool(apart[location]))
            if reason is None:
                found.sizes[location] = int(program.locations.size[location])
            else:
                found.kept[location] = reason
    rows = sorted({row for location in found.sizes for row in writers[location]})
    starts, accesses = program.access_starts, program.accesses
    for row in rows:
        mine = slice(int(starts[row]), int(starts[row + 1]))
        results = np.unique(accesses.location[mine][accesses.write[mine]]).tolist()
        alike = all(each in found.sizes for each in results) and len({found.classes[e] for e in results}) == 1
        if alike:
            operation = read_operation(program, row, found.classes[results[0]])
            if operation is not None:
                found.operations[row] = _keyed(program, operation)
            else:
                found.refused.add(row)
    wholes = {at: whole for at in found.sizes if (whole := _whole(program, at)) is not None}
    add_asked_cuts(found.operations, found.sizes, wholes, lambda it, axes: _keyed(program, replace(it, axes=axes)))
    for row in [row for row, operation in found.operations.items() if not operation.axes]:
        del found.operations[row]
        found.refused.add(row)
    _withdraw(program, found, writers)
    return found


def _classes(program: Program) -> dict[int, Classes]:
    found: dict[int, Classes] = {}
    known: dict[bytes, Classes | None] = {}
    for location, labels in enumerate(core_labels(program)):
        key = labels.tobytes()
        if key not in known:
            made = tuple(tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels).tolist())
            sizes = {len(each) for each in made}
            known[key] = made if len(sizes) == 1 and min(sizes) > 1 else None
        classes = known[key]
        if classes is not None:
            found[location] = classes
    return found


def _writers(program: Program) -> dict[int, list[int]]:
    """Rows that write each location, on the first core."""
    accesses = program.accesses
    found: defaultdict[int, list[int]] = defaultdict(list)
    for access in np.flatnonzero(accesses.write[: len(accesses) // program.lnc]).tolist():
        found[int(accesses.location[access])].append(int(accesses.instruction[access]))
    return found


def _obstacle(program: Program, location: int, apart: bool) -> str | None:
    """What keeps a location from being cut, whatever writes it."""
    locations = program.locations
    if locations.space[location] != Space.DRAM_LOCAL or locations.address[location] != NONE:
        return "it has an address, is shared already, or is not in DRAM"
    if (
        not np.isin(locations.kind[location], (Kind.INTERNAL, Kind.OUTPUT, Kind.INOUT))
        or not locations.size[location]
    ):
        return "it is an input that the program writes"
    if location in program.blocks.cond:
        return "a loop or a branch depends on it"
    if apart:
        return "cores that take different branches touch it"
    return None


def _touched_apart(program: Program) -> Bools:
    """Whether each location is touched in a divergent branch."""
    structure, accesses = program.structure, program.accesses
    apart = np.array([structure.divergent_fork(block) != NONE for block in range(len(program.blocks))], bool)
    found = np.zeros(len(program.locations), bool)
    if apart.any():
        found[accesses.location[apart[program.instructions.block[accesses.instruction]]]] = True
    return found


def _keyed(program: Program, operation: Operation) -> Operation:
    """The operation with those cuts alone whose parts write disjoint elements and read no other part of a result."""
    results = [(operand.location, at) for at, operand in enumerate(operation.operands) if operand.write]
    axes = []
    for axis in operation.axes:
        written = {location: axis.keys[at] for location, at in results}
        if len(written) != len(results) or not all(_is_whole(program, *each) for each in written.items()):
            continue
        mine = zip(operation.operands, axis.keys, strict=True)
        if all(operand.write or written.get(operand.location, key) == key for operand, key in mine):
            axes.append(axis)
    return replace(operation, axes=tuple(axes))


def _whole(program: Program, location: int) -> Operand | None:
    """All of a location, as an array."""
    dtype = program.strings.get(int(program.locations.dtype[location]))
    if dtype is None:
        return None
    shape, size = program.shape(location), itemsize(dtype)
    return Operand(NONE, location, True, size, 0, shape, tuple(row_major_strides(shape, size)))


def _is_whole(program: Program, location: int, key: Key | None) -> bool:
    """Whether there is a key, and no element of the location belongs to two parts."""
    if key is None or key.period > program.locations.size[location]:
        return False
    dtype = program.strings.get(int(program.locations.dtype[location]))
    return key.unit % (itemsize(dtype) if dtype is not None else 1) == 0


def _withdraw(program: Program, found: Candidates, writers: dict[int, list[int]]) -> None:
    """A location stays as it is if one of its writers does, and then so do the other results of its writers."""
    instructions, strings = program.instructions, program.strings
    doubtful: list[tuple[int, str]] = []
    for location in found.sizes:
        stays = next((row for row in writers[location] if row not in found.operations), None)
        if stays is not None:
            opcode = strings[int(instructions.opcode[stays])]
            doubtful.append((location, f"{opcode} writes it, which cannot be cut here"))
    while doubtful:
        location, reason = doubtful.pop()
        if found.sizes.pop(location, None) is None:
            continue
        found.kept[location] = reason
        for row in writers[location]:
            operation = found.operations.pop(row, None)
            for operand in operation.operands if operation else ():
                if operand.write:
                    doubtful.append((operand.location, "it is written together with what cannot be cut"))
