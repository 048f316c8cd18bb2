"""General dot product: batch and contracting dimensions anywhere, as one batched matrix product.

Both sides are brought to [batch, rows, contracted] and [batch, contracted, columns]; NumPy's matmul (BLAS for
f32 and f64) does the rest. The result's dimensions are batch, the left side's free ones, the right side's
free ones. bf16 and f16 accumulate in f32 and are rounded once; integers are carried, and wrap, in the type of
the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from haulout.sim.numerics import attributes
from haulout.sim.numerics.dtypes import computes_in, is_float
from haulout.sim.numerics.rounding import convert
from haulout.sim.numerics.types import Array, Attrs, DType, TensorType
from haulout.support.diagnostics import bad_input


def dot(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`dot lhs_batch= lhs_contracting= rhs_batch= rhs_contracting=`, lists of dimensions, omitted when empty."""
    left, right = inputs
    matrices, shape = sides(attrs, left, right, outputs[0].dtype)
    return [convert(np.matmul(*matrices).reshape(shape), outputs[0].dtype)]


def sides(attrs: Attrs, left: Array, right: Array, output: DType) -> tuple[tuple[Array, Array], list[int]]:
    """The operands of the batched matrix product, and the shape of its result; views where no copy is needed."""
    left_batch, left_contracted = _dims(attrs, "lhs", left)
    right_batch, right_contracted = _dims(attrs, "rhs", right)
    batch = [left.shape[dim] for dim in left_batch]
    contracted = [left.shape[dim] for dim in left_contracted]
    if batch != [right.shape[dim] for dim in right_batch]:
        bad_input(f"the batch dimensions of {left.shape} and {right.shape} differ in extent")
    if contracted != [right.shape[dim] for dim in right_contracted]:
        bad_input(f"the contracting dimensions of {left.shape} and {right.shape} differ in extent")
    rows = [dim for dim in range(left.ndim) if dim not in left_batch + left_contracted]
    columns = [dim for dim in range(right.ndim) if dim not in right_batch + right_contracted]
    shape = [*batch, *(left.shape[dim] for dim in rows), *(right.shape[dim] for dim in columns)]

    carried = carried_in(left.dtype, right.dtype, output)
    left_matrix = left.astype(carried, copy=False).transpose(*left_batch, *rows, *left_contracted)
    right_matrix = right.astype(carried, copy=False).transpose(*right_batch, *right_contracted, *columns)
    matrices = (
        left_matrix.reshape(prod(batch), prod(left.shape[dim] for dim in rows), prod(contracted)),
        right_matrix.reshape(prod(batch), prod(contracted), prod(right.shape[dim] for dim in columns)),
    )
    return (_with_unit_stride(matrices[0]), _with_unit_stride(matrices[1])), shape


def carried_in(left: DType, right: DType, output: DType) -> DType:
    """The type in which products are formed and summed."""
    if not is_float(output):
        return output
    return np.result_type(computes_in(output), *(computes_in(side) for side in (left, right) if is_float(side)))


def _with_unit_stride(matrices: Array) -> Array:
    """The matrices themselves or, without a unit stride in each, a copy: BLAS cannot read them in place."""
    return matrices if matrices.itemsize in matrices.strides[-2:] else np.ascontiguousarray(matrices)


def _dims(attrs: Attrs, side: str, operand: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    batch = attributes.integers(attrs, f"{side}_batch", ())
    contracted = attributes.integers(attrs, f"{side}_contracting", ())
    named = batch + contracted
    if len(set(named)) != len(named) or not all(0 <= dim < operand.ndim for dim in named):
        bad_input(f"`{side}_batch` and `{side}_contracting` are not distinct dimensions of {operand.shape}")
    return batch, contracted
