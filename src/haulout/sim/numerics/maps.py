"""`map` and `map_reduce`: a computation on scalars for each element, and the reduction of what it gives.

The result has the bits that its statements give one by one, each on whole arrays: a statement rounds to its own type.
Functions that NumPy approximates get every operand as a whole array, because it may take another approximation for a
single value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from haulout.sim.numerics import body
from haulout.sim.numerics.reductions import reduce
from haulout.sim.numerics.types import Array, Attrs, TensorType
from haulout.support.diagnostics import bad_input


def map_elements(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`map body= results=`: operands have the result's shape, or one element."""
    return [_mapped(attrs, inputs, outputs[0].shape)]


def map_reduce(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`map_reduce dims= op= body= results=`: operands x1..xn, init. One of the x has the shape that is reduced."""
    *arrays, initial = inputs
    whole = max((array.shape for array in arrays), key=lambda shape: (np.prod(shape), len(shape)))
    reduced = {"dims": attrs.get("dims", []), "op": attrs.get("op", "")}
    return reduce(reduced, [_mapped(attrs, arrays, whole), initial], outputs)


def _mapped(attrs: Attrs, inputs: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """One value for each element of an array of that shape."""
    parameters = list(inputs)
    for position, operand in enumerate(inputs):
        if operand.shape != shape:
            if operand.size != 1:
                bad_input(f"operand {position} has shape {list(operand.shape)}, the elements {list(shape)}")
            parameters[position] = operand.reshape(())
    (result,) = body.parse(attrs, parameters=len(inputs), results=1)(*parameters, shape=shape)
    return np.broadcast_to(result, shape)
