"""split_uniform: values that several cores would compute alike are computed in parts, and stored once.

1. Labels: which cores hold equal bytes of each location (`analysis/core_labels.py`).
2. Candidates: locations that are equal within classes of one size, and that operations write which can be cut.
3. Cuts (`splitting/choose.py`): every candidate gets a key, every operation that writes one an axis.
4. Storage: where all that touch a location agree with its key, each core holds its part alone, in a local location of
   that size, and no fence is needed. Otherwise the location becomes a shared one with views; the fences come from
   orders 79 to 84, as for any conflict.
5. Parts: on each core the same instruction on boxes of its operands. An `all_reduce` becomes a `reduce_scatter` into
   the core's piece of the result, an `all_gather` a copy of the core's operand to its place.

The proof needs nothing of this: the checker judges order, storage and addresses of the result as of any other program.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from haulout.analysis.core_labels import core_labels
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.lockstep import runs_in_lockstep
from haulout.ir.program import Program
from haulout.passes.base import Pass, PassContext
from haulout.passes.splitting.choose import Chooser, Cuts
from haulout.passes.splitting.operations import Operation, Partition, read_operation
from haulout.passes.splitting.parts import emit_parts


@dataclass(frozen=True)
class SplitUniform(Pass):
    """Divides work that several cores would do alike, and stores its results once.

    Before: sound; cores in lockstep (`ir/lockstep.py`), else nothing changes. After: locations keep their names and
    together the same values; a location that is cut into parts of its own on each core has the size of a part.
    """

    name: ClassVar[str] = "split_uniform"
    cross_core: ClassVar[bool] = True

    def run(self, program: Program, context: PassContext) -> Program:
        """The steps of the module docstring."""
        if not runs_in_lockstep(program):
            context.count(self.name, operations=0)
            return program
        partitions = _partitions(program)
        operations, sizes = _candidates(program, partitions)
        if not sizes:
            context.count(self.name, operations=0)
            return program
        cuts = Chooser(operations, sizes).run()
        cuts = _worthwhile(program, operations, cuts)
        local = _local_parts(program, operations, cuts, partitions)
        shared = sorted(set(cuts.keys) - local)
        saved = 0
        for location in cuts.keys:
            saved += sizes[location] * (program.lnc - len(partitions[location]))
        context.count(
            self.name, operations=len(cuts.axes), local_parts=len(local), shared=len(shared), saved_bytes=saved
        )
        return emit_parts(program, operations, cuts, partitions, local)


def _partitions(program: Program) -> dict[int, Partition]:
    """Of each location of the first core that is equal within classes of one size, two or more, those classes."""
    found: dict[int, Partition] = {}
    known: dict[bytes, Partition | None] = {}
    for location, labels in enumerate(core_labels(program)):
        key = labels.tobytes()
        if key not in known:
            classes = tuple(tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels).tolist())
            sizes = {len(each) for each in classes}
            known[key] = classes if len(sizes) == 1 and min(sizes) > 1 else None
        partition = known[key]
        if partition is not None:
            found[location] = partition
    return found


def _candidates(program: Program, partitions: dict[int, Partition]) -> tuple[dict[int, Operation], dict[int, int]]:
    """Operations that may be cut, by row, and the bytes of the locations that they write and that may be cut."""
    locations, accesses = program.locations, program.accesses
    rows = len(program.instructions) // program.lnc
    fits = np.isin(locations.kind, (Kind.INTERNAL, Kind.OUTPUT, Kind.INOUT)) & (locations.space == Space.DRAM_LOCAL)
    fits &= (locations.address == NONE) & (locations.size > 0)
    fits[program.owner[locations.remote_name != NONE]] = False
    fits[program.blocks.cond[program.blocks.cond != NONE]] = False
    structure = program.structure
    apart = np.array([structure.divergent_fork(block) != NONE for block in range(len(program.blocks))], bool)
    fits[accesses.location[apart[program.instructions.block[accesses.instruction]]]] = False
    fits[accesses.location[program.steps.access]] = False
    sizes = {at: int(locations.size[at]) for at in partitions if fits[at]}
    starts = program.access_starts
    operations: dict[int, Operation] = {}
    writers: dict[int, list[int]] = defaultdict(list)
    for row in range(rows):
        mine = range(int(starts[row]), int(starts[row + 1]))
        results = {int(accesses.location[at]) for at in mine if accesses.write[at]}
        for each in results:
            writers[each].append(row)
        if results and all(each in sizes for each in results) and len({partitions[each] for each in results}) == 1:
            operation = read_operation(program, row, partitions[min(results)])
            if operation is not None and (operation := _keyed(operation)) is not None:
                operations[row] = operation
    # A location stays as it is if one of its writers does, and then so do the other results of its writers.
    doubtful = [at for at in sizes if not writers[at] or any(row not in operations for row in writers[at])]
    while doubtful:
        at = doubtful.pop()
        if sizes.pop(at, None) is None:
            continue
        for row in writers[at]:
            operation = operations.pop(row, None)
            doubtful += [each.location for each in operation.operands if each.write] if operation else []
    return operations, sizes


def _keyed(operation: Operation) -> Operation | None:
    """The operation with those cuts alone whose parts write disjoint bytes, and read of a result their own part."""
    results = [(operand.location, at) for at, operand in enumerate(operation.operands) if operand.write]
    axes = []
    for axis in operation.axes:
        keys = dict.fromkeys(location for location, _ in results)
        written = {location: axis.keys[at] for location, at in results}
        if None in written.values() or len(keys) != len(results):
            continue
        mine = zip(operation.operands, axis.keys, strict=True)
        if all(operand.write or written.get(operand.location, key) == key for operand, key in mine):
            axes.append(axis)
    return replace(operation, axes=tuple(axes)) if axes else None


def _worthwhile(program: Program, operations: dict[int, Operation], cuts: Cuts) -> Cuts:
    return cuts


def _local_parts(
    program: Program, operations: dict[int, Operation], cuts: Cuts, partitions: dict[int, Partition]
) -> set[int]:
    """Locations that each core may hold its part of alone: whatever touches them agrees with their key."""
    accesses, locations = program.accesses, program.locations
    found = {
        at
        for at, key in cuts.keys.items()
        if locations.kind[at] == Kind.INTERNAL
        and key.indices == len(partitions[at][0])
        and int(locations.size[at]) % key.period == 0
    }
    for access in range(len(accesses) // program.lnc):
        location, row = int(accesses.location[access]), int(accesses.instruction[access])
        if location in found:
            axis = cuts.axes.get(row)
            at = access - int(program.access_starts[row])
            agrees = axis is not None and axis.keys[at] == cuts.keys[location]
            if not agrees or operations[row].partition != partitions[location]:
                found.discard(location)
    return found
