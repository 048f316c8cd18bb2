"""Factorizations and triangular systems; all but the first two are what custom-calls of LAPACK stand for."""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.values import Operation
from haulout.ir.attributes import AttrValue


def _matrix(operation: Operation, square: bool = False) -> tuple[tuple[int, ...], int, int]:
    """The batch, rows and columns of the first operand."""
    operation.expect_arity()
    shape = operation.operands[0].shape
    operation.expect(len(shape.dims) >= 2 and shape.dtype in ("f32", "f64"), "expected matrices of f32 or f64")
    *batch, rows, columns = shape.dims
    operation.expect(rows == columns or not square, "expected square matrices")
    return tuple(batch), rows, columns


def _expect(operation: Operation, *dims: tuple[int, ...], info: int | None = None) -> None:
    """The results have these shapes, one of them s32."""
    dtype = operation.operands[0].shape.dtype
    for index, each in enumerate(dims):
        operation.expect_result(each, "s32" if index == info else dtype, index)


def _emit_cholesky(out: Emitter, operation: Operation) -> None:
    batch, size, _ = _matrix(operation, square=True)
    _expect(operation, (*batch, size, size))
    out.compute(operation, {"lower": operation.attribute("lower", attributes.boolean, False)})


def _emit_triangular_solve(out: Emitter, operation: Operation) -> None:
    batch, size, _ = _matrix(operation, square=True)
    given = operation.operands[1].shape
    left, lower, unit = (
        operation.attribute(key, attributes.boolean, False) for key in ("left_side", "lower", "unit_diagonal")
    )
    how = operation.attribute(
        "transpose_a", lambda value: attributes.choice(value, "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"), "NO_TRANSPOSE"
    )
    fits = len(given.dims) == len(batch) + 2 and given.dims[:-2] == batch and given.dims[-2 if left else -1] == size
    operation.expect(fits and given.dtype == operation.operands[0].shape.dtype, "the right-hand side does not fit")
    _expect(operation, given.dims)
    attrs: dict[str, AttrValue] = {"left": left, "lower": lower, "unit": unit, "transpose": how != "NO_TRANSPOSE"}
    out.compute(operation, attrs)


def _emit_lu(out: Emitter, operation: Operation) -> None:
    batch, rows, columns = _matrix(operation)
    operation.expect_result((*batch, rows, columns), operation.operands[0].shape.dtype)
    operation.expect_result((*batch, min(rows, columns)), "s32", 1)
    operation.expect_result(batch, "s32", 2)
    out.compute(operation)


def _emit_qr(out: Emitter, operation: Operation) -> None:
    batch, rows, columns = _matrix(operation)
    _expect(operation, (*batch, rows, columns), (*batch, min(rows, columns)))
    out.compute(operation)


def _emit_householder(out: Emitter, operation: Operation) -> None:
    batch, rows, columns = _matrix(operation)
    factors = operation.operands[1].shape
    fits = rows >= columns and factors.dims[:-1] == batch and bool(factors.dims) and factors.dims[-1] <= columns
    operation.expect(fits and factors.dtype == operation.operands[0].shape.dtype, "the factors do not fit")
    _expect(operation, (*batch, rows, columns))
    out.compute(operation)


def _emit_eigh(out: Emitter, operation: Operation) -> None:
    batch, size, _ = _matrix(operation, square=True)
    _expect(operation, (*batch, size, size), (*batch, size), batch, info=2)
    out.compute(operation, {"lower": operation.attribute("lower", attributes.boolean, True)})


def _emit_svd(out: Emitter, operation: Operation) -> None:
    batch, rows, columns = _matrix(operation)
    full, rank = operation.attribute("full", attributes.boolean, False), min(rows, columns)
    left, right = (rows, columns) if full else (rank, rank)
    _expect(operation, (*batch, rank), (*batch, rows, left), (*batch, right, columns), batch, info=3)
    out.compute(operation, {"full": full})


RULES = {
    "cholesky": Rule(_emit_cholesky, ("lower",)),
    "triangular-solve": Rule(_emit_triangular_solve, ("left_side", "lower", "unit_diagonal", "transpose_a")),
    "lu": Rule(_emit_lu),
    "qr": Rule(_emit_qr),
    "householder-product": Rule(_emit_householder),
    "eigh": Rule(_emit_eigh, ("lower",)),
    "svd": Rule(_emit_svd, ("full",)),
}
