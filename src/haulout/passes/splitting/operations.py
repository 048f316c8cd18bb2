"""Operations that can be cut: which dimensions of the results, and what that asks of each operand.

The rules are those of `ir/axes.py`; here they are narrowed to cuts whose parts are the same opcode on boxes of
operands and results, with `shapes=` and, for a few opcodes, one attribute changed. Along most dimensions the indices
are independent, and a part may have any of them. Along others they depend on each other or on their place
(`placed_cuts.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from haulout.ir.arrays import operand_arrays
from haulout.ir.axes import followed_axes, windows
from haulout.ir.dtypes import itemsize
from haulout.ir.enums import NONE
from haulout.ir.opcodes import Axes, lookup
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.passes.splitting.keys import Box, Interval, Key, Operand, Share, common_dims, intervals, strides_of
from haulout.passes.splitting.placed_cuts import Attrs, placed_attrs, placed_cuts

Classes = tuple[tuple[int, ...], ...]
"""Classes of cores that hold equal bytes, each in rising order, all of one size."""


Dims = tuple[int | None, ...]
"""Of each operand the dimension whose indices the parts divide; None: each part needs all of it."""


class Place(NamedTuple):
    """What a part has of the units of a cut."""

    interval: Interval
    group: int = 0
    """Its index of the `outer` dimension."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A cut of an operation."""

    shares: tuple[Share | None, ...]
    """Of each operand what a part needs; None: all of it."""
    keys: tuple[Key | None, ...]
    """Of each operand the key, if the parts touch disjoint bytes of one."""
    opcode: str
    """Of the parts."""
    attrs: Attrs
    """Of the parts, but for `shapes` and what depends on the part."""
    extent: int
    """How many units are divided."""
    counted: str = ""
    """The attribute that has the number of units, if one has."""
    outer: Dims = ()
    """Of each operand a dimension of which each part has one index, if two dimensions are divided."""
    groups: int = 1
    """Indices of that dimension: groups of parts."""

    @property
    def dims(self) -> tuple[int | None, ...]:
        """Of each operand the dimension that is cut."""
        return tuple(None if share is None else share.dim for share in self.shares)

    def places(self, parts: int) -> list[Place]:
        """What each part has."""
        divided = intervals(self.extent, parts // self.groups)
        return [Place(interval, group) for group in range(self.groups) for interval in divided]

    def boxes(self, operands: Sequence[Operand], place: Place) -> list[Box]:
        """Of each operand what the part with this place needs."""
        if self.outer:
            pairs = zip(operands, self.outer, strict=True)
            operands = [each if dim is None else each.at(dim, place.group) for each, dim in pairs]
        shares = zip(operands, self.shares, strict=True)
        return [each.box(share, place.interval, self.extent) for each, share in shares]

    def largest(self, operands: Sequence[Operand], parts: int) -> Place:
        """The place of the part that writes most."""

        def written(place: Place) -> int:
            return sum(each.pattern.nbytes for each in self.boxes(operands, place)[-1:])

        return max(reversed(self.places(parts)), key=written)


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction of the first core that may be cut."""

    row: int
    opcode: str
    attrs: Attrs
    operands: tuple[Operand, ...]
    """Reads first."""
    axes: tuple[Axis, ...]
    """The outermost dimension first."""
    independent: tuple[Dims, ...]
    """Dimensions of which parts may have any indices."""
    shaped: bool
    """Whether its operands have shapes."""
    classes: Classes
    """Classes of cores that share its work."""

    @property
    def parts(self) -> int:
        """Into how many it is cut."""
        return len(self.classes[0])


_UNFOLLOWED = (Axes.PLACED, Axes.RESULT, Axes.COUNTED)
"""Rules under which a dimension of the result may have no counterpart in the operands."""


_SIZED = (Axes.TAKEN_WHOLE, Axes.GATHERED)
"""Rules of opcodes with the sizes of dimensions in their attributes."""


def read_operation(program: Program, row: int, classes: Classes) -> Operation | None:
    """An instruction whose results are equal within each class, as an operation; None: no cut is possible."""
    opcode = program.strings[int(program.instructions.opcode[row])]
    attrs = program.instruction_attrs(row)
    begin, end = program.access_starts[row : row + 2].tolist()
    accesses = program.accesses
    if accesses.atomic[begin:end].any() or accesses.maybe[begin:end].any():
        return None
    if not lookup(opcode).typed:
        operands = _byte_operands(program, begin, end)
    else:
        operands = _array_operands(program, row, begin)
    if operands is None or not any(each.write for each in operands):
        return None
    independent: tuple[Dims, ...] = ()
    if lookup(opcode).collective:
        axes = tuple(_collective_axes(opcode, attrs, operands, classes))
    else:
        independent = tuple(_independent(opcode, attrs, operands))
        axes = tuple(_axes(opcode, attrs, operands, len(classes[0]), independent))
    return Operation(row, opcode, attrs, tuple(operands), axes, independent, lookup(opcode).typed, classes)


def _byte_operands(program: Program, begin: int, end: int) -> list[Operand] | None:
    """The operands of a copy in a shape that all of them have."""
    accesses = program.accesses
    patterns = []
    for access in range(begin, end):
        found = program.pattern(int(accesses.pattern[access]))
        patterns.append(found or Pattern(0, int(program.locations.size[accesses.location[access]])))
    if any(each.is_unknown for each in patterns) or len({each.nbytes for each in patterns}) != 1:
        return None
    common = _shaped(program, begin, patterns) or common_dims(patterns)
    if common is None:
        return None
    shape, strides = common
    return [
        Operand(
            access,
            int(accesses.location[access]),
            bool(accesses.write[access]),
            1,
            pattern.offset,
            shape,
            steps,
            _motion(program, access),
        )
        for access, pattern, steps in zip(range(begin, end), patterns, strides, strict=True)
    ]


def _shaped(
    program: Program, begin: int, patterns: Sequence[Pattern]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]] | None:
    """The shape of a location that is copied as a whole, with its elements as a dimension of bytes, and the strides.

    What else reads and writes that location is cut by its dimensions, so the copy agrees.
    """
    locations = program.locations
    for access, pattern in reversed(list(enumerate(patterns, begin))):
        location = int(program.accesses.location[access])
        dtype = program.strings.get(int(locations.dtype[location]))
        if dtype is None or pattern != Pattern(0, int(locations.size[location])):
            continue
        shape = (*program.shape(location), itemsize(dtype))
        found = [strides_of(each, shape, 1) for each in patterns]
        laid = [each for each in found if each is not None]
        if len(laid) == len(found):
            return shape, [strides for _, strides in laid]
    return None


def _motion(program: Program, access: int) -> tuple[int, ...]:
    """Bytes an iteration of each step of an operand."""
    begin, end = np.searchsorted(program.steps.access, [access, access + 1]).tolist()
    return tuple(program.steps.stride[begin:end].tolist())


def _array_operands(program: Program, row: int, begin: int) -> list[Operand] | None:
    accesses = program.accesses
    if any(program.locations.dtype[at] == NONE for at in accesses.location[begin : program.access_starts[row + 1]]):
        return None
    reads, writes = operand_arrays(program, row)
    found = []
    for number, array in enumerate((*reads, *writes)):
        laid = strides_of(array.pattern, array.shape, array.itemsize)
        if laid is None:
            return None
        write = number >= len(reads)
        access, motion = begin + number, _motion(program, begin + number)
        found.append(Operand(access, array.location, write, array.itemsize, laid[0], array.shape, laid[1], motion))
    return found


def _independent(opcode: str, attrs: Attrs, operands: Sequence[Operand]) -> Iterator[Dims]:
    """Dimensions of the results, in order, of which parts may have any indices."""
    reads = [each.shape for each in operands if not each.write]
    writes = [each.shape for each in operands if each.write]
    rule = lookup(opcode).axes
    if not lookup(opcode).typed:
        followed: list[tuple[int, ...]] | None = [tuple(range(len(shape))) for shape in reads]
    else:
        followed = followed_axes(opcode, attrs, reads, writes)
    if followed is None or any(shape != writes[0] for shape in writes):
        return
    slides = windows(opcode, attrs, reads)
    grouped = any(attrs.get(name, 1) != 1 for name in ("feature_groups", "batch_groups"))
    for dim, extent in enumerate(writes[0]):
        dims = [follows.index(dim) if dim in follows else None for follows in followed]
        if all(each is None for each in dims) and rule not in _UNFOLLOWED:
            continue
        if rule is Axes.COUNTED and attrs.get("dim") == dim:
            continue
        if any(at is not None and shape[at] != extent for at, shape in zip(dims, reads, strict=True)):
            continue
        if dims and dims[0] in slides and not slides[dims[0]].is_trivial:
            continue
        if grouped and rule is Axes.CONVOLUTION and (dims[0] is None or dims[0] not in slides):
            continue  # in proportion, if at all
        yield (*dims, *[dim] * len(writes))


def _axes(
    opcode: str, attrs: Attrs, operands: Sequence[Operand], parts: int, independent: Sequence[Dims]
) -> Iterator[Axis]:
    """The cuts of an operation that is no collective, in the order of the dimensions of its result."""
    found = []
    result = next(at for at, each in enumerate(operands) if each.write)
    for dims in independent:
        shares = tuple(None if dim is None else Share(dim) for dim in dims)
        found.append(make_axis(operands, shares, parts, opcode, attrs, operands[result].shape[dims[result] or 0]))
    reads = [each.shape for each in operands if not each.write]
    for cut in placed_cuts(opcode, attrs, reads, [each.shape for each in operands if each.write]):
        found.append(make_axis(operands, cut.shares, parts, opcode, attrs, cut.extent, cut.counted))
    found.sort(key=lambda axis: axis.dims[result] or 0)
    yield from (axis for axis in found if axis.extent >= parts)
    for dims in independent:
        groups = operands[result].shape[dims[result] or 0]
        if 1 < groups < parts:
            both = (grouped_axis(operands, axis, dims, groups, parts) for axis in found)
            yield from (axis for axis in both if axis is not None)


def grouped_axis(operands: Sequence[Operand], axis: Axis, outer: Dims, groups: int, parts: int) -> Axis | None:
    """A cut in which groups of parts have an index of `outer` each, and divide what `axis` does.

    None: it is uneven, both are one dimension, or the extent of `outer` is not `groups`.
    """
    each = parts // groups
    if parts % groups or axis.extent % each or lookup(axis.opcode).axes in _SIZED:
        return None
    if any(dim is not None and dim == other for dim, other in zip(outer, axis.dims, strict=True)):
        return None
    if any(dim is not None and operand.shape[dim] != groups for operand, dim in zip(operands, outer, strict=True)):
        return None
    keys = []
    for operand, dim, share in zip(operands, outer, axis.shares, strict=True):
        far = None if dim is None else operand.key(Share(dim), groups, groups)
        near = None if share is None else operand.key(share, axis.extent, each)
        keys.append(near.within(far) if near and far else None)
    return replace(axis, keys=tuple(keys), outer=outer, groups=groups)


def make_axis(
    operands: Sequence[Operand],
    shares: Sequence[Share | None],
    parts: int,
    opcode: str,
    attrs: Attrs,
    extent: int,
    counted: str = "",
) -> Axis:
    """A cut with the keys that follow from what each part needs of the operands."""
    keys = [
        None if share is None else each.key(share, extent, parts)
        for each, share in zip(operands, shares, strict=True)
    ]
    return Axis(tuple(shares), tuple(keys), opcode, attrs, extent, counted)


def _collective_axes(opcode: str, attrs: Attrs, operands: Sequence[Operand], classes: Classes) -> Iterator[Axis]:
    """Each member of a group writes its piece of one result."""
    groups = attrs.get("groups")
    parts = len(classes[0])
    if len(operands) != 2 or not isinstance(groups, list) or any(list(cores) not in groups for cores in classes):
        return
    source, target = operands
    if opcode == "all_reduce":
        for dim, extent in enumerate(target.shape):
            if extent and extent % parts == 0:
                scattered = attrs | {"dim": dim}
                yield make_axis(operands, (None, Share(dim)), parts, "reduce_scatter", scattered, extent)
    if opcode == "all_gather":
        for dim, extent in enumerate(target.shape):
            if dim == attrs.get("dim") and extent == source.shape[dim] * parts:
                yield make_axis(operands, (None, Share(dim)), parts, "dma_copy", {}, extent)


def part_attrs(operation: Operation, axis: Axis, boxes: Sequence[Box], place: Place) -> Attrs:
    """Attributes of one part, whose operands are `boxes`."""
    attrs, interval = dict(axis.attrs), place.interval
    if operation.shaped and lookup(axis.opcode).typed:
        attrs["shapes"] = [list(each.shape) for each in boxes]
    if axis.counted:
        attrs[axis.counted] = interval[1] - interval[0]
    reads = [each.shape for each in operation.operands if not each.write]
    shapes = [each.shape for each in boxes]
    return attrs | placed_attrs(axis.opcode, attrs, axis.shares, interval, reads, shapes)
