"""Instructions without computation: they rearrange tuples, or give the same bytes another shape.

    tuple, get-tuple-element, opt-barrier    trees of views
    reshape, bitcast                         views of the same array

Each function takes the instruction and the values of its operands, and returns the value.
"""

from __future__ import annotations

from collections.abc import Callable

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.model import Instruction
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Tree, View, check_shape, shape_of
from haulout.frontends.hlo.views import plain, reshaped
from haulout.ir.dtypes import NUMPY


def checked(instruction: Instruction, value: Tree) -> Tree:
    """The value, which must have the declared shape."""
    found = shape_of(value)
    if found != instruction.shape:
        instruction.fail(f"{instruction.opcode}: the value is {found}, declared as {instruction.shape}")
    return value


def _tuple(instruction: Instruction, operands: tuple[Tree, ...]) -> Tree:
    return operands


def _get_tuple_element(instruction: Instruction, operands: tuple[Tree, ...]) -> Tree:
    operand = _only(instruction, operands)
    key = instruction.attributes.get("index")
    if key is None:
        instruction.fail("get-tuple-element needs the attribute `index`")
    index = attributes.integer(key)
    if isinstance(operand, View) or index >= len(operand):
        key.fail(f"%{instruction.operands[0]} of shape {shape_of(operand)} has no element {index}")
    return operand[index]


def _opt_barrier(instruction: Instruction, operands: tuple[Tree, ...]) -> Tree:
    return _only(instruction, operands)


def _reshape(instruction: Instruction, operands: tuple[Tree, ...]) -> Tree:
    operand, shape = _only(instruction, operands), instruction.shape
    if not isinstance(operand, View) or not isinstance(shape, Shape):
        instruction.fail("reshape takes an array, found a tuple")
    if (operand.shape.dtype, operand.shape.count) != (shape.dtype, shape.count):
        instruction.fail(f"reshape of {operand.shape} to {shape}: the elements differ")
    return reshaped(operand, shape) or plain(operand, shape)


def _bitcast(instruction: Instruction, operands: tuple[Tree, ...]) -> Tree:
    operand, shape = _only(instruction, operands), instruction.shape
    if not isinstance(operand, View) or not isinstance(shape, Shape):
        instruction.fail("bitcast takes an array, found a tuple")
    if not operand.shape.is_row_major or not shape.is_row_major:
        instruction.fail("bitcast between layouts other than row-major is not supported")
    check_shape(instruction, shape)
    if operand.nbytes != shape.count * NUMPY[shape.dtype].itemsize:
        instruction.fail(f"bitcast of {operand.shape} to {shape}: the sizes differ")
    return plain(operand, shape)


def _only(instruction: Instruction, operands: tuple[Tree, ...]) -> Tree:
    if len(operands) != 1:
        instruction.fail(f"{instruction.opcode} takes one operand, found {len(operands)}")
    return operands[0]


TUPLES_AND_VIEWS: dict[str, Callable[[Instruction, tuple[Tree, ...]], Tree]] = {
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "opt-barrier": _opt_barrier,
    "reshape": _reshape,
    "bitcast": _bitcast,
}
"""By opcode: what the instruction makes of its operands."""
