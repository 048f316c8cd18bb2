"""Byte patterns of parts of arrays."""

from __future__ import annotations

from collections.abc import Sequence

from haulout.ir.patterns import Pattern, row_major_strides, strided


def part_pattern(dims: Sequence[int], itemsize: int, dim: int, start: int, count: int) -> Pattern:
    """`array[..., start:start + count, ...]` along one dimension."""
    steps = row_major_strides(dims, itemsize)
    return strided(steps[dim] * start, steps, [*dims[:dim], count, *dims[dim + 1 :]], itemsize)
