"""Smaller instructions that stand for others.

    after-all                 a token: the `or` of its operands (`types.py`)
    get-dimension-size        a constant
    bitcast                   between layouts: transposes and a reshape; of a scalar `bitcast-convert`
    dot, reduce, ...          of arrays without elements: zeros, or initial values
    dot                       of two types, both exact in that of the result: of operands that are converted to it
    map                       its computation, on whole arrays
    ragged-dot                the product with each group's matrix, of which each row takes that of its group
    custom-call of TopK       `topk`

An instruction in another form is not rewritten.
"""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.expand.neuron import top_of
from haulout.frontends.hlo.expand.writer import Value, Writer
from haulout.frontends.hlo.opcodes import ELEMENTWISE
from haulout.frontends.hlo.types import Shape, TupleShape
from haulout.ir.dtypes import NUMPY

MAX_GROUPS = 64
"""Of a `ragged-dot`: each is a product of all rows."""


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
    if operand.shape.is_row_major and shape.is_row_major and (shape.dims or operand.dtype == shape.dtype):
        return None  # a view of the same bytes
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


def _of_nothing(writer: Writer) -> Value | None:
    """A product, or a reduction, of arrays without elements: zeros, or the initial values."""
    shape, given = writer.instruction.shape, [each.shape for each in writer.parameters]
    shapes = shape.elements if isinstance(shape, TupleShape) else (shape,)
    arrays = [each for each in [*given, *shapes] if isinstance(each, Shape)]
    count = len(shapes)
    if len(arrays) != len(given) + count or not given or arrays[0].count or not arrays[-1].count:
        return None
    if writer.instruction.opcode in ("dot", "convolution"):
        return writer.constant(arrays[-1].dtype, 0, arrays[-1].dims) if len(given) == 2 else None
    initial = writer.parameters[count:]
    if len(initial) != count or any(each.dims for each in initial):
        return None
    made = [writer.spread(each, array.dims, ()) for each, array in zip(initial, arrays[-count:], strict=True)]
    return writer.tuple(*made) if isinstance(shape, TupleShape) else made[0]


def _dot(writer: Writer) -> Value | None:
    shape = writer.instruction.shape
    if (found := _of_nothing(writer)) is not None or len(writer.parameters) != 2 or not isinstance(shape, Shape):
        return found
    if writer.parameters[0].dtype == writer.parameters[1].dtype:
        return None
    wide, kind = NUMPY[shape.dtype].itemsize, "su" if shape.dtype[0] in "su" else "bf"  # integers, or floats
    for each in (shape, *writer.parameters):
        is_exact = each.dtype == shape.dtype or NUMPY[each.dtype].itemsize < wide
        if not is_exact or each.dtype[0] not in kind:
            return None
    given = writer.instruction.attributes
    texts = {key: value.text for key, value in given.items() if key != "metadata"}
    return writer.write(shape, "dot", *(writer.convert(each, shape.dtype) for each in writer.parameters), **texts)


def _custom_topk(writer: Writer) -> Value | None:
    return top_of(writer, None)


def _map(writer: Writer) -> Value | None:
    shape, callee = writer.instruction.shape, writer.instruction.attributes.get("to_apply")
    computation = writer.known.get(attributes.name(callee)) if callee is not None else None
    if computation is None or not isinstance(shape, Shape):
        return None
    shapes = [each.shape for each in writer.parameters]
    if any(not isinstance(each, Shape) or each.dims != shape.dims for each in shapes):
        return None
    if len(computation.parameters) != len(shapes):
        writer.instruction.fail(f"%{computation.name} takes {len(computation.parameters)} operands")
    values: dict[str, Value] = {}
    for each in computation.instructions:
        if not isinstance(each.shape, Shape) or each.shape.dims:
            return None
        if each.opcode == "parameter":
            values[each.name] = writer.parameters[each.number]
        elif each.opcode == "constant" and each.literal is not None:
            values[each.name] = writer.constant(each.shape.dtype, each.literal, shape.dims)
        elif each.opcode in ELEMENTWISE:
            texts = {key: value.text for key, value in each.attributes.items() if key != "metadata"}
            operands = [values[name] for name in each.operands]
            values[each.name] = writer.write(Shape(each.shape.dtype, shape.dims), each.opcode, *operands, **texts)
        else:
            return None
    return values[computation.root.name]


def _ragged_dot(writer: Writer) -> Value | None:
    """Of [rows, k] and [groups, k, columns]: `group_sizes` rows belong to each group, in order."""
    shape, given = writer.instruction.shape, writer.instruction.attributes
    if len(writer.parameters) != 3 or not isinstance(shape, Shape):
        return None
    expected = {
        "lhs_contracting_dims": "{1}",
        "rhs_contracting_dims": "{1}",
        "lhs_ragged_dims": "{0}",
        "rhs_group_dims": "{0}",
    }
    if any(key not in given or given[key].text.replace(" ", "") != text for key, text in expected.items()):
        return None
    if any(given[key].text.replace(" ", "") != "{}" for key in ("lhs_batch_dims", "rhs_batch_dims") if key in given):
        return None
    x, w, sizes = writer.parameters
    ranks = [len(each.shape.dims) if isinstance(each.shape, Shape) else 0 for each in writer.parameters]
    if ranks != [2, 3, 1] or w.dims[0] != sizes.dims[0] or w.dims[0] > MAX_GROUPS or sizes.dtype[0] not in "su":
        return None
    row = writer.write(Shape(sizes.dtype, shape.dims), "iota", iota_dimension="0")
    total, found = writer.constant(shape.dtype, 0, shape.dims), writer.constant(sizes.dtype, 0)
    for group in range(w.dims[0]):
        matrix = writer.reshape(
            writer.slice(w, (group, group + 1), (0, w.dims[1]), (0, w.dims[2])), (w.dims[1], w.dims[2])
        )
        product = writer.write(shape, "dot", x, matrix, lhs_contracting_dims="{1}", rhs_contracting_dims="{0}")
        begin = writer.spread(found, shape.dims, ())
        found = writer.same("add", found, writer.reshape(writer.slice(sizes, (group, group + 1)), ()))
        end = writer.spread(found, shape.dims, ())
        mine = writer.write(
            Shape("pred", shape.dims), "and", writer.compare(row, begin, "GE"), writer.compare(row, end, "LT")
        )
        total = writer.write(shape, "select", mine, product, total)
    return total


EXPANSIONS = {
    **dict.fromkeys(("convolution", "reduce", "reduce-window"), _of_nothing),
    "dot": _dot,
    "map": _map,
    "ragged-dot": _ragged_dot,
    "after-all": _after_all,
    "get-dimension-size": _dimension_size,
    "bitcast": _bitcast,
}
CUSTOM_CALLS = {"TopK": _custom_topk}
