"""Operands as row-major arrays: which bytes of a location, of what element type, in what shape.

An instruction has `shapes=` and `dtypes=` (reads first, then writes) where they differ from the dtype and shape of
the location; so a reshape costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from haulout.ir import dtypes
from haulout.ir.attributes import AttrValue
from haulout.ir.labels import instruction_label
from haulout.ir.patterns import Pattern, row_major_strides, strided
from haulout.ir.program import Program
from haulout.support.diagnostics import bad_input


@dataclass(frozen=True, slots=True)
class Array:
    """An operand: bytes of a location read as a row-major array."""

    location: int
    pattern: Pattern | None
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return dtypes.itemsize(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.itemsize

    @property
    def operand(self) -> tuple[int, Pattern | None]:
        """All of it, as an operand."""
        return self.location, self.pattern

    def box(self, starts: list[int], extents: list[int]) -> Pattern | None:
        """The bytes of a box of it, in a location that holds an array of this shape; None: all of them."""
        strides = row_major_strides(self.shape, self.itemsize)
        offset = sum(start * stride for start, stride in zip(starts, strides, strict=True))
        pattern = strided(offset, strides, extents, self.itemsize)
        return None if pattern == Pattern(0, self.nbytes) else pattern

    def piece(self, axis: int, index: int, pieces: int) -> Pattern | None:
        """The bytes of piece `index` of `pieces` equal ones along `axis`."""
        starts, extents = [0] * len(self.shape), list(self.shape)
        extents[axis] //= pieces
        starts[axis] = index * extents[axis]
        return self.box(starts, extents)


def operand_arrays(
    program: Program, row: int, attrs: dict[str, AttrValue] | None = None
) -> tuple[list[Array], list[Array]]:
    """The operands that an instruction reads and writes, as arrays; `bad-input` when one has no dtype.

    `attrs` are its attributes, if they are known.
    """
    attrs = program.instruction_attrs(row) if attrs is None else attrs
    begin, end = program.access_starts[row : row + 2].tolist()
    result: tuple[list[Array], list[Array]] = ([], [])
    for number, access in enumerate(range(begin, end)):
        location = int(program.accesses.location[access])
        dtype = _listed(attrs, "dtypes", number)
        if dtype is None:
            dtype = program.strings.get(int(program.locations.dtype[location]))
        shape = _listed(attrs, "shapes", number)
        if not isinstance(dtype, str) or dtype not in dtypes.NUMPY:
            bad_input(f"operand {number} has no element type", instruction_label(program, row))
        extents = program.shape(location) if shape is None else _extents(program, row, shape)
        array = Array(location, program.pattern(int(program.accesses.pattern[access])), dtype, extents)
        result[bool(program.accesses.write[access])].append(array)
    return result


def require_bytes(program: Program, row: int, arrays: list[Array]) -> None:
    """`bad-input` unless the bytes that operands name are those of their shapes."""
    for array in arrays:
        pattern = array.pattern
        if pattern is not None and pattern.is_unknown:
            continue
        size = int(program.locations.size[array.location]) if pattern is None else pattern.nbytes
        if size != array.nbytes:
            bad_input(
                f"an operand is {array}, which is {array.nbytes} bytes, but names {size} bytes",
                instruction_label(program, row),
            )


def _listed(attrs: dict[str, AttrValue], key: str, index: int) -> AttrValue | None:
    values = attrs.get(key)
    return values[index] if isinstance(values, list) and index < len(values) else None


def _extents(program: Program, row: int, shape: AttrValue) -> tuple[int, ...]:
    if isinstance(shape, list) and all(isinstance(extent, int) and extent >= 0 for extent in shape):
        return tuple(shape)  # type: ignore[arg-type]
    bad_input(f"shapes: expected a list of extents, found {shape!r}", instruction_label(program, row))
