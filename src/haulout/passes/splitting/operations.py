"""Operations that can be cut: which dimensions of the results, and what that asks of each operand.

The rules are those of `ir/axes.py`; here they are narrowed to cuts whose parts are the same opcode on boxes of
operands and results, with `shapes=` and, for a few opcodes, one attribute changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from haulout.ir.arrays import operand_arrays
from haulout.ir.attributes import AttrValue, int_list
from haulout.ir.axes import followed_axes
from haulout.ir.dtypes import itemsize
from haulout.ir.enums import NONE
from haulout.ir.opcodes import Axes, lookup
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.passes.splitting.keys import Interval, Key, Operand, common_dims, strides_of

Attrs = dict[str, AttrValue]


Classes = tuple[tuple[int, ...], ...]
"""Classes of cores that hold equal bytes, each in rising order, all of one size."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A cut of an operation."""

    dims: tuple[int | None, ...]
    """Of each operand the dimension that is cut; None: each part needs all of it."""
    keys: tuple[Key | None, ...]
    """Of each operand the key, if the parts touch disjoint bytes of one."""
    opcode: str
    """Of the parts."""
    attrs: Attrs
    """Of the parts, but for `shapes` and what depends on the part's extent."""
    extent: int
    """How many indices are divided."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction of the first core that can be cut."""

    row: int
    operands: tuple[Operand, ...]
    """Reads first."""
    axes: tuple[Axis, ...]
    """The outermost dimension first."""
    shaped: bool
    """Whether its operands have shapes."""
    classes: Classes
    """Classes of cores that share its work."""


_UNFOLLOWED = (Axes.PLACED, Axes.RESULT)
"""Rules under which a dimension of the result may have no counterpart in the operands."""


def read_operation(program: Program, row: int, classes: Classes) -> Operation | None:
    """An instruction whose results are equal within each class, as an operation; None: it cannot be cut."""
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
    if lookup(opcode).collective:
        axes = tuple(_collective_axes(opcode, attrs, operands, classes))
    else:
        axes = tuple(_axes(opcode, attrs, operands, len(classes[0])))
    return Operation(row, tuple(operands), axes, lookup(opcode).typed, classes) if axes else None


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


def _axes(opcode: str, attrs: Attrs, operands: Sequence[Operand], parts: int) -> Iterator[Axis]:
    """The cuts of an operation that is no collective."""
    reads = [each.shape for each in operands if not each.write]
    writes = [each.shape for each in operands if each.write]
    rule = lookup(opcode).axes
    if not lookup(opcode).typed:
        followed: list[tuple[int, ...]] | None = [tuple(range(len(shape))) for shape in reads]
    else:
        followed = followed_axes(opcode, attrs, reads, writes)
    if followed is None or any(shape != writes[0] for shape in writes):
        return
    for dim in range(len(writes[0])):
        extent = writes[0][dim]
        if extent < parts or not _ALLOWED.get(rule, _always)(attrs, dim, reads):
            continue
        dims = [follows.index(dim) if dim in follows else None for follows in followed]
        if all(each is None for each in dims) and rule not in _UNFOLLOWED:
            continue
        if any(at is not None and shape[at] != extent for at, shape in zip(dims, reads, strict=True)):
            continue
        yield _axis(operands, [*dims, *[dim] * len(writes)], parts, opcode, attrs, extent)


def _axis(
    operands: Sequence[Operand], dims: Sequence[int | None], parts: int, opcode: str, attrs: Attrs, extent: int
) -> Axis:
    keys = tuple(None if dim is None else each.key(dim, parts) for each, dim in zip(operands, dims, strict=True))
    return Axis(tuple(dims), keys, opcode, attrs, extent)


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
                yield _axis(operands, (None, dim), parts, "reduce_scatter", attrs | {"dim": dim}, extent)
    if opcode == "all_gather":
        for dim, extent in enumerate(target.shape):
            if dim == attrs.get("dim") and extent == source.shape[dim] * parts:
                yield _axis(operands, (None, dim), parts, "dma_copy", {}, extent)


# -- which dimensions, by opcode -----------------------------------------------------------------------------------

_Allowed = Callable[[Mapping[str, AttrValue], int, Sequence[tuple[int, ...]]], bool]


def _always(attrs: Mapping[str, AttrValue], dim: int, reads: Sequence[tuple[int, ...]]) -> bool:
    return True


def _entry(attrs: Mapping[str, AttrValue], name: str, dim: int, default: int) -> int:
    values = int_list(attrs.get(name, [])) or []
    return values[dim] if dim < len(values) else default


def _not_counted(attrs: Mapping[str, AttrValue], dim: int, reads: Sequence[tuple[int, ...]]) -> bool:
    return attrs.get("dim") != dim


def _not_padded(attrs: Mapping[str, AttrValue], dim: int, reads: Sequence[tuple[int, ...]]) -> bool:
    return all(_entry(attrs, name, dim, 0) == 0 for name in ("low", "high", "interior"))


def _no_window(attrs: Mapping[str, AttrValue], dim: int, reads: Sequence[tuple[int, ...]]) -> bool:
    ones = ("size", "stride", "base_dilate", "window_dilate")
    return all(_entry(attrs, name, dim, 1) == 1 for name in ones) and all(
        _entry(attrs, name, dim, 0) == 0 for name in ("pad_low", "pad_high")
    )


def _not_spatial(attrs: Mapping[str, AttrValue], dim: int, reads: Sequence[tuple[int, ...]]) -> bool:
    result = str(attrs.get("dim_labels", "")).partition("->")[2]
    plain = attrs.get("feature_groups", 1) == 1 and attrs.get("batch_groups", 1) == 1
    return plain and dim < len(result) and result[dim] in "bf"


_ALLOWED: dict[Axes, _Allowed] = {
    Axes.RESULT: _not_counted,
    Axes.PADDED: _not_padded,
    Axes.WINDOW: _no_window,
    Axes.CONVOLUTION: _not_spatial,
}


def part_attrs(operation: Operation, axis: Axis, boxes: Sequence[Operand], interval: Interval) -> Attrs:
    """Attributes of one part, whose operands are `boxes`."""
    attrs = dict(axis.attrs)
    size = interval[1] - interval[0]
    if operation.shaped and lookup(axis.opcode).typed:
        attrs["shapes"] = [list(each.shape) for each in boxes]
    for name, opcode in (("sizes", "dynamic_slice"), ("slice_sizes", "gather")):
        dim = axis.dims[0]
        if axis.opcode == opcode and dim is not None:
            sizes = int_list(attrs.get(name, [])) or []
            if sizes[dim] != 1:  # else a batching dimension
                attrs[name] = [*sizes[:dim], size, *sizes[dim + 1 :]]
    return attrs
