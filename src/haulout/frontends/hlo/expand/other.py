"""Smaller instructions that stand for others.

after-all                 a token: the `or` of its operands (`types.py`)
get-dimension-size        a constant
bitcast                   between layouts: transposes and a reshape
custom-call of TopK       `topk`
"""

from __future__ import annotations

from haulout.frontends.hlo.expand.neuron import top_of
from haulout.frontends.hlo.expand.writer import Value, Writer
from haulout.frontends.hlo.types import Shape
from haulout.ir.dtypes import NUMPY


def _after_all(writer: Writer) -> Value:
    token = Shape("pred", ())
    if not writer.parameters:
        return writer.constant("pred", False)
    if any(each.shape != token for each in writer.parameters):
        writer.instruction.fail("after-all takes tokens")
    found = writer.parameters[0]
    for each in writer.parameters[1:]:
        found = writer.same("or", found, each)
    return found


def _dimension_size(writer: Writer) -> Value | None:
    dims = writer.instruction.attributes.get("dimensions")
    operand = writer.parameters[0].shape if len(writer.parameters) == 1 else None
    numbers = dims.text.strip(" {}") if dims is not None else ""
    if not isinstance(operand, Shape) or operand.is_dynamic or not numbers.isdecimal():
        return None
    if int(numbers) >= len(operand.dims):
        writer.instruction.fail(f"get-dimension-size: {operand} has no dimension {numbers}")
    return writer.constant("s32", operand.dims[int(numbers)])


def _bitcast(writer: Writer) -> Value | None:
    """The operand's elements in the order of memory, in the shape of the result's memory, in its logical order."""
    operand = writer.parameters[0] if len(writer.parameters) == 1 else None
    shape = writer.instruction.shape
    if operand is None or not isinstance(operand.shape, Shape) or not isinstance(shape, Shape):
        return None
    if operand.shape.is_row_major and shape.is_row_major:
        return None
    if operand.shape.count != shape.count or operand.dtype not in NUMPY or shape.dtype not in NUMPY:
        return None
    if NUMPY[operand.dtype].itemsize != NUMPY[shape.dtype].itemsize:
        return None
    value = operand
    if not operand.shape.is_row_major:
        assert operand.shape.layout is not None
        value = writer.transpose(value, operand.shape.layout[::-1])
    order = shape.layout[::-1] if shape.layout is not None else tuple(range(len(shape.dims)))
    value = writer.reshape(value, [shape.dims[dim] for dim in order])
    if value.dtype != shape.dtype:
        value = writer.write(Shape(shape.dtype, value.dims), "bitcast-convert", value)
    if order != tuple(range(len(order))):
        value = writer.transpose(value, [order.index(dim) for dim in range(len(order))])
    return value


def _custom_topk(writer: Writer) -> Value | None:
    return top_of(writer, None)


EXPANSIONS = {
    "after-all": _after_all,
    "get-dimension-size": _dimension_size,
    "bitcast": _bitcast,
}
CUSTOM_CALLS = {"TopK": _custom_topk}
