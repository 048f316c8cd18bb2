"""Convolution with everything that HLO allows: layouts by label, strides, padding, dilations, groups, reversal.

    out[g, n, o, p] = sum over c, k of  lhs[g, n, c, p * stride + k * dilation] * rhs[g, o, c, k]

The recipe: bring both sides to the order group, batch or output feature, space and input feature; spread and pad the
left side once; then gather windows and multiply them with the kernel, piece by piece (`im2col.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from haulout.sim.numerics import attributes, window
from haulout.sim.numerics.dot import carried_in
from haulout.sim.numerics.im2col import windows_product
from haulout.sim.numerics.rounding import convert
from haulout.sim.numerics.shaping import padded
from haulout.sim.numerics.types import Array, Attrs, TensorType
from haulout.sim.numerics.window import WindowDim
from haulout.support.diagnostics import bad_input

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
    lhs, rhs = inputs
    labels = parse_labels(attributes.text(attrs, "dim_labels"))
    for operand, order in ((lhs, labels.lhs), (rhs, labels.rhs)):
        if operand.ndim != len(order):
            bad_input(f"`dim_labels` describes {len(order)} dimensions, the operand has shape {operand.shape}")
    carried = carried_in(lhs.dtype, rhs.dtype, outputs[0].dtype)
    left = lhs.astype(carried, copy=False).transpose(labels.lhs)
    right = _reversed(attrs, rhs.astype(carried, copy=False).transpose(labels.rhs))
    dims = window.parse(attrs, left.shape[2:], "lhs_dilate", "rhs_dilate", sizes=right.shape[2:])
    if tuple(dim.size for dim in dims) != right.shape[2:]:
        bad_input(f"attribute `size`: the kernel has {right.shape[2:]}")
    batches, features = left.shape[0], right.shape[0]
    left, right = _grouped(attrs, left, right)
    batches //= attributes.integer(attrs, "batch_groups", 1)

    canonical_shape = (
        [outputs[0].shape[dim] for dim in labels.out] if len(labels.out) == len(outputs[0].shape) else []
    )
    expected = [batches, features, *(dim.positions for dim in dims)]
    if canonical_shape != expected:
        bad_input(f"the convolution gives {expected} as (batch, feature, space...), the result is {outputs[0]}")
    by_group = windows_product(_spread_and_pad(np.moveaxis(left, 2, -1), dims), right, dims)
    by_group = np.moveaxis(by_group, -1, 2)
    canonical = by_group.transpose(1, 0, 2, *range(3, by_group.ndim)).reshape(expected)
    return [convert(canonical.transpose(np.argsort(labels.out)), outputs[0].dtype)]


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


def _spread_and_pad(left: Array, dims: tuple[WindowDim, ...]) -> Array:
    """[group, batch, space, input] as the window moves over it."""
    if all(dim.padded == dim.extent and not dim.pad_low and dim.base_dilation == 1 for dim in dims):
        return left
    shape = (*left.shape[:2], *(dim.padded for dim in dims), left.shape[-1])
    low = (0, 0, *(dim.pad_low for dim in dims), 0)
    step = (1, 1, *(dim.base_dilation for dim in dims), 1)
    return padded(left, np.zeros((), left.dtype), shape, low, step)
