"""Integer arithmetic where HLO differs from NumPy.

Division truncates towards zero; by zero it gives -1 (all ones for unsigned types) and the remainder gives the
dividend; the most negative number divided by -1 wraps to itself. A shift by the width or more, or by a
negative amount (the amount is read as unsigned), shifts everything out. Bit counts work on the unsigned
pattern.
"""

from __future__ import annotations

import numpy as np

from haulout.sim.numerics.types import Array, DType

_ONES_IN_BYTE = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)


def divide(dividend: Array, divisor: Array) -> Array:
    """Quotient, truncated towards zero; x / 0 = -1."""
    by_zero = divisor == 0
    safe = np.where(by_zero, 1, divisor).astype(divisor.dtype)
    exact = dividend - _remainder_of_nonzero(dividend, safe)
    quotient = np.where(_is_minus_one(safe), -exact, exact // _without_minus_one(safe))
    return np.where(by_zero, _all_ones(dividend.dtype), quotient).astype(dividend.dtype)


def remainder(dividend: Array, divisor: Array) -> Array:
    """Remainder with the sign of the dividend; x % 0 = x."""
    by_zero = divisor == 0
    safe = np.where(by_zero, 1, divisor).astype(divisor.dtype)
    return np.where(by_zero, dividend, _remainder_of_nonzero(dividend, safe)).astype(dividend.dtype)


def power(base: Array, exponent: Array) -> Array:
    """Power by squaring, wrapping; a negative exponent gives 0 except for the bases 1 and -1."""
    base, exponent = np.broadcast_arrays(base, exponent)
    result = np.ones_like(base)
    square = base.copy()
    left = _unsigned(exponent)
    while left.any():
        result = np.where(left & 1, result * square, result).astype(base.dtype)
        square = square * square
        left = left >> np.array(1, left.dtype)
    if base.dtype.kind == "u":
        return result
    is_odd = (exponent & 1) != 0
    of_minus_one = np.where(is_odd, -1, 1)
    of_negative = np.where(base == 1, 1, np.where(base == -1, of_minus_one, 0))
    return np.where(exponent < 0, of_negative, result).astype(base.dtype)


def shift_left(value: Array, amount: Array) -> Array:
    """Left shift; 0 when the amount is the width or more."""
    fits, places = _places(amount)
    return np.where(fits, _unsigned(value) << places, 0).astype(places.dtype).view(value.dtype)


def shift_right_logical(value: Array, amount: Array) -> Array:
    """Right shift with zeros coming in; 0 when the amount is the width or more."""
    fits, places = _places(amount)
    return np.where(fits, _unsigned(value) >> places, 0).astype(places.dtype).view(value.dtype)


def shift_right_arithmetic(value: Array, amount: Array) -> Array:
    """Right shift that shifts in copies of the sign bit, for every amount."""
    fits, places = _places(amount)
    most = value.dtype.itemsize * 8 - 1
    signed = value.view(f"i{value.dtype.itemsize}")
    shifted = np.asarray(signed >> np.where(fits, places, most).astype(signed.dtype))
    return shifted.view(value.dtype)


def population_count(value: Array) -> Array:
    """Number of one bits."""
    as_bytes = np.ascontiguousarray(value).reshape(*value.shape, 1).view(np.uint8)
    return np.asarray(_ONES_IN_BYTE[as_bytes].sum(axis=-1, dtype=np.uint8).astype(value.dtype))


def count_leading_zeros(value: Array) -> Array:
    """Number of zero bits above the highest one; the width for 0."""
    width = value.dtype.itemsize * 8
    smeared = _unsigned(value)
    step = 1
    while step < width:
        smeared = smeared | (smeared >> np.array(step, smeared.dtype))
        step *= 2
    return np.asarray(width - population_count(smeared), value.dtype)


def _remainder_of_nonzero(dividend: Array, divisor: Array) -> Array:
    # fmod by -1 is 0; asking the processor for it traps on the most negative dividend.
    return np.fmod(dividend, _without_minus_one(divisor)).astype(dividend.dtype)


def _is_minus_one(divisor: Array) -> Array:
    if divisor.dtype.kind == "u":
        return np.zeros(divisor.shape, np.bool_)
    return np.asarray(divisor == -1)


def _without_minus_one(divisor: Array) -> Array:
    return np.where(_is_minus_one(divisor), 1, divisor).astype(divisor.dtype)


def _all_ones(dtype: DType) -> Array:
    return np.array(np.iinfo(dtype).max if dtype.kind == "u" else -1, dtype)


def _unsigned(value: Array) -> Array:
    return value.view(f"u{value.dtype.itemsize}")


def _places(amount: Array) -> tuple[Array, Array]:
    """Which amounts are smaller than the width, and the amounts with 0 in place of the others."""
    places = _unsigned(amount)
    fits = places < amount.dtype.itemsize * 8
    return fits, np.where(fits, places, 0).astype(places.dtype)
