"""What was cut and what was not, with places in the source and shares of time (`passes/split_report.py`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache

import numpy as np
from msgspec.structs import asdict

from haulout.analysis.durations import durations
from haulout.ir.arrays import operand_arrays
from haulout.ir.dtypes import itemsize
from haulout.ir.enums import NONE
from haulout.ir.opcodes import Axes, lookup
from haulout.ir.patterns import row_major_strides
from haulout.ir.program import Program
from haulout.passes.fences.exact_cover import block_weight
from haulout.passes.split_report import Divided, Judged, SplitReport, Stored, Undivided
from haulout.passes.splitting.candidates import Candidates
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.operations import Axis, Operation
from haulout.passes.splitting.worth import read_by_others
from haulout.target import Target

TOO_DEAR = "a cut would cost more than it saves"
CONTRADICTION = "its cuts contradict those of other operations that write the same bytes"


def make_record(
    program: Program,
    found: Candidates,
    chosen: Cuts,
    cuts: Cuts,
    local: Collection[int],
    target: Target,
    annotated: Mapping[int, int],
) -> SplitReport:
    """A row for each operation of the first core that is cut, or that several cores do alike.

    `chosen` are all cuts, `cuts` those that are worth their fences; `local` are the locations that are cut into a
    part on each core; `annotated` are the dimensions that the source asks for.
    """
    rows = len(program.instructions) // program.lnc
    blocks, structure = program.instructions.block, program.structure
    weight = cache(lambda block: block_weight(structure, block))
    alone = durations(program, target)[:rows].tolist()
    time = [each * weight(block) for each, block in zip(alone, blocks[:rows].tolist(), strict=True)]
    apart: defaultdict[int, set[int]] = defaultdict(set)
    for location, row in read_by_others(program, found.operations, cuts, gathered=True):
        apart[location].add(row)
    divided: list[Divided] = []
    undivided: list[Undivided] = []
    for row in range(rows):
        results = results_of(program, row)
        if not results:
            continue
        said = Judged(
            name=program.instruction_name(row),
            opcode=_opcode(program, row),
            loc=_loc(program, row),
            time_us=time[row],
            asked=annotated.get(row),
        )
        axis = cuts.axes.get(row)
        if axis is not None:
            operation = found.operations[row]
            readers = set[int]().union(*(apart[at] for at in results))
            stored: Stored = "local" if all(at in local for at in results) else "shared"
            dim, extent = result_dim(program, operation, axis)
            two = _two_dims(operation, axis)
            cores = len(operation.classes[0])
            made = Divided(
                **asdict(said), dim=dim, dims=two, extent=extent, cores=cores, stored=stored, read_apart=len(readers)
            )
            divided.append(made)
        elif all(at in found.classes for at in results):
            undivided.append(Undivided(**asdict(said), reason=undivided_reason(program, found, chosen, row)))
    return SplitReport.of(divided, undivided, sum(time))


def undivided_reason(program: Program, found: Candidates, chosen: Cuts, row: int) -> str:
    """Why an operation whose results are equal on several cores is not cut."""
    if row in chosen.axes:
        return TOO_DEAR
    if row in found.operations:
        return CONTRADICTION
    results = results_of(program, row)
    if row in found.refused:
        return refusal(program, row, len(found.classes[results[0]][0]))
    return next((found.kept[at] for at in results if at in found.kept), CONTRADICTION)


def refusal(program: Program, row: int, cores: int) -> str:
    """Why no cut of an operation is possible, whatever stands around it."""
    opcode = _opcode(program, row)
    begin, end = program.access_starts[row : row + 2].tolist()
    accesses, rule = program.accesses, lookup(opcode)
    if accesses.atomic[begin:end].any():
        return "it is atomic"
    if accesses.maybe[begin:end].any():
        return "it is not known which bytes it accesses"
    if opcode in ("all_reduce", "all_gather"):
        return f"its groups have other cores, or no dimension of its result is a multiple of {cores}"
    if rule.axes.obstacle is not None:
        return f"there is no rule for {opcode}: {rule.axes.obstacle}"
    if not rule.typed:
        if _elements(program, begin, end) < cores:
            return f"its result has fewer than {cores} elements"
    elif any(program.locations.dtype[at] == NONE for at in accesses.location[begin:end]):
        return "an operand has no element type"
    else:
        largest = max((max(array.shape, default=1) for array in operand_arrays(program, row)[1]), default=1)
        if largest < cores:
            return f"its result has no dimension of {cores} or more"
    if np.searchsorted(program.steps.access, begin) < np.searchsorted(program.steps.access, end):
        return "an operand moves with the iterations of a loop, from part to part"
    return _DEPENDENT.get(rule.axes, "its result has no dimension whose parts write bytes of their own")


_DEPENDENT = {
    Axes.LINES: "its lines run along the only dimension that is long enough",
    Axes.NO_WINDOW: "its windows overlap or see padding, so two parts would add to one element",
    Axes.TAKEN_WHOLE: "it takes no dimension whole that is long enough, and where a box begins is not known",
    Axes.GATHERED: "its slices have no dimension whole that is long enough, nor are there enough of them",
    Axes.SCATTERED: "its updates have no dimension whole that is long enough, and along others they may meet",
}
"""Why no dimension will do, by rule."""


def _elements(program: Program, begin: int, end: int) -> int:
    """The most elements that one of some accesses writes; bytes where there is no type."""
    accesses, locations = program.accesses, program.locations
    most = 0
    for access in range(begin, end):
        location, pattern = int(accesses.location[access]), program.pattern(int(accesses.pattern[access]))
        if accesses.write[access]:
            dtype = program.strings.get(int(locations.dtype[location]))
            size = int(locations.size[location]) if pattern is None else pattern.nbytes
            most = max(most, size // (1 if dtype is None else itemsize(dtype)))
    return most


def result_dim(program: Program, operation: Operation, axis: Axis) -> tuple[int | None, int]:
    """The dimension of the (first) result that a cut divides, and its extent.

    A copy has bytes and no dimensions: there it is that dimension of the location whose period the key has; None and
    the number of indices if there is none. None and the number of parts also for a cut of two dimensions.
    """
    at, operand = next((at, each) for at, each in enumerate(operation.operands) if each.write)
    if axis.outer:
        return None, operation.parts
    if operation.shaped:
        return axis.dims[at], axis.extent
    key, locations = axis.keys[at], program.locations
    begin, end = int(locations.shape_begin[operand.location]), int(locations.shape_end[operand.location])
    shape = program.shapes.extent[begin:end].tolist()
    dtype = program.strings.get(int(locations.dtype[operand.location]))
    if key is not None and dtype is not None and shape:
        for dim, (stride, extent) in enumerate(zip(row_major_strides(shape, itemsize(dtype)), shape, strict=True)):
            if stride * extent == key.period and extent > 1:
                return dim, extent
    return None, axis.extent


def _two_dims(operation: Operation, axis: Axis) -> list[tuple[int, int]]:
    """The dimensions of the (first) result that a cut of two divides, and their extents; none of a copy."""
    if not axis.outer or not operation.shaped:
        return []
    at, operand = next((at, each) for at, each in enumerate(operation.operands) if each.write)
    return [(dim, operand.shape[dim]) for dim in (axis.outer[at], axis.dims[at]) if dim is not None]


def cuts_of(program: Program, operation: Operation) -> Iterator[tuple[int, int]]:
    """Dimensions of the result along which an operation can be cut, and their extents."""
    found = (result_dim(program, operation, axis) for axis in operation.axes)
    return ((dim, extent) for dim, extent in found if dim is not None)


def results_of(program: Program, row: int) -> list[int]:
    """Locations that an operation writes."""
    mine = slice(*program.access_starts[row : row + 2].tolist())
    return list(dict.fromkeys(program.accesses.location[mine][program.accesses.write[mine]].tolist()))


def _opcode(program: Program, row: int) -> str:
    return program.strings[int(program.instructions.opcode[row])]


def _loc(program: Program, row: int) -> str | None:
    return program.strings.get(int(program.instructions.loc[row]))
