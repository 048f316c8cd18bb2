"""Inputs for which activation functions are valid, by NKI's documentation of `nl`."""

from __future__ import annotations

import math

import numpy as np

from haulout.ir.schema import Bools
from haulout.ir.values import Array

VALID = {
    "log": (2.0**-64, 2.0**64),
    "sqrt": (2.0**-116, 2.0**118),
    "rsqrt": (2.0**-87, 2.0**97),
    "sin": (-math.pi, math.pi),
    "arctan": (-math.pi / 2, math.pi / 2),
    "reciprocal": (2.0**-42, 2.0**42),
}
"""Least and greatest valid input; of `reciprocal`, of its magnitude. `sqrt` takes 0 too."""


def outside_range(function: str, values: Array) -> Bools:
    """Which `values` (any shape) `function` is not valid for; none if it is valid for all."""
    if function not in VALID:
        return np.zeros(values.shape, bool)
    low, high = VALID[function]
    given = np.abs(values) if function == "reciprocal" else values
    outside = (given < low) | (given > high)
    return outside & (given != 0) if function == "sqrt" else outside
