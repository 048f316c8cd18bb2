"""Computations on scalars, evaluated for each element: what a `map` instruction executes.

Operands are views of one shape, or of one element. Statements are element-wise opcodes. A reference is a number:
statement i is i, operand i is -1 - i. Equal operands are one operand, and equal statements one statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from haulout.frontends.hlo.compose import Dims, repeats, single, through
from haulout.frontends.hlo.opcodes import opcode_of
from haulout.frontends.hlo.values import Array, Operation, View
from haulout.ir.attributes import AttrValue
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import Engine
from haulout.ir.opcodes import lookup

CONSTANT = "constant"


class Statement(NamedTuple):
    """One line of the body, by the opcode of the program."""

    opcode: str
    dtype: str
    operands: tuple[int, ...]
    extra: str = ""
    """The direction of a compare; of a constant `repr` of its value, so that zeros of both signs differ."""


@dataclass(frozen=True, slots=True)
class Expression:
    """What makes each element of an array of extents `dims`."""

    dims: Dims
    operands: tuple[View, ...]
    statements: tuple[Statement, ...]
    result: int

    @property
    def is_transcendental(self) -> bool:
        """Whether a statement is for the engine of such functions."""
        return any(lookup(each.opcode).engine is Engine.ACT for each in self.statements)

    def attributes(self) -> dict[str, AttrValue]:
        """`body=` and `results=`, in which operands are numbered before statements."""
        count = len(self.operands)

        def number(reference: int) -> int:
            return reference + count if reference >= 0 else -1 - reference

        body: list[AttrValue] = []
        for opcode, dtype, operands, extra in self.statements:
            row: list[AttrValue] = [opcode, dtype, [number(each) for each in operands]]
            body.append([*row, _value(extra) if opcode == CONSTANT else extra] if extra else row)
        return {"body": body, "results": [number(self.result)]}


@dataclass(eq=False, slots=True)
class Fused(Operation):
    """An operation that computes an expression: `map`, or `map-reduce`, which reads the initial value last."""

    expression: Expression | None = None

    @property
    def opcode(self) -> str:
        """As HLO would write it."""
        return "map-reduce" if self.instruction.opcode == "reduce" else "map"


def of_view(view: View) -> Expression:
    """An array as it is stored."""
    return Expression(view.shape.dims, (view,), (), -1)


def of_operation(operation: Operation, direction: str) -> Expression:
    """One element-wise operation."""
    making = _Making(operation.result.shape.dims)
    operands = tuple(map(making.operand, operation.operands))
    name, dtype = opcode_of(operation.opcode).name, operation.result.shape.dtype
    return making.made(making.statement(Statement(name, dtype, operands, direction)))


def substituted(reader: Expression, array: Array, expression: Expression) -> Expression | None:
    """The reader with what makes an array in its place; None where a view of it has none of its operands."""
    making = _Making(reader.dims)
    references = []
    for view in reader.operands:
        if view.array is array:
            reference = None if repeats(view) else making.inserted(expression, view)
            if reference is None:
                return None
            references.append(reference)
        else:
            references.append(making.operand(view))
    return making.made(making.appended(reader, references))


class _Making:
    """An expression under construction."""

    def __init__(self, dims: Dims) -> None:
        self.dims = dims
        self.operands: dict[View, int] = {}
        self.statements: dict[Statement, int] = {}

    def operand(self, view: View) -> int:
        """A reference to the elements of a view."""
        view = single(view)
        constant = _constant(view)
        if constant is not None:
            return self.statement(constant)
        plain = View(view.array, view.shape, view.layout)
        return self.operands.setdefault(plain, -1 - len(self.operands))

    def statement(self, statement: Statement) -> int:
        """A reference to what it computes."""
        return self.statements.setdefault(statement, len(self.statements))

    def inserted(self, expression: Expression, reader: View) -> int | None:
        """What makes the array of a view, in the view's order."""
        views = [through(operand, expression.dims, reader) for operand in expression.operands]
        seen = [view for view in views if view is not None]
        return self.appended(expression, list(map(self.operand, seen))) if len(seen) == len(views) else None

    def appended(self, expression: Expression, operands: Sequence[int]) -> int:
        """The statements of an expression on operands that are given as references."""
        found: list[int] = []

        def moved(reference: int) -> int:
            return found[reference] if reference >= 0 else operands[-1 - reference]

        for each in expression.statements:
            found.append(self.statement(each._replace(operands=tuple(map(moved, each.operands)))))
        return moved(expression.result)

    def made(self, result: int) -> Expression:
        """All of it."""
        return Expression(self.dims, tuple(self.operands), tuple(self.statements), result)


def _constant(view: View) -> Statement | None:
    """A constant of one element as a statement, where a number says all of its bits."""
    literal = view.array.source.literal
    if view.shape.dims or view.array.producer is not None or literal is None or literal.size != 1:
        return None
    if view.shape.dtype != view.array.shape.dtype:
        return None
    value: Any = literal.item() if literal.dtype.kind in "biu" else literal.astype("f8").item()
    if NUMPY[view.shape.dtype].type(value).tobytes() != literal.tobytes():
        return None
    return Statement(CONSTANT, view.shape.dtype, (), repr(value))


_SPELLED: dict[str, Callable[[], AttrValue]] = {"True": lambda: True, "False": lambda: False}


def _value(text: str) -> AttrValue:
    """A value from its `repr`."""
    if text in _SPELLED:
        return _SPELLED[text]()
    return int(text) if text.lstrip("-").isdecimal() else float(text)
