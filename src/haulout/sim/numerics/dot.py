"""General dot product: batch and contracting dimensions anywhere, as one batched matrix product.

Both sides are brought to [batch..., rows, contracted] and [batch..., contracted, columns]; `products.py`
(BLAS for f32 and f64) does the rest. The result's dimensions are batch, the left side's free ones, the right side's
free ones. bf16 and f16 accumulate in f32 and are rounded once; integers are carried, and wrap, in the type of
the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from haulout.sim.numerics import attributes
from haulout.sim.numerics.dtypes import computes_in, is_float
from haulout.sim.numerics.products import multiply
from haulout.sim.numerics.rounding import convert
from haulout.sim.numerics.types import Array, Attrs, DType, TensorType, type_of
from haulout.support.diagnostics import bad_input


@dataclass(frozen=True, slots=True)
class Product:
    """A dot of operands whose shapes are known."""

    carried: DType
    """The type in which products are formed and summed."""
    batch: tuple[int, ...]
    """Extents."""
    order: tuple[tuple[int, ...], tuple[int, ...]]
    """Of each side: its dimensions in the order batch, rows, contracted, or batch, contracted, columns."""
    matrix: tuple[tuple[int, int], tuple[int, int]]
    """Of each side: the extents of a matrix."""
    shape: tuple[int, ...]
    """Of the result."""

    @property
    def stack(self) -> tuple[int, ...]:
        """The shape of the result as a stack of matrices."""
        return (*self.batch, self.matrix[0][0], self.matrix[1][1])

    def side(self, which: int, operand: Array) -> Array:
        """An operand (0: left, 1: right) as a stack of matrices that BLAS can read; a view if possible."""
        turned = operand.astype(self.carried, copy=False).transpose(self.order[which])
        stack = turned.reshape(*self.batch, *self.matrix[which])
        # BLAS reads a matrix in place if one of its strides is a unit.
        return stack if stack.itemsize in stack.strides[-2:] else np.ascontiguousarray(stack)


def dot(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`dot lhs_batch= lhs_contracting= rhs_batch= rhs_contracting=`, lists of dimensions, omitted when empty."""
    left, right = inputs
    product = parse(attrs, type_of(left), type_of(right), outputs[0].dtype)
    result = np.empty(product.stack, product.carried)
    multiply(product.side(0, left), product.side(1, right), result)
    return [convert(result.reshape(product.shape), outputs[0].dtype)]


def parse(attrs: Attrs, left: TensorType, right: TensorType, output: DType) -> Product:
    """The attributes of a dot on operands of these types; `bad-input` where they do not fit."""
    left_batch, left_contracted = _dims(attrs, "lhs", left)
    right_batch, right_contracted = _dims(attrs, "rhs", right)
    batch = tuple(left.shape[dim] for dim in left_batch)
    contracted = tuple(left.shape[dim] for dim in left_contracted)
    if batch != tuple(right.shape[dim] for dim in right_batch):
        bad_input(f"the batch dimensions of {left.shape} and {right.shape} differ in extent")
    if contracted != tuple(right.shape[dim] for dim in right_contracted):
        bad_input(f"the contracting dimensions of {left.shape} and {right.shape} differ in extent")
    rows = tuple(dim for dim in range(len(left.shape)) if dim not in left_batch + left_contracted)
    columns = tuple(dim for dim in range(len(right.shape)) if dim not in right_batch + right_contracted)
    row_extents, column_extents = (tuple(left.shape[dim] for dim in rows), tuple(right.shape[dim] for dim in columns))
    return Product(
        carried_in(left.dtype, right.dtype, output),
        batch,
        ((*left_batch, *rows, *left_contracted), (*right_batch, *right_contracted, *columns)),
        ((prod(row_extents), prod(contracted)), (prod(contracted), prod(column_extents))),
        (*batch, *row_extents, *column_extents),
    )


def carried_in(left: DType, right: DType, output: DType) -> DType:
    """The type in which products are formed and summed."""
    if not is_float(output):
        return output
    return np.result_type(computes_in(output), *(computes_in(side) for side in (left, right) if is_float(side)))


def _dims(attrs: Attrs, side: str, operand: TensorType) -> tuple[tuple[int, ...], tuple[int, ...]]:
    batch = attributes.integers(attrs, f"{side}_batch", ())
    contracted = attributes.integers(attrs, f"{side}_contracting", ())
    named = batch + contracted
    if len(set(named)) != len(named) or not all(0 <= dim < len(operand.shape) for dim in named):
        bad_input(f"`{side}_batch` and `{side}_contracting` are not distinct dimensions of {operand.shape}")
    return batch, contracted
