"""The scalar computation of a reduction, a scatter, an all-reduce or a sort: `op=` for one of six, else a `body=`.

    body=[[OPCODE,DTYPE,[operand numbers],extra],...] results=[numbers]

Parameters are numbered 0 to P-1, statement i is P+i; `extra` is the direction of a compare, the value of a
constant. For n arrays the parameters are n values so far, then n new values; of a sort two elements of each array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.flatten import Flat, flatten
from haulout.frontends.hlo.live_steps import live_operations
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.opcodes import ELEMENTWISE, MIRRORED, opcode_of
from haulout.frontends.hlo.ops import elementwise
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, Operation, View, check_attributes, leaves
from haulout.ir.attributes import AttrValue
from haulout.ir.opcodes import REDUCTIONS


def combiner(module: HloModule, operation: Operation, dtypes: Sequence[str]) -> dict[str, AttrValue]:
    """`op=` or `body=` and `results=` for the `to_apply` of an operation on arrays of these types."""
    flat = _computation(module, operation, "to_apply", [*dtypes, *dtypes])
    found = [view.shape.dtype for _, view in leaves(flat.result)]
    if found != list(dtypes):
        _fail(operation, "to_apply", f"it returns ({', '.join(found)}), expected ({', '.join(dtypes)})")
    name = _named(flat)
    return {"op": name} if name is not None else _body(operation, flat)


def sort_order(module: HloModule, operation: Operation, dtypes: Sequence[str]) -> dict[str, AttrValue]:
    """`body=` and `results=` of the comparison that sorts arrays of these types: two elements of each, a pred."""
    flat = _computation(module, operation, "to_apply", [dtype for dtype in dtypes for _ in range(2)])
    found = [view.shape.dtype for _, view in leaves(flat.result)]
    if found != ["pred"]:
        _fail(operation, "to_apply", f"it returns ({', '.join(found)}), expected (pred)")
    return _body(operation, flat)


def named_combiner(module: HloModule, operation: Operation, dtype: str, key: str = "to_apply") -> str:
    """The name of a computation that must be one of `REDUCTIONS`."""
    flat = _computation(module, operation, key, [dtype, dtype])
    name = _named(flat)
    if name is None:
        _fail(operation, key, f"only {', '.join(REDUCTIONS)} of the two parameters is supported here")
    return name


def comparison(module: HloModule, operation: Operation, dtype: str, key: str) -> str:
    """The direction of a computation that must be one comparison of its two parameters."""
    flat = _computation(module, operation, key, [dtype, dtype])
    steps = live_operations(flat)
    if len(steps) == 1 and steps[0].opcode == "compare":
        direction = elementwise.check(steps[0])["direction"]
        operands = [operand.array for operand in steps[0].operands]
        parameters = _parameters(flat)
        if isinstance(direction, str) and operands == parameters:
            return direction
        if isinstance(direction, str) and operands == parameters[::-1]:
            return MIRRORED[direction]
    _fail(operation, key, "only a comparison of the two parameters is supported here")


def returns_second(module: HloModule, operation: Operation, dtype: str) -> bool:
    """Whether the `to_apply` of two parameters returns the second."""
    flat = _computation(module, operation, "to_apply", [dtype, dtype])
    return isinstance(flat.result, View) and flat.result.array is _parameters(flat)[1]


def _computation(module: HloModule, operation: Operation, key: str, dtypes: Sequence[str]) -> Flat:
    """A computation on scalars of these types; anything else is an error."""
    computation = module.computations[operation.attribute(key, attributes.name)]
    shapes = [parameter.shape for parameter in computation.parameters]
    if shapes != [Shape(dtype, ()) for dtype in dtypes]:
        wanted = ", ".join(f"{dtype}[]" for dtype in dtypes)
        _fail(operation, key, f"%{computation.name} takes ({', '.join(map(str, shapes))}), expected ({wanted})")
    flat = flatten(module, computation, ELEMENTWISE)
    for step in live_operations(flat):
        check_attributes(step.instruction, elementwise.ATTRIBUTES.get(step.opcode, ()))
        elementwise.check(step)
    return flat


def _parameters(flat: Flat) -> list[Array]:
    return [view.array for parameter in flat.parameters for _, view in leaves(parameter)]


def _named(flat: Flat) -> str | None:
    """The one of `REDUCTIONS` that the computation is, or None."""
    steps, parameters = live_operations(flat), _parameters(flat)
    if len(steps) != 1 or len(parameters) != 2 or steps[0].opcode not in REDUCTIONS:
        return None
    operands = [operand.array for operand in steps[0].operands]
    is_result = isinstance(flat.result, View) and flat.result.array is steps[0].results[0]
    return steps[0].opcode if is_result and operands in (parameters, parameters[::-1]) else None


def _body(operation: Operation, flat: Flat) -> dict[str, AttrValue]:
    numbers = {array: number for number, array in enumerate(_parameters(flat))}
    statements: list[AttrValue] = []

    def number(view: View) -> int:
        array = view.array
        if array not in numbers:
            literal = array.source.literal
            if literal is None:
                operation.fail(f"`{array.source.opcode}` in a computation on scalars is not supported yet")
            value: Any = literal.astype("f8").item() if literal.dtype.kind not in "biu" else literal.item()
            statements.append(["constant", array.shape.dtype, [], value])
            numbers[array] = len(_parameters(flat)) + len(statements) - 1
        return numbers[array]

    for step in live_operations(flat):
        operands: list[AttrValue] = [number(operand) for operand in step.operands]
        attrs = elementwise.check(step)
        extra = attrs.pop("direction", None)
        if attrs:
            step.fail(f"`{step.opcode}` in a computation on scalars is not supported yet")
        statement: list[AttrValue] = [opcode_of(step.opcode).name, step.results[0].shape.dtype, operands]
        statements.append(statement if extra is None else [*statement, extra])
        numbers[step.results[0]] = len(_parameters(flat)) + len(statements) - 1
    return {"results": [number(view) for _, view in leaves(flat.result)], "body": statements}


def _fail(operation: Operation, key: str, message: str) -> NoReturn:
    value = operation.instruction.attributes[key]
    value.fail(f"{operation.opcode}: {message}", "this computation")
