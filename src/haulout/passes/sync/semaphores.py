"""How semaphores stand in a program: the rows of the table, and `wait_back`, the wait that follows a loop.

A semaphore belongs to one core and starts at zero in every function. `signal=[[S,1]]` adds on completion,
`wait=[[S,k]]` starts when it is at least k. In a loop the count that stands for "the producer, in this turn" differs
from turn to turn, so no constant will do. What does not differ is how many signals lie between:

    wait_back=[[S,j]]    start when all signals to S of instructions before this one in the run are made, but the
                         last j of them: when S is at least (signals before it) - j

Every engine goes through the same blocks, so each knows the number of signals before it without being told: a
register that grows by a constant in each block. In a straight list `wait_back=[[S,j]]` is `wait=[[S,n-j]]`, n the
signals before it in the list.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from haulout.ir.program import Program
from haulout.ir.schema import Ids, Semaphores


class Wait(NamedTuple):
    """One wait: of which instruction, on which semaphore, for how many signals or up to how many signals back."""

    row: int
    name: int
    """Of the semaphore, in `strings`."""
    value: int
    back: bool


def signals_of(rows: Ids, name: int) -> Semaphores:
    """A signal of 1 of each row."""
    return Semaphores.make(len(rows), instruction=rows, name=name, value=1)


def with_semaphores(program: Program, rows: Semaphores) -> Program:
    """The program, which has none yet, with signals and waits in any order."""
    order = np.lexsort((rows.value, rows.name, rows.back, rows.wait, rows.instruction))
    return program.replace(semaphores=rows.take(order))


def waits_of(program: Program) -> list[Wait]:
    """All waits of a program, by instruction."""
    rows = program.semaphores.take(program.semaphores.wait)
    columns = (rows.instruction, rows.name, rows.value, rows.back)
    return sorted(itertools.starmap(Wait, zip(*(each.tolist() for each in columns), strict=True)))


def rows_of(waits: Sequence[Wait]) -> Semaphores:
    """Waits as rows of the table."""
    return Semaphores.make(
        len(waits),
        instruction=[each.row for each in waits],
        name=[each.name for each in waits],
        value=[each.value for each in waits],
        wait=True,
        back=[each.back for each in waits],
    )
