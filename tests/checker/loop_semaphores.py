"""Random semaphores on programs with loops and branches: on barriers, in divergent arms, of other cores."""

from __future__ import annotations

from random import Random

import numpy as np

from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import find_text
from haulout.checker.flow.waits import find_graph
from haulout.checker.model import Function, functions
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Semaphores

Mark = tuple[int, int, int, int, bool, bool]
"""A row of the table `semaphores`."""


def add_semaphores(random: Random, program: Program) -> Program:
    """The program with signals and waits; those before a wait in the text are enough for it."""
    rows, core_of = program.instructions, program.instruction_core.tolist()
    meets = np.isin(np.arange(len(rows)), program.barriers.instruction)
    lines = sorted({(core, int(engine)) for core, engine in zip(core_of, rows.engine.tolist(), strict=True)})
    marks: list[Mark] = []
    for number in range(random.choice((1, 1, 2))):
        name = program.strings.intern(f"S{number}")
        owner = random.randrange(program.lnc)
        kind = random.choice(("line", "core", "every core", "every core", "chain", "barriers"))
        line = random.choice([each for each in lines if each[0] == owner])
        for row, core in enumerate(core_of):
            if kind == "line" and (core, int(rows.engine[row])) != line:
                continue
            if (kind in ("core", "chain") and core != owner) or (kind == "barriers" and not meets[row]):
                continue
            if random.random() < (0.4 if kind == "barriers" or not meets[row] else 0.15):
                marks.append((row, name, NONE if core == owner else owner, random.choice((1, 1, 2)), False, False))
                if kind == "chain":
                    marks.append((row, name, NONE, 0, True, True))
        waiting = [row for row, core in enumerate(core_of) if core == owner]
        for row in random.sample(waiting, min(len(waiting), random.choice((1, 2, 4)))):
            back = random.random() < 0.5
            value = random.choice((0, 0, 0, 1, 2)) if back else random.choice((1, 1, 2, 3))
            if _suits(_with(program, [*marks, mark := (row, name, NONE, value, True, back)])):
                marks.append(mark)
    return _with(program, marks)


def _with(program: Program, marks: list[Mark]) -> Program:
    names = ("instruction", "name", "core", "value", "wait", "back")
    columns = dict(zip(names, map(list, zip(*sorted(marks), strict=True)), strict=True)) if marks else {}
    return program.replace(semaphores=Semaphores.make(len(marks), **columns) if marks else Semaphores.empty())


def _suits(program: Program) -> bool:
    for each in functions(program):
        if isinstance(each, Function) and each.runs is not None:
            text = find_text(each.runs)
            if isinstance(text, Refusal) or isinstance(find_graph(text), Refusal):
                return False
    return True
