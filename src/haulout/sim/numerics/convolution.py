"""Convolution with everything that HLO allows: layouts by label, strides, padding, dilations, groups, reversal.

    out[g, n, o, p] = sum over c, k of  lhs[g, n, c, p * stride + k * dilation] * rhs[g, o, c, k]

The recipe: bring both sides to the order group, batch or output feature, input feature, space; spread and pad
the left side once. Then what the windows see is a matrix, with a row a position and a column for each tap and input
feature, and the result is its product with the weights. It is made in blocks of rows that stay in the cache. Where
there are fewer positions p than taps (the gradient of the weights), a block is one position of all batches.

The order of sums is that of `products.py`: a core that computes part of the positions gets the sums of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from haulout.sim.numerics import attributes, window
from haulout.sim.numerics.blocks import blocks
from haulout.sim.numerics.dot import carried_in
from haulout.sim.numerics.products import multiply
from haulout.sim.numerics.rounding import convert
from haulout.sim.numerics.scratch import Take, scratch
from haulout.sim.numerics.shaping import padded
from haulout.sim.numerics.types import Array, Attrs, TensorType, type_of
from haulout.sim.numerics.window import WindowDim
from haulout.support.diagnostics import bad_input

_BLOCK_BYTES = 1 << 19
"""Of a block of the matrix of windows."""
_LABELS = re.compile(r"([bf0-9]+)_([io0-9]+)->([bf0-9]+)")


@dataclass(frozen=True, slots=True)
class Labels:
    """Each array's dimensions in the order (batch, feature, space...); for rhs (output, input, space...)."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]


