"""A scalar computation, evaluated for many elements at once.

`body=[[OPCODE,DTYPE,[operand numbers],extra],...] results=[numbers]`: the P parameters are numbered 0 to P-1,
statement i is number P+i. Every statement is an element-wise operation or a `constant`; so the scalar program
runs once, on whole arrays, and costs one NumPy call a statement however many elements there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from haulout.ir.enums import Engine
from haulout.ir.opcodes import lookup
from haulout.sim.numerics import attributes, elementwise
from haulout.sim.numerics.dtypes import named
from haulout.sim.numerics.types import Array, Attrs, DType
from haulout.support.diagnostics import bad_input


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of a body; `extra` is compare's direction or a constant's value."""

    opcode: str
    dtype: DType
    operands: tuple[int, ...]
    extra: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Body:
    """A scalar computation of `parameters` values; `results` are the numbers of what it returns."""

    parameters: int
    statements: tuple[Statement, ...]
    results: tuple[int, ...]

    def __call__(self, *parameters: Array, shape: tuple[int, ...] | None = None) -> list[Array]:
        """The results for parameters that broadcast against each other; a constant result is a scalar.

        With `shape`, transcendental functions get all operands as arrays of that shape.
        """
        values: list[Array | None] = [*parameters]
        last = {number: at for at, statement in enumerate(self.statements) for number in statement.operands}
        for at, statement in enumerate(self.statements):
            operands = [value for number in statement.operands if (value := values[number]) is not None]
            if shape is not None and lookup(statement.opcode).engine is Engine.ACT:
                operands = [np.ascontiguousarray(np.broadcast_to(operand, shape)) for operand in operands]
            values.append(_execute(statement, operands))
            for number in statement.operands:
                if last[number] == at and number not in self.results:
                    values[number] = None  # an array that nothing reads any more
        return [value for number in self.results if (value := values[number]) is not None]


def parse(attrs: Attrs, parameters: int, results: int) -> Body:
    """The attributes `body` and `results`; `bad-input` unless they form a computation of that signature."""
    rows: Any = attrs.get("body")
    if rows is None:
        bad_input("attribute `op` is missing, and so is `body`")
    if not isinstance(rows, list | tuple):
        bad_input(f"attribute `body`: expected a list of statements, found {rows!r}")
    statements = tuple(_parse_statement(row, parameters + index) for index, row in enumerate(rows))
    numbers = attributes.integers(attrs, "results")
    if len(numbers) != results or not all(0 <= number < parameters + len(statements) for number in numbers):
        bad_input(
            f"attribute `results`: expected {results} of the numbers 0 to {parameters + len(statements) - 1}, "
            f"found {list(numbers)}"
        )
    return Body(parameters, statements, numbers)


def _parse_statement(row: object, number: int) -> Statement:
    match row:
        case [str(opcode), str(dtype), [*numbers]]:
            extra = None
        case [str(opcode), str(dtype), [*numbers], (str() | int() | float()) as extra]:
            pass
        case _:
            bad_input(f"statement {number} of the body: expected [OPCODE,DTYPE,[NUMBER,...],EXTRA], found {row!r}")
    operands = tuple(operand for operand in numbers if type(operand) is int and 0 <= operand < number)
    if len(operands) != len(numbers):
        bad_input(f"statement {number} of the body: operands {numbers} are not all earlier numbers")
    if opcode == "constant" and (operands or extra is None or isinstance(extra, str)):
        bad_input(f"statement {number} of the body: a constant has no operands and a numeric value, found {row!r}")
    return Statement(opcode, named(dtype), operands, extra)


def _execute(statement: Statement, operands: Sequence[Array]) -> Array:
    if statement.opcode == "constant":
        return np.array(statement.extra).astype(statement.dtype)
    direction = statement.extra if isinstance(statement.extra, str) else None
    return elementwise.apply(statement.opcode, operands, statement.dtype, direction)
