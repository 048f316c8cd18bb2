"""Moving between storage types and the types that compute: widen before an operation, round once after it."""

from __future__ import annotations

import numpy as np

from haulout.sim.numerics.dtypes import F32, F64, PRED, computes_in, is_float
from haulout.sim.numerics.types import Array, DType


def widen(array: Array) -> Array:
    """The array in the type that computes; exact, and no copy where it computes in itself."""
    return array.astype(computes_in(array.dtype), copy=False)


def convert(array: Array, dtype: DType) -> Array:
    """HLO `convert`: to pred by `!= 0`; float to integer truncates and saturates, NaN gives 0; integers wrap.

    f64 reaches the narrow floats through f32, as in XLA's CPU back end.
    """
    if array.dtype == dtype:
        return array
    wide = widen(array)
    if dtype == PRED:
        return np.asarray(wide != 0)
    if is_float(wide.dtype) and not is_float(dtype):
        return _saturate(wide, dtype)
    if computes_in(dtype) != dtype and wide.dtype == F64:
        wide = wide.astype(F32)
    return wide.astype(dtype)


def _saturate(wide: Array, dtype: DType) -> Array:
    limits = np.iinfo(dtype)
    too_low = wide <= limits.min
    too_high = wide >= 2.0 ** (limits.bits - (dtype.kind == "i"))
    inside = ~(too_low | too_high | np.isnan(wide))
    result = np.where(inside, wide, 0).astype(dtype)
    result[too_low] = limits.min
    result[too_high] = limits.max
    return result
