"""Element-wise operations: one function an opcode.

`haulout.ir.opcodes` says how many operands an opcode has and on which element types it is defined. A function gets
arrays that are already in the type that computes (`rounding.widen`). The result is rounded once, to the output's
type. A one-element predicate of `select` and one-element bounds of `clamp` broadcast; nothing else does.

The same functions compute the statements of a scalar `body` (body.py), there with broadcasting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from haulout.ir import opcodes
from haulout.sim.numerics import attributes, formulas, integers
from haulout.sim.numerics.dtypes import F32, F64, MANTISSA_BITS, PRED, is_complex, is_float, name_of, part_of
from haulout.sim.numerics.rounding import convert, reduce_precision, widen
from haulout.sim.numerics.total_order import ordered_keys
from haulout.sim.numerics.types import Array, Attrs, DType, Kernel, TensorType
from haulout.support.diagnostics import bad_input

FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": formulas.divide,
    "remainder": formulas.remainder,
    "power": formulas.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "atan2": np.arctan2,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "negate": np.negative,
    "complex": formulas.joined,
    "real": np.real,
    "imag": np.imag,
    "abs": np.abs,
    "sign": formulas.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round_nearest_even": np.rint,
    "round_nearest_afz": formulas.round_half_away,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": formulas.logistic,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": formulas.reciprocal_sqrt,
    "cbrt": np.cbrt,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "erf": formulas.erf,
    "is_finite": np.isfinite,
    "shift_left": integers.shift_left,
    "shift_right_logical": integers.shift_right_logical,
    "shift_right_arithmetic": integers.shift_right_arithmetic,
    "popcnt": integers.population_count,
    "count_leading_zeros": integers.count_leading_zeros,
    "clamp": formulas.clamp,
    "copy": np.copy,
}
"""The opcodes whose operands have one element type; `apply` has `convert`, `compare` and `select`."""

OF_FLOATS: dict[str, np.ufunc] = {"divide": np.true_divide, "remainder": np.fmod, "power": np.power}
"""The functions of `formulas.py` that are one of NumPy's on floats."""

INTO_OUT: dict[str, Callable[..., Array]] = {
    "select": formulas.select,
    "clamp": formulas.clamp,
    "rsqrt": formulas.reciprocal_sqrt,
}
"""Functions that are no ufuncs, and take `out`."""

OPCODES = (*FUNCTIONS, "convert", "compare", "select")

