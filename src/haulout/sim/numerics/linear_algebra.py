"""Factorizations and triangular systems, matrix by matrix, with SciPy's LAPACK, as XLA's CPU client calls it.

The last two dimensions are a matrix, those before are a batch. Types are f32 and f64. Where LAPACK reports that it
fails, `info` is its number; `cholesky`, which has no `info`, gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from haulout.sim.numerics import attributes
from haulout.sim.numerics.types import Array, Attrs, TensorType
from haulout.support.diagnostics import bad_input

_LETTERS = {"f4": "s", "f8": "d"}


def cholesky(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`cholesky lower=`: the factor, and zeros in the other triangle."""
    (operand,) = inputs
    _expect_square(operand)
    lower = attributes.flag(attrs, "lower", True)
    factor = _routine("potrf", operand)
    result = np.empty_like(operand)
    for at in _batch(operand):
        found, info = factor(operand[at], lower=lower, clean=True)
        result[at] = found if info == 0 else np.nan
    return [result]


def triangular_solve(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`triangular_solve left= lower= unit= transpose=`: x with op(a) x = b, or x op(a) = b."""
    a, b = inputs
    _expect_square(a)
    left, lower, unit, transpose = (
        attributes.flag(attrs, name, default)
        for name, default in (("left", True), ("lower", True), ("unit", False), ("transpose", False))
    )
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2 if left else -1]:
        bad_input(f"a is {list(a.shape)}, b is {list(b.shape)}")
    solve = _function("scipy.linalg.blas", "trsm", b)
    result = np.empty_like(b)
    for at in _batch(b):
        result[at] = solve(1.0, a[at], b[at], side=not left, lower=lower, trans_a=int(transpose), diag=unit)
    return [result]


def lu(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`lu`: both factors in one matrix, the row that each row was exchanged with (from 0), info."""
    (operand,) = inputs
    factor = _routine("getrf", operand)
    batch, rank = operand.shape[:-2], min(operand.shape[-2:])
    packed, pivots = np.empty_like(operand), np.empty((*batch, rank), np.int32)
    info = np.empty(batch, np.int32)
    for at in _batch(operand):
        packed[at], pivots[at], info[at] = factor(operand[at])
    return [packed, pivots, info]


def qr(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`qr`: R above the diagonal, Householder's vectors below, and their factors."""
    (operand,) = inputs
    factor = _routine("geqrf", operand)
    packed = np.empty_like(operand)
    factors = np.empty((*operand.shape[:-2], min(operand.shape[-2:])), operand.dtype)
    for at in _batch(operand):
        packed[at], factors[at], _, _ = factor(operand[at])
    return [packed, factors]


def householder_product(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`householder_product`: the first columns of the product of reflections, as many as the vectors' matrix has."""
    vectors, factors = inputs
    rows, columns = vectors.shape[-2:]
    if rows < columns or factors.shape[:-1] != vectors.shape[:-2] or factors.shape[-1] > columns:
        bad_input(f"vectors {list(vectors.shape)} do not fit factors {list(factors.shape)}")
    multiply = _routine("orgqr", vectors)
    result = np.empty_like(vectors)
    for at in _batch(vectors):
        result[at], _, _ = multiply(vectors[at], factors[at])
    return [result]


def eigh(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`eigh lower=`: eigenvectors as columns, eigenvalues in rising order, info; one triangle is read."""
    (operand,) = inputs
    _expect_square(operand)
    lower = attributes.flag(attrs, "lower", True)
    solve = _routine("syevd", operand)
    vectors, values = np.empty_like(operand), np.empty(operand.shape[:-1], operand.dtype)
    info = np.empty(operand.shape[:-2], np.int32)
    for at in _batch(operand):
        values[at], vectors[at], info[at] = solve(operand[at], compute_v=1, lower=lower)
    return [vectors, values, info]


def svd(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`svd full=`: singular values in falling order, U, V transposed, info."""
    (operand,) = inputs
    full = attributes.flag(attrs, "full", False)
    rows, columns = operand.shape[-2:]
    batch, rank = operand.shape[:-2], min(rows, columns)
    solve = _routine("gesdd", operand)
    values = np.empty((*batch, rank), operand.dtype)
    left = np.empty((*batch, rows, rows if full else rank), operand.dtype)
    right = np.empty((*batch, columns if full else rank, columns), operand.dtype)
    info = np.empty(batch, np.int32)
    for at in _batch(operand):
        left[at], values[at], right[at], info[at] = solve(operand[at], full_matrices=full)
    return [values, left, right, info]


def _batch(operand: Array) -> Any:
    return np.ndindex(operand.shape[:-2])


def _expect_square(operand: Array) -> None:
    if operand.ndim < 2 or operand.shape[-1] != operand.shape[-2]:
        bad_input(f"the operand is {list(operand.shape)}, expected square matrices")


def _routine(name: str, operand: Array) -> Callable[..., Any]:
    return _function("scipy.linalg.lapack", name, operand)


def _function(module: str, name: str, operand: Array) -> Callable[..., Any]:
    """A routine for the type of an operand. SciPy is imported when it is needed: that takes a while."""
    letter = _LETTERS.get(operand.dtype.str[1:])
    if letter is None or operand.ndim < 2:
        bad_input(f"the operand is {operand.dtype}{list(operand.shape)}, expected matrices of f32 or f64")
    found: Callable[..., Any] = getattr(import_module(module), letter + name)
    return found
