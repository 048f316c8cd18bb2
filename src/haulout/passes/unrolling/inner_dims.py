"""Dimensions that others touch in pieces, as two dimensions: so a cut may go through each piece.

A product x W of [8, 512] and [512, 1536] that others read as three times [8, 512] is cut along the 1536 only from piece
to piece, and a core that computes some columns of the results needs columns of others. As [8, 3, 512], the product of x
and a W of [512, 3, 512], it can be cut along the 512. Values, bytes and places are the same: only `shapes=` changes, and
the numbers of dimensions behind.

A location gets two dimensions for one if all that write it are products or element-wise operations that write it as a
whole in its shape, and the pieces have an element for each core. What an element-wise operation reads in that shape
gets them too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from haulout.ir.arrays import Array, operand_arrays
from haulout.ir.attributes import AttrValue, format_attrs, int_list
from haulout.ir.axes import followed_axes
from haulout.ir.dtypes import itemsize
from haulout.ir.enums import NONE, Space
from haulout.ir.opcodes import Axes, lookup
from haulout.ir.patterns import Pattern, row_major_strides
from haulout.ir.program import Program

_OF_DOT = {"lhs_batch": 0, "lhs_contracting": 0, "rhs_batch": 1, "rhs_contracting": 1}


class _Split(NamedTuple):
    """Dimension `dim` becomes `outer` times `inner`."""

    dim: int
    outer: int
    inner: int

    def of(self, shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
        """A shape whose dimension `dim` is that one."""
        return (*shape[:dim], self.outer, self.inner, *shape[dim + 1 :])


def with_inner_dims(program: Program) -> Program:
    """The program with more dimensions where others read pieces; cores in lockstep. It is `program` if there are none."""
    rows, writers = len(program.instructions) // program.lnc, _writers(program)
    attrs = program.instructions.attrs.copy()
    splits = _wanted(program)
    pending, done = list(splits), set[int]()
    while pending:
        location = pending.pop()
        if location in done:
            continue
        done.add(location)
        made = [_divided(program, row, location, splits[location]) for row in writers[location]]
        if not made or any(each is None for each in made):
            continue
        for row, each in zip(writers[location], made, strict=True):
            if each is not None:
                attrs[row::rows] = program.strings.intern(format_attrs(each))
                for other in _alike(program, row, location):
                    if other not in splits:
                        splits[other] = splits[location]
                        pending.append(other)
    if np.array_equal(attrs, program.instructions.attrs):
        return program
    return program.replace(instructions=program.instructions.replace(attrs=attrs))


def _writers(program: Program) -> Mapping[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    accesses = program.accesses
    for access in np.flatnonzero(accesses.write[: len(accesses) // program.lnc]).tolist():
        found[int(accesses.location[access])].append(int(accesses.instruction[access]))
    return found


def _wanted(program: Program) -> dict[int, _Split]:
    """Of locations that are read in pieces along one dimension, that dimension as two."""
    accesses, locations = program.accesses, program.locations
    found: dict[int, _Split] = {}
    pieces: defaultdict[int, list[int]] = defaultdict(list)
    for access in range(len(accesses) // program.lnc):
        location = int(accesses.location[access])
        if accesses.pattern[access] != NONE and not accesses.write[access] and locations.dtype[location] != NONE:
            pieces[location].append(access)
    for location, touches in pieces.items():
        if locations.space[location] != Space.DRAM_LOCAL:
            continue
        shape = program.shape(location)
        size = itemsize(program.strings[int(locations.dtype[location])])
        for dim, (stride, extent) in enumerate(zip(row_major_strides(shape, size), shape, strict=True)):
            inner = _piece(program, touches, stride, extent)
            if inner >= program.lnc and inner < extent:
                found[location] = _Split(dim, extent // inner, inner)
                break
    return found


def _piece(program: Program, touches: list[int], stride: int, extent: int) -> int:
    """How many indices of a dimension the accesses touch together; `extent`: all."""
    common, period = extent, stride * extent
    for access in touches:
        pattern = program.pattern(int(program.accesses.pattern[access]))
        if pattern is None or pattern.is_unknown:
            continue
        begin, end = np.searchsorted(program.steps.access, [access, access + 1]).tolist()
        places = [pattern.offset, *program.steps.stride[begin:end].tolist()]
        length = _length(pattern, period)
        if length is None or any(each % period % stride for each in (*places, length)):
            return extent
        common = math.gcd(common, *(each % period // stride for each in (*places, length)))
    return common


def _length(pattern: Pattern, period: int) -> int | None:
    """Bytes in a row in each period; None: there are gaps in them."""
    length = pattern.run
    for stride, count in reversed(pattern.dims):
        if stride % period == 0:
            continue
        if stride != length:
            return None
        length *= count
    return length


def _alike(program: Program, row: int, location: int) -> list[int]:
    """What an element-wise operation reads as a whole in the shape of its result."""
    if lookup(_opcode(program, row)).axes is not Axes.SAME:
        return []
    reads, _ = operand_arrays(program, row)
    shape = program.shape(location)
    return [
        each.location
        for each in reads
        if each.pattern is None and each.shape == shape == program.shape(each.location)
    ]


def _divided(program: Program, row: int, location: int, split: _Split) -> dict[str, AttrValue] | None:
    """Attributes of an instruction that writes a location, with one dimension as two; None: it cannot be."""
    opcode, attrs = _opcode(program, row), program.instruction_attrs(row)
    if lookup(opcode).axes not in (Axes.SAME, Axes.DOT) or not lookup(opcode).typed:
        return None
    begin, end = program.access_starts[row : row + 2].tolist()
    if program.accesses.maybe[begin:end].any() or program.accesses.atomic[begin:end].any():
        return None
    if any(program.locations.dtype[at] == NONE for at in program.accesses.location[begin:end]):
        return None
    reads, writes = operand_arrays(program, row)
    shape = program.shape(location)
    if any(each.shape != shape or each.pattern is not None for each in writes):
        return None
    followed = followed_axes(opcode, attrs, [each.shape for each in reads], [each.shape for each in writes])
    if followed is None:
        return None
    shapes: list[AttrValue] = []
    numbers = dict(attrs)
    for side, (array, follows) in enumerate(zip(reads, followed, strict=True)):
        if split.dim not in follows:
            shapes.append(list(array.shape))
            continue
        dim = follows.index(split.dim)
        if array.shape[dim] != shape[split.dim] or not _has_strides(array):
            return None
        shapes.append(list(split.of(array.shape, dim)))
        for name in (key for key, its_side in _OF_DOT.items() if its_side == side and key in attrs):
            numbers[name] = [each + (each > dim) for each in int_list(attrs[name]) or []]
    shapes += [list(split.of(each.shape, split.dim)) for each in writes]
    return numbers | {"shapes": shapes}


def _has_strides(array: Array) -> bool:
    return array.pattern is None or not array.pattern.is_unknown


def _opcode(program: Program, row: int) -> str:
    return program.strings[int(program.instructions.opcode[row])]
