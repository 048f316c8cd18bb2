"""The computations that an instruction calls, and what must fit: shapes of parameters and of results."""

from __future__ import annotations

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.model import Computation, HloModule, Instruction
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.types import AnyShape, Shape
from haulout.frontends.hlo.values import Tree, shape_of

Case = tuple[Computation, Tree]
"""A branch of a conditional and its operand."""


def callee(module: HloModule, instruction: Instruction, key: str, wanted: list[AnyShape]) -> Computation:
    """The computation that an attribute names, which must take parameters of these shapes."""
    computation = module.computations[attributes.name(_attribute(instruction, key))]
    _check_parameters(instruction, computation, wanted)
    return computation


def cases_of(module: HloModule, conditional: Instruction, operands: tuple[Tree, ...]) -> list[Case]:
    """The branches of a conditional in the order of their numbers, the one for `true` first."""
    selector = shape_of(operands[0]) if operands else None
    if selector == Shape("pred", ()):
        keys = ("true_computation", "false_computation")
        names = [attributes.name(_attribute(conditional, key)) for key in keys]
    elif selector == Shape("s32", ()):
        names = list(attributes.names(_attribute(conditional, "branch_computations")))
    else:
        conditional.fail(f"conditional: expected a selector pred[] or s32[], found {selector or 'no operand'}")
    if not names or len(operands) != len(names) + 1:
        conditional.fail(
            f"conditional with {len(names)} branches takes {len(names) + 1} operands, found {len(operands)}"
        )
    cases = [(module.computations[name], operand) for name, operand in zip(names, operands[1:], strict=True)]
    for computation, operand in cases:
        _check_parameters(conditional, computation, [shape_of(operand)])
        if computation.root.shape != conditional.shape:
            returned = computation.root.shape
            conditional.fail(f"%{computation.name} returns {returned}, expected {conditional.shape}")
    return cases


def _attribute(instruction: Instruction, key: str) -> Excerpt:
    value = instruction.attributes.get(key)
    if value is None:
        instruction.fail(f"{instruction.opcode} needs the attribute `{key}`")
    return value


def _check_parameters(instruction: Instruction, computation: Computation, wanted: list[AnyShape]) -> None:
    taken = [parameter.shape for parameter in computation.parameters]
    if taken != wanted:
        instruction.fail(
            f"%{computation.name} takes ({', '.join(map(str, taken))})", "the operands have other shapes"
        )


def loop_callees(module: HloModule, loop: Instruction, operands: tuple[Tree, ...]) -> tuple[Computation, Computation]:
    """The condition and the body of a `while`."""
    if len(operands) != 1:
        loop.fail(f"while takes one operand, found {len(operands)}")
    condition = callee(module, loop, "condition", [loop.shape])
    body = callee(module, loop, "body", [loop.shape])
    for computation, wanted in ((condition, Shape("pred", ())), (body, loop.shape)):
        if computation.root.shape != wanted:
            loop.fail(f"%{computation.name} returns {computation.root.shape}, expected {wanted}")
    return condition, body


def check_control(module: HloModule, instruction: Instruction, operands: tuple[Tree, ...]) -> None:
    """Raise `HauloutError` where what an instruction calls does not fit."""
    match instruction.opcode:
        case "call":
            callee(module, instruction, "to_apply", [shape_of(operand) for operand in operands])
        case "while":
            loop_callees(module, instruction, operands)
        case "conditional":
            cases_of(module, instruction, operands)
