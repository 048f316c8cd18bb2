"""Reductions: over dimensions (`reduce`), and of the parts that a collective has brought together (`combine`).

HLO leaves the order of a reduction open. Sums of f32 are carried in f64 and rounded once, so that long ones
are as exact as they can be; the narrow floats are carried in f32. A general computation is folded pairwise
over neighbours: a tree of log2(n) steps on whole arrays that keeps the order of the elements, so
associativity is all that it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as fold
from typing import Any

import numpy as np

from haulout.sim.numerics import attributes, body
from haulout.sim.numerics.dtypes import F32, F64, is_complex, is_float, name_of
from haulout.sim.numerics.rounding import convert, widen
from haulout.sim.numerics.types import Array, Attrs, DType, TensorType
from haulout.support.diagnostics import bad_input

COMBINERS: dict[str, np.ufunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def reduce(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`reduce dims= op=`: operands x, init; or `dims= body= results=`: operands x1..xn, init1..initn."""
    count = len(inputs) // 2
    arrays, initial = inputs[:count], [operand.reshape(()) for operand in inputs[count:]]
    dims = attributes.integers(attrs, "dims")
    _expect_same_shapes("reduce", arrays)
    if len(set(dims)) != len(dims) or not all(0 <= dim < arrays[0].ndim for dim in dims):
        bad_input(f"attribute `dims`: {list(dims)} are not distinct dimensions of a rank {arrays[0].ndim} array")
    if "op" in attrs:
        combine_with = combiner(attrs, arrays[0].dtype)
        if count != 1:
            bad_input("`reduce` of several arrays at once needs `body`, not `op`")
        return [_reduce_one(combine_with, arrays[0], initial[0], dims)]
    step = body.parse(attrs, parameters=2 * count, results=count)
    return _reduce_by_body(step, arrays, initial, dims)


def combine(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`combine op=`: n parts of one shape into one, from left to right, rounded once at the end."""
    _expect_same_shapes("combine", inputs)
    if any(part.dtype != inputs[0].dtype for part in inputs):
        bad_input("the parts of `combine` differ in element type")
    combine_with = combiner(attrs, inputs[0].dtype)
    return [convert(fold(combine_with, map(widen, inputs)), inputs[0].dtype)]


def combiner(attrs: Attrs, dtype: DType, name: str = "op") -> np.ufunc:
    """The ufunc that the attribute names; `bad-input` when it is not defined on `dtype`."""
    word = attributes.word(attrs, name, tuple(COMBINERS))
    if word in ("and", "or") and is_float(dtype):
        bad_input(f"`{word}` is not defined on {name_of(dtype)}")
    if is_complex(dtype) and word not in ("add", "multiply"):
        bad_input(f"`{word}` is not defined on {name_of(dtype)}")
    return COMBINERS[word]


def identity(combine_with: np.ufunc, dtype: DType) -> Any:
    """The value, as an array of no dimensions, that leaves every other as it is under the operation."""
    if combine_with in (np.add, np.bitwise_or):
        return np.zeros((), dtype)
    if combine_with is np.multiply:
        return np.ones((), dtype)
    if combine_with is np.bitwise_and:
        return np.invert(np.zeros((), dtype))
    lowest = combine_with is np.maximum
    if is_float(dtype):
        return np.array(-np.inf if lowest else np.inf, dtype)
    if dtype.kind == "b":
        return np.array(not lowest, dtype)
    return np.array(np.iinfo(dtype).min if lowest else np.iinfo(dtype).max, dtype)


def _reduce_one(combine_with: np.ufunc, array: Array, initial: Array, dims: tuple[int, ...]) -> Array:
    wide = widen(array)
    carried = F64 if combine_with is np.add and wide.dtype == F32 and array.dtype == F32 else wide.dtype
    result = combine_with.reduce(wide, axis=dims, dtype=carried, initial=initial.astype(carried)[()])
    return convert(np.asarray(result), array.dtype)


def _reduce_by_body(
    step: Callable[..., list[Array]], arrays: Sequence[Array], initial: Sequence[Array], dims: tuple[int, ...]
) -> list[Array]:
    kept = [dim for dim in range(arrays[0].ndim) if dim not in dims]
    shape = [arrays[0].shape[dim] for dim in kept]
    columns = [np.transpose(array, (*kept, *sorted(dims))).reshape(*shape, -1) for array in arrays]
    while columns[0].shape[-1] > 1:
        columns = _fold_neighbours(step, columns)
    if columns[0].shape[-1] == 0:
        return [np.broadcast_to(value, shape) for value in initial]
    results = step(*initial, *(column[..., 0] for column in columns))
    return [np.broadcast_to(result, shape) for result in results]


def _fold_neighbours(step: Callable[..., list[Array]], columns: Sequence[Array]) -> list[Array]:
    """Half as many elements along the last dimension; an odd one out at the end is carried over."""
    length = columns[0].shape[-1]
    even = length - length % 2
    left = [column[..., 0:even:2] for column in columns]
    right = [column[..., 1:even:2] for column in columns]
    halves = [np.broadcast_to(half, left[0].shape) for half in step(*left, *right)]
    return [np.concatenate([half, column[..., even:]], axis=-1) for half, column in zip(halves, columns, strict=True)]


def _expect_same_shapes(opcode: str, arrays: Sequence[Array]) -> None:
    if any(array.shape != arrays[0].shape for array in arrays):
        found = ", ".join(str(list(array.shape)) for array in arrays)
        bad_input(f"the arrays of `{opcode}` differ in shape: {found}")
