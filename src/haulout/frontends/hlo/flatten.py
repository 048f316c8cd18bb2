"""A computation as a straight list of operations on arrays: no calls, no tuples, reshapes as views.

    parameter, constant, partition-id, replica-id     arrays without a producer
    tuple, get-tuple-element, opt-barrier             trees, taken apart and put together here
    reshape, bitcast                                  views of the same array
    broadcast, if it only adds dimensions of size 1    the same
    call                                              the callee's instructions, with the operands for its parameters
    anything else                                     an `Operation`, `seq` counting all instructions on the way

`live` then keeps the operations that the result depends on. Instructions of HLO have no side effects that a program
of this library could show, so nothing else matters; parameters are kept all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.model import Computation, HloModule, Instruction
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import (
    Array,
    Operation,
    Tree,
    View,
    arrays_of,
    check_attributes,
    check_shape,
    leaves,
    shape_of,
)
from haulout.ir.dtypes import NUMPY

_MOST = 1_000_000
"""Instructions after inlining: calls of calls can multiply without end."""

_SOURCES = ("constant", "partition-id", "replica-id")
_KNOWN = {
    "call": ("to_apply", "is_composite"),
    "get-tuple-element": ("index",),
    "parameter": ("parameter_replication",),
    "reshape": ("inferred_dimension",),
}
"""Attributes of the instructions that are resolved here."""


@dataclass(frozen=True, slots=True)
class Flat:
    """A computation without calls and tuples."""

    parameters: tuple[Tree, ...]
    operations: tuple[Operation, ...]
    result: Tree
    length: int
    """Instructions seen; `seq` counts them from 1."""


@dataclass(slots=True)
class _Frame:
    """A computation that is being walked, and what its names stand for."""

    computation: Computation
    arguments: tuple[Tree, ...]
    call: Instruction | None
    rest: Iterator[Instruction]
    values: dict[str, Tree] = field(default_factory=dict)


def flatten(module: HloModule, computation: Computation, known: Container[str]) -> Flat:
    """Walk a computation and everything it calls; operations must be among the opcodes `known`.

    An explicit stack: calls may be nested as deep as they like.
    """
    parameters = tuple(arrays_of(parameter) for parameter in computation.parameters)
    frames = [_Frame(computation, parameters, None, iter(computation.instructions))]
    operations: list[Operation] = []
    seq = 0
    while True:
        frame = frames[-1]
        instruction = next(frame.rest, None)
        if instruction is None:
            result = frame.values[frame.computation.root.name]
            frames.pop()
            if frame.call is None:
                return Flat(parameters, tuple(operations), result, seq)
            frames[-1].values[frame.call.name] = _checked(frame.call, result)
            continue
        seq += 1
        if seq > _MOST:
            instruction.fail(f"more than {_MOST} instructions after inlining calls")
        operands = tuple(frame.values[name] for name in instruction.operands)
        if instruction.opcode in _RESOLVED:
            check_attributes(instruction, _KNOWN.get(instruction.opcode, ()))
        if instruction.opcode == "call":
            frames.append(_enter(module, instruction, operands))
        elif instruction.opcode == "parameter":
            frame.values[instruction.name] = frame.arguments[instruction.number]
        elif instruction.opcode in _STRUCTURE:
            frame.values[instruction.name] = _checked(
                instruction, _STRUCTURE[instruction.opcode](instruction, operands)
            )
        elif instruction.opcode in _SOURCES:
            frame.values[instruction.name] = arrays_of(instruction)
        elif instruction.opcode == "broadcast" and (view := _broadcast_view(instruction, operands)) is not None:
            frame.values[instruction.name] = view
        else:
            if instruction.opcode not in known:
                _unsupported(instruction)
            operation, value = _operation(instruction, operands, seq)
            operations.append(operation)
            frame.values[instruction.name] = value


def live(flat: Flat) -> list[Operation]:
    """The operations that the result depends on, in order."""
    needed = {view.array for _, view in leaves(flat.result)}
    kept: list[Operation] = []
    for operation in reversed(flat.operations):
        if any(result in needed for result in operation.results):
            kept.append(operation)
            needed.update(operand.array for operand in operation.operands)
    return kept[::-1]


def _enter(module: HloModule, call: Instruction, operands: tuple[Tree, ...]) -> _Frame:
    callee = call.attributes.get("to_apply")
    if callee is None:
        call.fail("call needs the attribute `to_apply`")
    computation = module.computations[attributes.name(callee)]
    wanted = [parameter.shape for parameter in computation.parameters]
    if [shape_of(operand) for operand in operands] != wanted:
        call.fail(f"%{computation.name} takes ({', '.join(map(str, wanted))})", "these operands differ")
    return _Frame(computation, operands, call, iter(computation.instructions))


def _operation(instruction: Instruction, operands: tuple[Tree, ...], seq: int) -> tuple[Operation, Tree]:
    views: list[View] = []
    for name, operand in zip(instruction.operands, operands, strict=True):
        if not isinstance(operand, View):
            instruction.fail(f"{instruction.opcode} takes arrays; %{name} is a tuple")
        views.append(operand)
    value = arrays_of(instruction)
    arrays: list[Array] = [view.array for _, view in leaves(value)]
    operation = Operation(instruction, tuple(views), tuple(arrays), seq)
    for array in arrays:
        array.producer = operation
    return operation, value


def _unsupported(instruction: Instruction) -> NoReturn:
    target = instruction.attributes.get("custom_call_target")
    of = f" of {target.text}" if target is not None else ""
    instruction.fail(f"`{instruction.opcode}`{of} is not supported yet")


def _checked(instruction: Instruction, value: Tree) -> Tree:
    """The value, which must have the declared shape."""
    found = shape_of(value)
    if found != instruction.shape:
        instruction.fail(f"{instruction.opcode}: the value is {found}, declared as {instruction.shape}")
    return value


# -- one function for each instruction that only rearranges names ---------------------------------------------


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
        instruction.fail("reshape: a tuple has no elements to arrange")
    if (operand.shape.dtype, operand.shape.count) != (shape.dtype, shape.count):
        instruction.fail(f"reshape of {operand.shape} to {shape}: not the same elements")
    return View(operand.array, shape)


def _bitcast(instruction: Instruction, operands: tuple[Tree, ...]) -> Tree:
    operand, shape = _only(instruction, operands), instruction.shape
    if not isinstance(operand, View) or not isinstance(shape, Shape):
        instruction.fail("bitcast: a tuple has no bytes")
    if not operand.shape.is_row_major or not shape.is_row_major:
        instruction.fail("bitcast between layouts other than row-major is not supported yet")
    check_shape(instruction, shape)
    if operand.nbytes != shape.count * NUMPY[shape.dtype].itemsize:
        instruction.fail(f"bitcast of {operand.shape} to {shape}: not the same bytes")
    return View(operand.array, shape)


def _broadcast_view(instruction: Instruction, operands: tuple[Tree, ...]) -> View | None:
    """The operand as a view, when a broadcast has no more elements than it and keeps their order."""
    shape, dims = instruction.shape, instruction.attributes.get("dimensions")
    if len(operands) != 1 or not isinstance(operands[0], View) or not isinstance(shape, Shape):
        return None
    operand, places = operands[0], attributes.integers(dims) if dims is not None else ()
    if list(places) != sorted(set(places)) or any(dim >= len(shape.dims) for dim in places):
        return None  # dimensions change places, or it is not valid: the operation's rule says what is wrong
    same = tuple(shape.dims[dim] for dim in places) == operand.shape.dims and shape.count == operand.shape.count
    if not same or shape.dtype != operand.shape.dtype:
        return None
    check_attributes(instruction, ("dimensions",))
    return View(operand.array, shape)


def _only(instruction: Instruction, operands: tuple[Tree, ...]) -> Tree:
    if len(operands) != 1:
        instruction.fail(f"{instruction.opcode} takes one operand, found {len(operands)}")
    return operands[0]


_STRUCTURE: dict[str, Callable[[Instruction, tuple[Tree, ...]], Tree]] = {
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "opt-barrier": _opt_barrier,
    "reshape": _reshape,
    "bitcast": _bitcast,
}
_RESOLVED = {"call", "parameter", *_SOURCES, *_STRUCTURE}
