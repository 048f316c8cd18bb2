"""Pairs of `-start` and `-done`: the operation runs at its start, and the other one gives its result.

    all-reduce-start                          the result itself
    copy-start                                (result, operand, context)
    any other X-start, async-start            (operands, result, context...); one operand may stand without a tuple

HLO is a language of values, so whatever runs between the two gets the same ones. `async-start` calls a computation;
`async-update` passes on what it gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from haulout.frontends.hlo.expand.writer import excerpt
from haulout.frontends.hlo.model import Instruction
from haulout.frontends.hlo.types import AnyShape, Shape, TupleShape
from haulout.ir.dtypes import NUMPY

_BASES = (
    "all-reduce",
    "all-gather",
    "all-to-all",
    "reduce-scatter",
    "collective-permute",
    "copy",
    "async",
)
_OWN = ("calls", "async_execution_thread", "async_group_id", "called_computations")
_OF_COPIES = ("cross_program_prefetch_index",)


def is_asynchronous(instruction: Instruction) -> bool:
    """Whether it is part of such a pair."""
    base, _, stage = instruction.opcode.rpartition("-")
    return base in _BASES and stage in ("start", "update", "done")


def synchronous(instruction: Instruction, by_name: Mapping[str, Instruction]) -> list[Instruction]:
    """What stands for one of the pair, the last one by its name; `by_name` has the operands."""
    base, _, stage = instruction.opcode.rpartition("-")
    hints = {
        key: value for key, value in instruction.attributes.items() if key in ("metadata", "control-predecessors")
    }
    if stage == "update" or (stage == "done" and base == "all-reduce"):
        return [replace(instruction, opcode="opt-barrier", attributes=hints)]
    if stage == "done":
        index = 0 if base == "copy" else 1
        element = {**hints, "index": excerpt(str(index))}
        return [replace(instruction, opcode="get-tuple-element", attributes=element)]
    return _started(instruction, base, by_name)


def _started(instruction: Instruction, base: str, by_name: Mapping[str, Instruction]) -> list[Instruction]:
    attributes = {key: value for key, value in instruction.attributes.items() if key not in (*_OWN, *_OF_COPIES)}
    opcode = base
    if base == "async":
        callee = instruction.attributes.get("calls")
        if callee is None:
            instruction.fail("async-start needs the attribute `calls`")
        opcode = "call"
        kept = {key: value for key, value in attributes.items() if key == "metadata"}
        attributes = {**kept, "to_apply": callee}
    if base == "all-reduce":
        return [replace(instruction, opcode=opcode, attributes=attributes)]
    shape = instruction.shape
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        instruction.fail(f"{instruction.opcode} must give operands and result, found {shape}")
    place = 0 if base == "copy" else 1
    run = replace(
        instruction,
        name=f"{instruction.name}.run",
        opcode=opcode,
        shape=shape.elements[place],
        attributes=attributes,
    )
    made = [run]
    parts: list[str] = []
    for number, element in enumerate(shape.elements):
        if number == place:
            parts.append(run.name)
        elif number == 1 - place:
            made += _operands(instruction, element, by_name)
            parts.append(made[-1].name if made[-1] is not run else instruction.operands[0])
        else:
            made += _context(instruction, element, number)
            parts.append(made[-1].name)
    hints = {key: value for key, value in attributes.items() if key == "metadata"}
    return [*made, replace(instruction, opcode="tuple", operands=tuple(parts), attributes=hints)]


def _operands(instruction: Instruction, shape: AnyShape, by_name: Mapping[str, Instruction]) -> list[Instruction]:
    """The operands as one value: a tuple of them where the shape says so, nothing where it is the only one."""
    shapes = tuple(by_name[name].shape for name in instruction.operands)
    if len(shapes) == 1 and shapes[0] == shape:
        return []
    if shape != TupleShape(shapes):
        instruction.fail(f"{instruction.opcode}: its operands are {TupleShape(shapes)}, declared as {shape}")
    return [replace(instruction, name=f"{instruction.name}.operands", opcode="tuple", shape=shape, attributes={})]


def _context(instruction: Instruction, shape: AnyShape, number: int) -> list[Instruction]:
    """A number that the pair shares, which nothing else reads."""
    name = f"{instruction.name}.context.{number}"
    if isinstance(shape, TupleShape):
        inner = [
            each for at, part in enumerate(shape.elements) for each in _context(instruction, part, 100 * number + at)
        ]
        names = tuple(f"{instruction.name}.context.{100 * number + at}" for at in range(len(shape.elements)))
        return [*inner, replace(instruction, name=name, opcode="tuple", shape=shape, operands=names, attributes={})]
    assert isinstance(shape, Shape)
    literal = np.zeros(shape.dims, NUMPY.get(shape.dtype, np.dtype(np.uint32)))
    return [
        replace(instruction, name=name, opcode="constant", shape=shape, operands=(), attributes={}, literal=literal)
    ]
