"""The columns of a program whose operations are cut: patterns, attributes and locations of each core's part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from haulout.ir import dtypes
from haulout.ir.attributes import format_attrs
from haulout.ir.edit import compact
from haulout.ir.enums import NONE, Engine, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Dims, Patterns, Shapes
from haulout.passes.splitting.choose import Cuts
from haulout.passes.splitting.keys import Box
from haulout.passes.splitting.operations import Classes, Operation, part_attrs
from haulout.passes.splitting.owners import Owners

_QUEUES = (Engine.DMA0, Engine.DMA1, Engine.DMA2, Engine.DMA3)


def emit_parts(
    program: Program,
    operations: Mapping[int, Operation],
    cuts: Cuts,
    classes: Mapping[int, Classes],
    local: set[int],
) -> Program:
    """The program in which each core runs its part of every operation that is cut.

    Locations in `local` shrink to a part on each core; the others that have a key become shared. A core that has no
    part of an operation has no such instruction.
    """
    sizes = _part_sizes(program, cuts, classes, local)
    out = PartColumns(program, sizes)
    rows, kept = len(program.instructions) // program.lnc, np.ones(len(program.instructions), bool)
    for row, axis in cuts.axes.items():
        operation = operations[row]
        for cores in operation.classes:
            for part, (core, place) in enumerate(zip(cores, axis.places(len(cores)), strict=True)):
                boxes = axis.boxes(operation.operands, place)
                if any(box.is_empty for box in boxes):
                    kept[core * rows + row] = False
                    continue
                out.row(row, core, axis.opcode, part_attrs(operation, axis, boxes, place))
                for box in boxes:
                    if box.location in local:
                        box = box.packed(cuts.keys[box.location], len(cores), part)
                    out.operand(box, core)
    program = out.finish()
    program = _share(program, {at: classes[at] for at in cuts.keys if at not in local})
    return program if kept.all() else compact(program, kept)[0]


def _part_sizes(program: Program, cuts: Cuts, classes: Mapping[int, Classes], local: set[int]) -> dict[int, int]:
    """Bytes of the largest part, which every core gets."""
    keys = {at: cuts.keys[at] for at in sorted(local)}
    return {
        at: int(program.locations.size[at]) // key.period * key.chunk(len(classes[at][0])) for at, key in keys.items()
    }


class PartColumns:
    """New values of the columns."""

    def __init__(self, program: Program, sizes: Mapping[int, int]) -> None:
        self._program = program
        self._rows, self._accesses, self._locations = (
            len(table) // program.lnc for table in (program.instructions, program.accesses, program.locations)
        )
        self._sizes = sizes
        self._pattern = program.accesses.pattern.copy()
        self._opcode, self._attrs, self._engine = (
            column.copy()
            for column in (program.instructions.opcode, program.instructions.attrs, program.instructions.engine)
        )
        self._stride = program.steps.stride.copy()
        self._known: dict[Pattern, int] = {}
        self._made: list[dict[str, int]] = []
        self._dims: list[dict[str, int]] = []

    def row(self, row: int, core: int, opcode: str, attrs: Mapping[str, Any]) -> None:
        """What a core's part is."""
        strings, at = self._program.strings, core * self._rows + row
        if self._opcode[at] != (found := strings.intern(opcode)):
            self._opcode[at] = found
            if opcode == "dma_copy":
                self._engine[at] = _QUEUES[row % len(_QUEUES)]
        self._attrs[at] = strings.intern(format_attrs(attrs)) if attrs else NONE

    def operand(self, box: Box, core: int) -> None:
        """The bytes that it names of its location, and how they move."""
        program, pattern = self._program, box.pattern
        size = self._sizes.get(box.location, int(program.locations.size[box.location]))
        access = core * self._accesses + box.access
        self._pattern[access] = NONE if pattern == Pattern(0, size) else self._pattern_row(pattern)
        if box.motion:
            begin = int(np.searchsorted(program.steps.access, access))
            self._stride[begin : begin + len(box.motion)] = box.motion

    def _pattern_row(self, pattern: Pattern) -> int:
        if pattern not in self._known:
            self._known[pattern] = len(self._program.patterns) + len(self._made)
            begin = len(self._program.dims) + len(self._dims)
            self._dims += [{"stride": stride, "count": count} for stride, count in pattern.dims]
            end = begin + len(pattern.dims)
            self._made.append({"offset": pattern.offset, "run": pattern.run, "dim_begin": begin, "dim_end": end})
        return self._known[pattern]

    def finish(self) -> Program:
        """The program with all of them."""
        program = self._program
        locations, strings = program.locations, program.strings
        begin, end, size = locations.shape_begin.copy(), locations.shape_end.copy(), locations.size.copy()
        extents: list[int] = []
        for location, part in self._sizes.items():
            dtype = strings.get(int(locations.dtype[location]))
            size[location :: self._locations] = part
            if dtype is not None:
                at = len(program.shapes) + len(extents)
                begin[location :: self._locations], end[location :: self._locations] = at, at + 1
                extents.append(part // dtypes.itemsize(dtype))
        return program.replace(
            instructions=program.instructions.replace(opcode=self._opcode, attrs=self._attrs, engine=self._engine),
            accesses=program.accesses.replace(pattern=self._pattern),
            steps=program.steps.replace(stride=self._stride),
            patterns=program.patterns.append(_table(Patterns, self._made)),
            dims=program.dims.append(_table(Dims, self._dims)),
            shapes=program.shapes.append(Shapes.make(len(extents), extent=np.array(extents, np.int64))),
            locations=locations.replace(shape_begin=begin, shape_end=end, size=size),
        )


def _table(kind: Any, rows: list[dict[str, int]]) -> Any:
    columns = {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
    return kind.make(len(rows), **columns)


def _share(program: Program, classes: Mapping[int, Classes]) -> Program:
    """Make locations shared: one owner in each class, views on its other members."""
    locations = program.locations
    size = len(locations) // program.lnc
    space, name, core = (column.copy() for column in (locations.space, locations.remote_name, locations.remote_core))
    owners = Owners(program)
    for location in sorted(classes, key=lambda at: (-int(locations.size[at]), at)):
        for members in classes[location]:
            owner = owners.choose(location, members)
            for member in members:
                row = member * size + location
                space[row] = Space.DRAM_SHARED
                if member != owner:
                    name[row], core[row] = locations.name[row], owner
    return program.replace(locations=locations.replace(space=space, remote_name=name, remote_core=core))
