"""Microscaling (MX) formats: four packed elements, and a scale of a power of two for every 8 partitions of them.

The scale of partition k is in row `32 * (k // 32) + (k % 32) // 8` of the scales; four rows of each 32 are used.
"""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np

from haulout.sim.nki.call import Call
from haulout.sim.nki.matmul import add
from haulout.sim.nki.places import Place
from haulout.sim.numerics.types import Array, DType
from haulout.support.diagnostics import bad_input

_BIAS, _NAN = 127, 255
_GROUP, _QUADRANT, _PACK = 8, 32, 4


class _Format(NamedTuple):
    dtype: DType
    exponent: int
    """Of the largest element."""


_FORMATS = {
    "float8_e4m3fn_x4": _Format(np.dtype(ml_dtypes.float8_e4m3fn), 8),
    "float8_e5m2_x4": _Format(np.dtype(ml_dtypes.float8_e5m2), 15),
}
_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def _unpacked(place: Place) -> Array:
    """Elements as float32 [partitions, columns, 4]."""
    rows = np.ascontiguousarray(place.rows())
    if place.name == "float4_e2m1fn_x4":
        return np.asarray(_FP4[(rows[..., None] >> np.array([0, 4, 8, 12], np.uint16)) & 15])
    if place.name not in _FORMATS:
        bad_input(f"MX data has a packed type, found {place.name}")
    table = np.arange(256, dtype=np.uint8).view(_FORMATS[place.name].dtype).astype(np.float32)
    return np.asarray(table[rows.view(np.uint8).reshape(*rows.shape, _PACK)])


def _scale_rows(count: int, scales: Place) -> Array:
    k = np.arange(count)
    rows = k // _QUADRANT * _QUADRANT + k % _QUADRANT // _GROUP
    if rows.max() >= scales.partitions:
        bad_input(f"the scales have {scales.partitions} partitions; {count} partitions of data need {rows.max() + 1}")
    return np.asarray(rows)


def _scaled(data: Place, scales: Place) -> Array:
    """The values [partitions * 4, columns]."""
    values = _unpacked(data)
    raw = scales.rows().view(np.uint8)[_scale_rows(data.partitions, scales)]
    factors = np.where(raw == _NAN, np.float32(np.nan), np.exp2(raw.astype(np.float32) - _BIAS))
    return np.asarray((values * factors[:, :, None]).transpose(0, 2, 1).reshape(-1, values.shape[1]))


def nc_matmul_mx(call: Call) -> None:
    """The product of two scaled matrices, summed over partitions and packed elements."""
    one = _scaled(call.place("stationary"), call.place("stationary_scale"))
    two = _scaled(call.place("moving"), call.place("moving_scale"))
    add(call.place("dst"), one.T @ two, call.args.get("accumulate"), call)


def quantize_mx(call: Call) -> None:
    """Elements divided by the power of two that brings the largest of each 8 x 4 below the largest of the format."""
    dst, scales, source = call.place("dst"), call.place("dst_scale"), call.place("src").f32()
    if dst.name not in _FORMATS:
        bad_input(f"`dst` must be float8_e4m3fn_x4 or float8_e5m2_x4, found {dst.name}")
    dtype, most = _FORMATS[dst.name]
    count, columns = source.shape[0], source.shape[1] // _PACK
    groups = source.reshape(count // _GROUP, _GROUP, columns, _PACK)
    largest = np.abs(groups).max(axis=(1, 3))
    exponent = np.where(largest > 0, np.frexp(largest)[1] - 1 - (most - 1), -_BIAS)
    exponent = np.clip(exponent, -_BIAS, _BIAS)
    found = (groups / np.exp2(exponent.astype(np.float32))[:, None, :, None]).astype(dtype)
    packed = np.ascontiguousarray(found.reshape(count, columns * _PACK)).view(np.uint32)
    dst.put(packed)
    rows = _scale_rows(count, scales)[::_GROUP]
    held = scales.get().reshape(scales.partitions, -1).copy()
    held[rows] = (exponent + _BIAS).astype(np.uint8).view(held.dtype)
    scales.put(held)
