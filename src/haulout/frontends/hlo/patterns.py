"""Byte patterns of data movement: which bytes a slice, a transpose or a reversal reads, and in which order.

Each of these instructions is one copy: the operand through a pattern, the result from front to back. A
concatenation is one copy an operand, each into its part of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from haulout.ir.patterns import Pattern, row_major_strides, strided


def slice_pattern(dims: Sequence[int], itemsize: int, bounds: Sequence[tuple[int, int, int]]) -> Pattern:
    """`array[start:limit:stride, ...]`; every slice has at least one element."""
    steps = row_major_strides(dims, itemsize)
    offset = sum(step * start for step, (start, _, _) in zip(steps, bounds, strict=True))
    strides = [step * stride for step, (_, _, stride) in zip(steps, bounds, strict=True)]
    return strided(offset, strides, slice_dims(bounds), itemsize)


def slice_dims(bounds: Sequence[tuple[int, int, int]]) -> list[int]:
    """Elements that each slice takes."""
    return [max(0, -((start - limit) // stride)) for start, limit, stride in bounds]


def transpose_pattern(dims: Sequence[int], itemsize: int, permutation: Sequence[int]) -> Pattern:
    """The array with dimension `permutation[i]` at place i."""
    steps = row_major_strides(dims, itemsize)
    return strided(0, [steps[dim] for dim in permutation], [dims[dim] for dim in permutation], itemsize)


def reverse_pattern(dims: Sequence[int], itemsize: int, reversed_dims: Sequence[int]) -> Pattern:
    """The array with some dimensions from back to front."""
    steps = row_major_strides(dims, itemsize)
    offset = sum(steps[dim] * (dims[dim] - 1) for dim in reversed_dims)
    strides = [-step if dim in reversed_dims else step for dim, step in enumerate(steps)]
    return strided(offset, strides, dims, itemsize)


def part_pattern(dims: Sequence[int], itemsize: int, dim: int, start: int, count: int) -> Pattern:
    """`array[..., start:start + count, ...]` along one dimension."""
    bounds = [(0, extent, 1) for extent in dims]
    bounds[dim] = (start, start + count, 1)
    return slice_pattern(dims, itemsize, bounds)