def convolution(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`convolution` of lhs and rhs.

    `dim_labels= size= stride= pad_low= pad_high= lhs_dilate= rhs_dilate= reverse= feature_groups=
    batch_groups=`, all but the first omitted when default.
    """
    out = np.empty(outputs[0].shape, outputs[0].dtype)
    convolve(attrs, inputs, out)
    return [out]


def convolve(attrs: Attrs, inputs: Sequence[Array], out: Array) -> None:
    """Write the convolution of lhs and rhs to `out`, which shares no bytes with them."""
    lhs, rhs = inputs
    labels = parse_labels(attributes.text(attrs, "dim_labels"))
    for operand, order in ((lhs, labels.lhs), (rhs, labels.rhs)):
        if operand.ndim != len(order):
            bad_input(f"`dim_labels` describes {len(order)} dimensions, the operand has shape {operand.shape}")
    carried = carried_in(lhs.dtype, rhs.dtype, out.dtype)
    left = lhs.astype(carried, copy=False).transpose(labels.lhs)
    right = _reversed(attrs, rhs.astype(carried, copy=False).transpose(labels.rhs))
    dims = window.parse(attrs, left.shape[2:], "lhs_dilate", "rhs_dilate", sizes=right.shape[2:])
    if tuple(dim.size for dim in dims) != right.shape[2:]:
        bad_input(f"attribute `size`: the kernel has {right.shape[2:]}")
    batches, features = left.shape[0], right.shape[0]
    left, right = _grouped(attrs, left, right)
    batches //= attributes.integer(attrs, "batch_groups", 1)

    canonical = out.transpose(labels.out) if len(labels.out) == out.ndim else out
    expected = (batches, features, *(dim.positions for dim in dims))
    if canonical.shape != expected:
        bad_input(
            f"the convolution gives {list(expected)} as (batch, feature, space...), the result is {type_of(out)}"
        )
    if not out.size:
        return
    groups = left.shape[0]
    by_group = canonical.reshape(batches, groups, features // groups, *expected[2:]).swapaxes(0, 1)
    assert np.may_share_memory(by_group, out)  # an axis was cut in two
    slide = _by_rows if prod(right.shape[3:]) <= prod(expected[2:]) else _by_positions
    with scratch() as take:
        slide(left, right, dims, by_group, take)


def parse_labels(text: str) -> Labels:
    """The parts of `b01f_01io->b01f`; digits number the spatial dimensions."""
    match = _LABELS.fullmatch(text)
    if match is None:
        bad_input(f"attribute `dim_labels`: expected the form b01f_01io->b01f, found '{text}'")
    spatial = [str(number) for number in range(len(match[1]) - 2)]
    orders = []
    for part, letters in zip(match.groups(), ("bf", "oi", "bf"), strict=True):
        if sorted(part) != sorted([*letters, *spatial]):
            bad_input(
                f"attribute `dim_labels`: '{part}' in '{text}' does not name {letters} and {len(spatial)} spatial"
            )
        orders.append(tuple(part.index(letter) for letter in (*letters, *spatial)))
    return Labels(*orders)


def _reversed(attrs: Attrs, kernel: Array) -> Array:
    reverse = attributes.flags(attrs, "reverse", (False,) * (kernel.ndim - 2))
    if len(reverse) != kernel.ndim - 2:
        bad_input(f"attribute `reverse`: needs {kernel.ndim - 2} values, one a spatial dimension")
    return np.asarray(np.flip(kernel, tuple(2 + dim for dim, flipped in enumerate(reverse) if flipped)))


def _grouped(attrs: Attrs, left: Array, right: Array) -> tuple[Array, Array]:
    """Both sides with a leading group dimension: [group, batch or output, input feature, space...].

    Feature groups cut the input features into runs, batch groups the batch; both cut the output features into
    runs.
    """
    by_feature = attributes.integer(attrs, "feature_groups", 1)
    by_batch = attributes.integer(attrs, "batch_groups", 1)
    if min(by_feature, by_batch) < 1 or (by_feature > 1 and by_batch > 1):
        bad_input("`feature_groups` and `batch_groups` are at least 1, and not both more than 1")
    groups = by_feature * by_batch
    batch, feature, *space = left.shape
    output, taken, *kernel = right.shape
    if batch % by_batch or feature % by_feature or output % groups or feature // by_feature != taken:
        bad_input(
            f"{groups} groups: the left side has {batch} batches of {feature} features, "
            f"the kernel takes {taken} to {output}"
        )
    if by_batch > 1:
        left = left.reshape(groups, batch // groups, feature, *space)
    else:
        left = left.reshape(batch, groups, taken, *space).swapaxes(0, 1)
    return left, right.reshape(groups, output // groups, taken, *kernel)


def _by_rows(left: Array, right: Array, dims: tuple[WindowDim, ...], out: Array, take: Take) -> None:
    """[group, batch, input, space] and [group, output, input, taps] to [group, batch, output, positions]."""
    rank, taken = len(dims), left.shape[2]
    base = _spread_and_pad(np.moveaxis(left, 2, -1), dims, 2, take)
    space = base.strides[2:-1]
    windows = np.lib.stride_tricks.as_strided(
        base,
        (*base.shape[:2], *(dim.positions for dim in dims), *(dim.size for dim in dims), taken),
        (
            *base.strides[:2],
            *(stride * dim.stride for stride, dim in zip(space, dims, strict=True)),
            *(stride * dim.dilation for stride, dim in zip(space, dims, strict=True)),
            base.strides[-1],
        ),
        writeable=False,
    )
    weights = right.transpose(0, *range(3, 3 + rank), 2, 1).reshape(len(right), -1, right.shape[1])
    columns = weights.shape[1]
    rows_of = windows.shape[1 : 2 + rank]
    limit = max(1, _BLOCK_BYTES // (left.itemsize * max(1, columns)))
    room = take((min(2 * limit, prod(rows_of)) * columns,), left.dtype)
    for group, results in enumerate(np.moveaxis(out, 2, -1)):
        for index in blocks(rows_of, limit):
            seen, part = windows[group][index], results[index]
            if not seen.flags.c_contiguous:
                matrix = room[: seen.size].reshape(seen.shape)
                np.copyto(matrix, seen)
                seen = matrix
            with scratch() as take_part:
                _product_into(part, seen.reshape(-1, columns), weights[group], take_part)


def _product_into(out: Array, seen: Array, weights: Array, take: Take) -> None:
    """The product of two matrices to an array of its elements."""
    shape = len(seen), weights.shape[1]
    if out.flags.c_contiguous and out.dtype == seen.dtype:
        multiply(seen, weights, out.reshape(shape))
        return
    total = take(shape, seen.dtype)
    multiply(seen, weights, total)
    out[...] = convert(total.reshape(out.shape), out.dtype)


def _by_positions(left: Array, right: Array, dims: tuple[WindowDim, ...], out: Array, take: Take) -> None:
    """The same, position by position: a few products over many taps and features."""
    groups, batch = left.shape[:2]
    batch_last = left.strides[1] == left.itemsize
    order = (0, *range(3, left.ndim), 2, 1) if batch_last else (0, 1, *range(3, left.ndim), 2)
    base = _spread_and_pad(left.transpose(order), dims, 1 if batch_last else 2, take)
    weights = right.transpose(0, *range(3, right.ndim), 2, 1).reshape(groups, -1, right.shape[1])
    for position in product(*(range(dim.positions) for dim in dims)):
        taps = _each(dims, WindowDim.taps_at, position)
        if batch_last:
            seen = base[_index(slice(None), *taps)].reshape(groups, -1, batch).swapaxes(1, 2)
        else:
            seen = base[_index(slice(None), slice(None), *taps)].reshape(groups, batch, -1)
        total = np.empty((groups, batch, weights.shape[-1]), seen.dtype)
        multiply(seen, weights, total)
        out[_index(..., *position)] = convert(total, out.dtype)


def _spread_and_pad(array: Array, dims: tuple[WindowDim, ...], first: int, take: Take) -> Array:
    """An array whose spatial dimensions begin at `first`, spread out and padded."""
    if all(dim.padded == dim.extent and not dim.pad_low and dim.base_dilation == 1 for dim in dims):
        return array
    before, after = array.shape[:first], array.shape[first + len(dims) :]
    shape = (*before, *(dim.padded for dim in dims), *after)
    low = (*(0 for _ in before), *(dim.pad_low for dim in dims), *(0 for _ in after))
    step = (*(1 for _ in before), *(dim.base_dilation for dim in dims), *(1 for _ in after))
    return padded(array, np.zeros((), array.dtype), shape, low, step, take)


def _index(*parts: Any) -> tuple[Any, ...]:
    return parts


def _each(dims: tuple[WindowDim, ...], part: Any, numbers: tuple[int, ...]) -> list[slice]:
    return [part(dim, number) for dim, number in zip(dims, numbers, strict=True)]
