"""Element types by NKI's names, and conversions through float32, which happen at the ends of an instruction only.

float32 becomes an integer by rounding to nearest even, and saturates. It becomes a narrower float by rounding to
nearest even, as `ml_dtypes` does. Types of four packed elements (`_x4`) are moved, not computed with.
"""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes
import numpy as np

from haulout.sim.numerics.types import Array, DType
from haulout.support.diagnostics import bad_input

F32 = np.dtype(np.float32)
TYPES: dict[str, DType] = {
    "bool": np.dtype(np.uint8),
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": F32,
    "tfloat32": F32,
    "float64": np.dtype(np.float64),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
    "float8_e4m3fn_x4": np.dtype(np.uint32),
    "float8_e5m2_x4": np.dtype(np.uint32),
    "float4_e2m1fn_x4": np.dtype(np.uint16),
}
"""The type that holds an element, by NKI's name."""
PACKED = frozenset(name for name in TYPES if name.endswith("_x4"))


def element_type(name: str) -> DType:
    """The type of a name; `bad-input` for one that NKI does not have."""
    if name not in TYPES:
        bad_input(f"NKI has no element type '{name}'")
    return TYPES[name]


def is_integer(dtype: DType) -> bool:
    """Whether it is an integer."""
    return dtype.kind in "iu"


def to_f32(array: Array) -> Array:
    """Elements as float32; may be the array itself."""
    if array.dtype == F32:
        return array
    if array.dtype.itemsize == 1 and not is_integer(array.dtype):
        return np.asarray(_table(array.dtype)[array.view(np.uint8)])
    return array.astype(F32)


def from_f32(values: Array, name: str) -> Array:
    """float32 values as elements of a type of NKI."""
    dtype = element_type(name)
    if values.dtype == dtype:
        return values
    if name == "bool":
        return np.asarray((values != 0).astype(np.uint8))
    if is_integer(dtype):
        if is_integer(values.dtype):
            return values.astype(dtype)
        return _rounded(values, dtype)
    return np.asarray(values.astype(dtype))


def _rounded(values: Array, dtype: DType) -> Array:
    """Floats as integers: to nearest even, saturated; NaN, which no page describes, becomes 0."""
    limits = np.iinfo(dtype)
    wide = np.rint(values, dtype=np.float64) if dtype.itemsize >= 4 else np.rint(values)
    wide = np.nan_to_num(np.clip(wide, limits.min, limits.max), nan=0.0)
    return np.asarray(wide.astype(dtype))


@lru_cache
def _table(dtype: DType) -> Array:
    """The values of all elements of one byte."""
    found: Array = np.asarray(np.arange(256, dtype=np.uint8).view(dtype).astype(F32))
    return found
