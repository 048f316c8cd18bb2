"""Arranging elements: broadcast, iota, pad, and the two that see only bytes, dma_copy and memset."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from haulout.sim.numerics import attributes
from haulout.sim.numerics.rounding import convert
from haulout.sim.numerics.scratch import Take
from haulout.sim.numerics.types import Array, Attrs, TensorType
from haulout.support.diagnostics import bad_input

_MAX_ELEMENTS = 2**30
"""Of a padded array, whose size comes from attributes."""
_MOST_COUNTED = 2**62
"""No sum of this and an extent overflows."""


def broadcast(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`broadcast dims=`: dimension i of the operand becomes dimension dims[i] of the result."""
    (operand,) = inputs
    shape = outputs[0].shape
    dims = attributes.integers(attrs, "dims", ())
    if len(dims) != operand.ndim or len(set(dims)) != len(dims) or not all(0 <= dim < len(shape) for dim in dims):
        bad_input(f"attribute `dims`: {list(dims)} does not place a rank {operand.ndim} operand in {outputs[0]}")
    if any(operand.shape[i] != shape[dim] for i, dim in enumerate(dims)):
        bad_input(f"{operand.shape} does not broadcast to {outputs[0]} along {list(dims)}")
    in_order = sorted(range(len(dims)), key=dims.__getitem__)
    aligned = [1] * len(shape)
    for i, dim in enumerate(dims):
        aligned[dim] = operand.shape[i]
    return [np.broadcast_to(operand.transpose(in_order).reshape(aligned), shape)]


def iota(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`iota dim= start=`: each element is the start, 0 when absent, and its index along that dimension."""
    shape = outputs[0].shape
    dim, start = attributes.integer(attrs, "dim"), attributes.integer(attrs, "start", 0)
    if not 0 <= dim < len(shape):
        bad_input(f"attribute `dim`: {outputs[0]} has no dimension {dim}")
    if not 0 <= start <= _MOST_COUNTED:
        bad_input(f"attribute `start`: must be between 0 and 2**62, found {start}")
    along = [1] * len(shape)
    along[dim] = shape[dim]
    return [np.broadcast_to(convert(np.arange(start, start + shape[dim]), outputs[0].dtype).reshape(along), shape)]


def pad(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`pad low= high= interior=`: operand and padding value; negative `low` and `high` cut elements off."""
    operand, value = inputs
    low = attributes.integers(attrs, "low")
    high = attributes.integers(attrs, "high")
    interior = attributes.integers(attrs, "interior", (0,) * operand.ndim)
    if not len(low) == len(high) == len(interior) == operand.ndim:
        bad_input(f"`low`, `high` and `interior` need {operand.ndim} numbers each, one a dimension")
    if min(interior, default=0) < 0:
        bad_input("attribute `interior`: negative")
    spread = [extent + max(0, extent - 1) * gap for extent, gap in zip(operand.shape, interior, strict=True)]
    shape = tuple(max(0, extent + below + above) for extent, below, above in zip(spread, low, high, strict=True))
    if shape != outputs[0].shape:
        bad_input(f"padding gives {list(shape)}, the result has {list(outputs[0].shape)}")
    return [padded(operand, value, shape, low, [gap + 1 for gap in interior])]


def padded(
    operand: Array,
    value: Array,
    shape: Sequence[int],
    low: Sequence[int],
    step: Sequence[int],
    take: Take = np.empty,
) -> Array:
    """An array of `shape` full of `value`, with element i of the operand at `low + i * step` where that is inside.

    `take` makes the array.
    """
    if prod(shape) > _MAX_ELEMENTS:
        bad_input(f"padding to {list(shape)} elements takes more memory than is sensible")
    result = take(tuple(shape), operand.dtype)
    result.fill(value.reshape(())[()])
    taken, placed = [], []
    for extent, size, first, distance in zip(operand.shape, shape, low, step, strict=True):
        begin = -(min(first, 0) // distance)
        end = min(extent, max(begin, -(-(size - first) // distance)))
        at = first + begin * distance
        taken.append(slice(begin, max(begin, end)))
        placed.append(slice(at, at + max(0, end - begin - 1) * distance + (end > begin), distance))
    result[tuple(placed)] = operand[tuple(taken)]
    return result


def dma_copy(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """The operand's bytes, in order, as the output's type."""
    (operand,) = inputs
    if operand.nbytes != outputs[0].nbytes:
        bad_input(f"{operand.nbytes} bytes are read, {outputs[0].nbytes} written")
    return [np.frombuffer(operand.tobytes(), outputs[0].dtype).reshape(outputs[0].shape)]


def memset(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`memset value=`: every byte is `value`, 0 to 255."""
    value = attributes.integer(attrs, "value", 0)
    if not 0 <= value <= 255:
        bad_input(f"attribute `value`: {value} is not a byte")
    filled = np.full(outputs[0].nbytes, value, np.uint8)
    return [filled.view(outputs[0].dtype).reshape(outputs[0].shape)]