_RELATIONS: dict[str, Callable[..., Array]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _in_total_order(relation: Callable[..., Array]) -> Callable[..., Array]:
    return lambda left, right: relation(ordered_keys(left), ordered_keys(right))


COMPARISONS = _RELATIONS | {f"{name}_TOTAL": _in_total_order(relation) for name, relation in _RELATIONS.items()}
"""A NaN compares false in every direction except NE; in the total order it has a place like any other value."""

MAY_BE_SCALAR: dict[str, tuple[int, ...]] = {"select": (0,), "clamp": (0, 2)}
"""Operands that may have one element."""


def elementwise(opcode: str) -> Kernel:
    """The kernel of an element-wise opcode: `apply`, where every operand has the output's shape."""

    def kernel(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
        shape = outputs[0].shape
        operands = list(inputs)
        for position, operand in enumerate(operands):
            if operand.shape == shape:
                continue
            if operand.size != 1 or position not in MAY_BE_SCALAR.get(opcode, ()):
                bad_input(f"operand {position} has shape {list(operand.shape)}, the result {list(shape)}")
            operands[position] = operand.reshape(())
        direction = attributes.word(attrs, "direction", tuple(COMPARISONS)) if opcode == "compare" else None
        return [apply(opcode, operands, outputs[0].dtype, direction)]

    return kernel


def fetch_and_op(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`fetch_and_op op=`: what `op` makes of the place and the operand, and what the place held before."""
    operation = attributes.word(attrs, "op", tuple(sorted(opcodes.COMMUTING)))
    if any(array.shape != outputs[0].shape for array in inputs):
        bad_input("the place, the operand and the results must have one shape")
    return [apply(operation, inputs, outputs[0].dtype), inputs[0].copy()]


def apply(opcode: str, operands: Sequence[Array], dtype: DType, direction: str | None = None) -> Array:
    """The element-wise `opcode` on operands that broadcast, as an array of `dtype`.

    Raises `bad-input` when the opcode is not element-wise or not defined on these operands.
    """
    match opcode:
        case "convert":
            _expect_arity(opcode, operands)
            return convert(operands[0], dtype)
        case "bitcast_convert":
            _expect_arity(opcode, operands)
            if operands[0].itemsize != dtype.itemsize:
                bad_input(f"{name_of(operands[0].dtype)} cannot be read as {name_of(dtype)} here")
            return np.ascontiguousarray(operands[0]).view(dtype)
        case "compare":
            _expect_arity(opcode, operands)
            _expect_result(opcode, PRED, dtype)
            return compare(direction, operands[0], operands[1])
        case "select":
            _expect_arity(opcode, operands)
            _expect_result(opcode, operands[1].dtype, dtype)
            return _select(*operands)
    function = FUNCTIONS.get(opcode)
    if function is None:
        bad_input(f"`{opcode}` is not an element-wise operation")
    _expect_arity(opcode, operands)
    _expect_alike(opcode, operands)
    element = operands[0].dtype
    if ("f" if is_float(element) else name_of(element)[0]) not in opcodes.OPCODES[opcode].types:
        bad_input(f"`{opcode}` is not defined on {name_of(element)}")
    _expect_result(opcode, _result_type(opcode, element), dtype)
    return convert(np.asarray(function(*map(widen, operands))), dtype)


def _result_type(opcode: str, element: DType) -> DType:
    match opcode:
        case "is_finite":
            return PRED
        case "abs" | "real" | "imag":
            return part_of(element)
        case "complex":
            if element not in (F32, F64):
                bad_input(f"`complex` is not defined on {name_of(element)}")
            return np.dtype(f"c{2 * element.itemsize}")
    return element


def compare(direction: str | None, left: Array, right: Array) -> Array:
    """The predicate `left direction right`."""
    _expect_alike("compare", (left, right))
    if is_complex(left.dtype) and direction not in ("EQ", "NE"):
        bad_input(f"`compare` of complex numbers by {direction}; they have no order")
    if direction not in COMPARISONS:
        bad_input(f"`compare` needs a direction, one of {', '.join(COMPARISONS)}; found {direction!r}")
    return np.asarray(COMPARISONS[direction](widen(left), widen(right)))


def bitcast_convert(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """The same bytes as another type; a wider or narrower element takes from, or adds, the last dimension."""
    (operand,) = inputs
    if operand.nbytes != outputs[0].nbytes:
        bad_input(f"{operand.nbytes} bytes cannot be read as {outputs[0]}")
    return [np.frombuffer(operand.tobytes(), outputs[0].dtype).reshape(outputs[0].shape)]


def with_fewer_bits(attrs: Attrs, inputs: Sequence[Array], outputs: Sequence[TensorType]) -> list[Array]:
    """`reduce_precision exponent_bits= mantissa_bits=`: rounded to a narrower float, kept in the same type."""
    (operand,) = inputs
    if operand.dtype not in MANTISSA_BITS:
        bad_input(f"`reduce_precision` is not defined on {name_of(operand.dtype)}")
    exponent, mantissa = (attributes.integer(attrs, f"{part}_bits") for part in ("exponent", "mantissa"))
    if exponent < 1 or mantissa < 0:
        bad_input(f"a float of {exponent} exponent bits and {mantissa} mantissa bits is none")
    return [reduce_precision(operand, exponent, mantissa)]


def _select(predicate: Array, on_true: Array, on_false: Array) -> Array:
    if predicate.dtype != PRED:
        bad_input(f"the predicate of `select` is {name_of(predicate.dtype)}, not pred")
    _expect_alike("select", (on_true, on_false))
    return formulas.select(predicate, on_true, on_false)


def _expect_arity(opcode: str, operands: Sequence[Array]) -> None:
    expected = opcodes.OPCODES[opcode].operands
    arity = len(operands) if expected is None else expected.counts()[0]
    if len(operands) != arity:
        bad_input(f"`{opcode}` takes {arity} operand{'s' * (arity != 1)}, found {len(operands)}")


def _expect_alike(opcode: str, operands: Sequence[Array]) -> None:
    if any(operand.dtype != operands[0].dtype for operand in operands):
        found = ", ".join(name_of(operand.dtype) for operand in operands)
        bad_input(f"the operands of `{opcode}` differ in element type: {found}")


def _expect_result(opcode: str, expected: DType, found: DType) -> None:
    if expected != found:
        bad_input(f"`{opcode}` gives {name_of(expected)} here, but its output is {name_of(found)}")
