"""The k largest or smallest elements along the last dimension, with their indices.

Floats are ordered totally (`total_order.py`), as XLA orders them here. Equal elements are in the order of
their indices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from haulout.sim.numerics import attributes
from haulout.sim.numerics.rounding import convert
from haulout.sim.numerics.total_order import ordered_keys
from haulout.sim.numerics.types import Array, Attrs, TensorType
from haulout.support.diagnostics import bad_input


def topk(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`topk k= largest=`: (values, indices), both with k elements along the last dimension."""
    (operand,) = inputs
    count = attributes.integer(attrs, "k")
    if operand.ndim == 0 or not 0 <= count <= operand.shape[-1]:
        bad_input(f"attribute `k`: {count} elements of a last dimension of {operand.shape[-1:]}")
    keys = ordered_keys(operand)
    # ~key reverses the order of any integer type without overflow, and a stable sort keeps ties in place.
    falling = ~keys if attributes.flag(attrs, "largest", True) else keys
    order = np.argsort(falling, axis=-1, kind="stable")[..., :count]
    return [np.take_along_axis(operand, order, axis=-1), convert(order, outputs[1].dtype)]
