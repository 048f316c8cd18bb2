"""Semaphores of a program: the rows of the table, and `wait_back`, the wait for a count that is not constant.

A semaphore belongs to one core and starts at zero in every function. `signal=[[S,1]]` adds on completion,
`wait=[[S,k]]` starts when it is at least k. In a loop, the count of "the producer in this iteration" differs from
iteration to iteration, so no constant works. The number of signals between producer and consumer is constant:

    wait_back=[[S,j]]    start when all signals to S of instructions before this one in the run are done, except the
                         last j of them: when S is at least (signals before it) - j

Every engine runs the same blocks, so each knows the number of signals before it: a register that grows by a constant
in each block. In a straight list `wait_back=[[S,j]]` is `wait=[[S,n-j]]`, n the signals before it in the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from haulout.ir.attributes import AttrValue, format_attrs, parse_attrs
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import Ids, Semaphores
from haulout.ir.semaphores import WAIT_BACK, Malformed, semaphore_use
from haulout.support.diagnostics import bad_input


class Wait(NamedTuple):
    """A wait of an instruction on a semaphore: for `value` signals, or for all before it except the last `value`."""

    row: int
    name: int
    """Of the semaphore, in `strings`."""
    value: int
    back: bool


def signals_of(rows: Ids, name: int) -> Semaphores:
    """A signal of 1 of each row."""
    return Semaphores.make(len(rows), instruction=rows, name=name, value=1)


def with_semaphores(program: Program, rows: Semaphores, back: Sequence[Wait]) -> Program:
    """The program, which has no semaphores, with these signals and waits, and with `wait_back`s."""
    order = np.lexsort((rows.value, rows.name, rows.wait, rows.instruction))
    program = program.replace(semaphores=rows.take(order))
    values: dict[int, list[AttrValue]] = {}
    for wait in sorted(back):
        values.setdefault(wait.row, []).append([program.strings[wait.name], wait.value])
    if not values:
        return program
    attrs = program.instructions.attrs.copy()
    for row, value in values.items():
        text = program.strings.get(int(attrs[row])) or ""
        attrs[row] = program.strings.intern(format_attrs({**parse_attrs(text), WAIT_BACK: value}))
    return program.replace(instructions=program.instructions.replace(attrs=attrs))


def waits_of(program: Program) -> list[Wait]:
    """All waits of a program, by instruction; `bad-input` for a malformed `wait_back`."""
    use = semaphore_use(program, malformed(program))
    rows, names = use.waits.instruction.tolist(), use.waits.name.tolist()
    return sorted(
        Wait(row, program.strings.intern(use.names[name]), value, back)
        for row, name, value, back in zip(rows, names, use.waits.value.tolist(), use.waits.back.tolist(), strict=True)
    )


def malformed(program: Program) -> Malformed:
    """A callback that raises `bad-input` for a malformed attribute."""

    def refuse(row: int, message: str) -> None:
        bad_input(message, instruction_label(program, row))

    return refuse
