"""Moving between storage types and the types that compute: widen before an operation, round once after it."""

from __future__ import annotations

import numpy as np

from haulout.sim.numerics.dtypes import F32, F64, MANTISSA_BITS, PRED, computes_in, is_complex, is_float, name_of
from haulout.sim.numerics.types import Array, DType
from haulout.support.diagnostics import bad_input


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
    if is_complex(wide.dtype) and not is_complex(dtype) and dtype != PRED:
        bad_input(f"complex numbers cannot be converted to {name_of(dtype)}")
    if dtype == PRED:
        return np.asarray(wide != 0)
    if is_float(wide.dtype) and not is_float(dtype) and not is_complex(dtype):
        return _saturate(wide, dtype)
    if computes_in(dtype) != dtype and wide.dtype == F64:
        wide = wide.astype(F32)
    return wide.astype(dtype)


def reduce_precision(array: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Floats rounded, to nearest even, to a type with so many bits, and kept in their own.

    As XLA does it, on the bits: what is too large becomes infinite, what is too small (subnormals among them) a zero
    of its sign; NaN stays as it is. Bits that the type does not have change nothing.
    """
    width, own_mantissa = 8 * array.dtype.itemsize, MANTISSA_BITS[array.dtype]
    own_exponent = width - 1 - own_mantissa
    unsigned = np.dtype(f"u{array.dtype.itemsize}")
    bits = np.ascontiguousarray(array).view(unsigned).reshape(array.shape).astype(np.uint64)
    sign = bits & np.uint64(1 << width - 1)
    magnitude = bits ^ sign
    if mantissa_bits < own_mantissa:
        dropped = own_mantissa - mantissa_bits
        last = magnitude >> np.uint64(dropped) & np.uint64(1)
        magnitude += last + np.uint64((1 << dropped - 1) - 1)
        magnitude &= np.uint64((1 << width) - (1 << dropped))
    if exponent_bits < own_exponent:
        bias, largest = (1 << own_exponent - 1) - 1, (1 << exponent_bits - 1) - 1
        exponent = magnitude >> np.uint64(own_mantissa)
        infinity = np.uint64((1 << own_exponent) - 1 << own_mantissa)
        magnitude = np.where(exponent > bias + largest, infinity, magnitude)
        magnitude = np.where(exponent <= bias - largest, np.uint64(0), magnitude)
    rounded = (magnitude | sign).astype(unsigned).view(array.dtype)
    return np.where(np.isnan(array), array, rounded)


def _saturate(wide: Array, dtype: DType) -> Array:
    limits = np.iinfo(dtype)
    too_low = wide <= limits.min
    too_high = wide >= 2.0 ** (limits.bits - (dtype.kind == "i"))
    inside = ~(too_low | too_high | np.isnan(wide))
    result = np.where(inside, wide, 0).astype(dtype)
    result[too_low] = limits.min
    result[too_high] = limits.max
    return result
