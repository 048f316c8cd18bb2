"""Custom-calls of LAPACK, as JAX makes them for the CPU: `lapack_` type routine `_ffi`, for f32 and f64.

    potrf   (factor, info)                          getrf   (both factors, pivots from 1, info)
    geqrf   (R and vectors, their factors)          orgqr   the product of reflections
    syevd   (vectors, values, info)                 gesdd   (operand's place, values, U, V transposed, info)
    trsm    x with op(a) x = b

`backend_config` has letters as numbers: `uplo = 76 : ui8` is L. What a routine leaves in the place of its operand
nobody reads; here it is the operand.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from haulout.frontends.hlo.expand.writer import Value, Writer
from haulout.frontends.hlo.types import AnyShape, Shape, TupleShape

_LETTER = re.compile(r"(\w+)\s*=\s*([0-9]{1,3})\b")
_TYPES = ("f32", "f64")


def _letters(writer: Writer) -> dict[str, str]:
    """What `backend_config` chooses."""
    config = writer.instruction.attributes.get("backend_config")
    return {key: chr(int(code)) for key, code in _LETTER.findall(config.text if config is not None else "")}


def _parts(writer: Writer, operands: int, results: int) -> tuple[Shape, ...] | None:
    """The shapes of the results, if there are so many of them and of the operands, matrices of one type first."""
    shape = writer.instruction.shape
    found: tuple[AnyShape, ...] = shape.elements if isinstance(shape, TupleShape) else (shape,)
    arrays = tuple(each for each in found if isinstance(each, Shape))
    if len(writer.parameters) != operands or not len(arrays) == len(found) == results:
        return None
    given = writer.parameters[0].shape
    is_matrix = isinstance(given, Shape) and len(given.dims) >= 2 and given.dtype in _TYPES
    return arrays if is_matrix and all(isinstance(each.shape, Shape) for each in writer.parameters) else None


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _potrf(writer: Writer) -> Value | None:
    if (parts := _parts(writer, 1, 2)) is None:
        return None
    (x,) = writer.parameters
    y = writer.write(parts[0], "cholesky", x, lower=_flag(_letters(writer).get("uplo") == "L"))
    rank = len(x.dims)
    corner = writer.slice(y, *((0, extent) for extent in x.dims[:-2]), (0, 1), (0, 1))
    first = writer.reshape(corner, x.dims[: rank - 2])
    return writer.tuple(y, writer.convert(writer.compare(first, first, "NE"), "s32"))


def _getrf(writer: Writer) -> Value | None:
    if (parts := _parts(writer, 1, 3)) is None:
        return None
    made = writer.write(TupleShape(parts), "lu", *writer.parameters)
    pivots = writer.element(made, 1)
    return writer.tuple(
        writer.element(made, 0),
        writer.same("add", pivots, writer.constant("s32", np.int32(1), pivots.dims)),
        writer.element(made, 2),
    )


def _geqrf(writer: Writer) -> Value | None:
    if (parts := _parts(writer, 1, 2)) is None:
        return None
    return writer.write(TupleShape(parts), "qr", *writer.parameters)


def _orgqr(writer: Writer) -> Value | None:
    if (parts := _parts(writer, 2, 1)) is None:
        return None
    return writer.write(parts[0], "householder-product", *writer.parameters)


def _syevd(writer: Writer) -> Value | None:
    letters = _letters(writer)
    if (parts := _parts(writer, 1, 3)) is None or letters.get("mode", "V") != "V":
        return None
    return writer.write(TupleShape(parts), "eigh", *writer.parameters, lower=_flag(letters.get("uplo") == "L"))


def _gesdd(writer: Writer) -> Value | None:
    if (parts := _parts(writer, 1, 5)) is None:
        return None
    (x,) = writer.parameters
    _, values, left, right, info = parts
    full = left.dims[-1:] == x.dims[-2:-1] and right.dims[-2:-1] == x.dims[-1:]
    made = writer.write(TupleShape((values, left, right, info)), "svd", x, full=_flag(full))
    return writer.tuple(x, *(writer.element(made, index) for index in range(4)))


def _trsm(writer: Writer) -> Value | None:
    letters = _letters(writer)
    if (parts := _parts(writer, 2, 1)) is None:
        return None
    return writer.write(
        parts[0],
        "triangular-solve",
        *writer.parameters,
        left_side=_flag(letters.get("side") == "L"),
        lower=_flag(letters.get("uplo") == "L"),
        unit_diagonal=_flag(letters.get("diag") == "U"),
        transpose_a="NO_TRANSPOSE" if letters.get("trans_x", "N") == "N" else "TRANSPOSE",
    )


_ROUTINES: dict[str, Callable[[Writer], Value | None]] = {
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "syevd": _syevd,
    "gesdd": _gesdd,
    "trsm": _trsm,
}
EXPANSIONS = {f"lapack_{kind}{name}_ffi": made for name, made in _ROUTINES.items() for kind in "sd"}
