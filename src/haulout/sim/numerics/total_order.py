"""The total order of floats: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.

IEEE 754's `totalOrder`, which XLA uses for sorting: the bit patterns, compared as integers after those of negative
numbers are inverted.
"""

from __future__ import annotations

import numpy as np

from haulout.sim.numerics.dtypes import is_float
from haulout.sim.numerics.types import Array


def ordered_keys(array: Array) -> Array:
    """Integers, or predicates, in the order of the elements; those of integers are the elements themselves."""
    if not is_float(array.dtype):
        return array
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}").reshape(array.shape)
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
