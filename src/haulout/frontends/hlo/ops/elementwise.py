"""Operations on elements: operands and result have one shape, element i of the result depends on elements i.

A scalar predicate of `select` and scalar bounds of `clamp` stand for all elements. `haulout.ir.opcodes` has the
number of operands and the element types of each.
"""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.emit import Emitter, Rule, same_shape
from haulout.frontends.hlo.literals import PARTS
from haulout.frontends.hlo.opcodes import DIRECTIONS, ELEMENTWISE
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.values import Operation
from haulout.ir.attributes import AttrValue


def check(operation: Operation) -> dict[str, AttrValue]:
    """The attributes of an element-wise operation; fails unless its operands and result fit."""
    operation.expect_arity()
    wanted = list(operation.operands)
    attrs: dict[str, AttrValue] = {}
    match operation.opcode:
        case "select":
            predicate = wanted.pop(0).shape
            fits = predicate.dtype == "pred" and predicate.dims in ((), wanted[0].shape.dims)
            operation.expect(fits, "the predicate must be pred, one for all elements or one for each")
        case "clamp":
            value = wanted[1].shape
            for bound in (wanted[0], wanted[2]):
                fits = bound.shape.dtype == value.dtype and bound.shape.dims in ((), value.dims)
                operation.expect(fits, "a bound must have the type of the value, and its shape or none")
            wanted = wanted[1:2]
        case "compare":
            attrs["direction"] = operation.attribute("direction", _direction)
        case "reduce-precision":
            for key in ("exponent_bits", "mantissa_bits"):
                attrs[key] = operation.attribute(key, attributes.integer)
            operation.expect(operation.attribute("exponent_bits", attributes.integer) > 0, "it has no exponent")
    shape = same_shape(operation, wanted)
    kind = "f" if shape.dtype.startswith(("f", "bf")) else shape.dtype[0]
    operation.expect(kind in ELEMENTWISE[operation.opcode].types, f"not defined on {shape.dtype}")
    match operation.opcode:
        case "compare":
            ordered = attrs["direction"] not in ("EQ", "NE")
            operation.expect(kind != "c" or not ordered, "complex numbers have no order")
            if _is_total_order(operation, kind):
                attrs["direction"] = f"{attrs['direction']}_TOTAL"
            operation.expect_result(shape.dims, "pred")
        case "is-finite":
            operation.expect_result(shape.dims, "pred")
        case "convert":
            result = operation.results[0].shape.dtype
            operation.expect_result(shape.dims, result)
            operation.expect(kind != "c" or result[0] in "cp", f"{shape.dtype} cannot be converted to {result}")
        case "abs" | "real" | "imag" if kind == "c":
            operation.expect_result(shape.dims, PARTS[shape.dtype])
        case "complex":
            operation.expect_result(shape.dims, next((c for c, part in PARTS.items() if part == shape.dtype), "c64"))
        case "bitcast-convert":
            _check_bitcast(operation)
        case _:
            operation.expect_result(shape.dims, shape.dtype)
    return attrs


def _direction(value: Excerpt) -> str:
    return attributes.choice(value, *DIRECTIONS)


def _is_total_order(operation: Operation, kind: str) -> bool:
    """Whether floats are compared in their total order, which tells zeros apart and knows a place for NaN.

    `type=TOTALORDER`, and from JAX 0.11 on `order=TOTAL`. Integers have no other order.
    """
    values = operation.instruction.attributes
    total = False
    if "type" in values:
        default = {"f": "FLOAT", "s": "SIGNED", "u": "UNSIGNED", "p": "UNSIGNED", "c": "FLOAT"}[kind]
        allowed = (default, "TOTALORDER") if kind == "f" else (default,)
        total = attributes.choice(values["type"], *allowed) == "TOTALORDER"
    if "order" in values:
        orders = {"f": ("PARTIAL", "TOTAL"), "c": ("PARTIAL",)}.get(kind, ("TOTAL",))
        total |= attributes.choice(values["order"], *orders) == "TOTAL" and kind == "f"
    return total


def _check_bitcast(operation: Operation) -> None:
    """Equal bytes; the narrower type of two has one more dimension, the last, which is the ratio of the widths."""
    before, after = operation.operands[0], operation.result
    wide, narrow = (before, after) if before.itemsize >= after.itemsize else (after, before)
    ratio = wide.itemsize // narrow.itemsize
    wanted = wide.shape.dims if ratio == 1 else (*wide.shape.dims, ratio)
    operation.expect(narrow.shape.dims == wanted, "the result does not have the operand's bytes")


def _emit(out: Emitter, operation: Operation) -> None:
    attrs = check(operation)
    out.compute(operation, attrs)


ATTRIBUTES = {"compare": ("direction", "type", "order"), "reduce-precision": ("exponent_bits", "mantissa_bits")}

RULES = {name: Rule(_emit, ATTRIBUTES.get(name, ())) for name in ELEMENTWISE}
