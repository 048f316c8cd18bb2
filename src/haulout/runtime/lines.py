"""What each thread of a run executes: the lines of the cores.

    a thread a core     one line a core, all its instructions in list order
    a thread a queue    a line for each engine and queue that a core uses, its instructions in list order, and one for
                        its branches. A barrier on `all` is on every line of its core.

All lines of a core go through the same sections. So each of them can count by itself what the core has passed: how
often each section has run, what its instructions have issued to semaphores, how many exchanges of a kind there were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.runtime.meeting import Place
from haulout.runtime.spans import Kind
from haulout.sim.flow.code import BRANCH, Code, line_text
from haulout.sim.flow.sections import Sections
from haulout.sim.flow.visits import Iteration
from haulout.sim.steps.make import Step


@dataclass
class Line:
    """What one thread runs, and where it is."""

    number: int
    """Of the thread."""
    core: int
    engine: int
    """Of a core's lines; NONE: all instructions of the core."""
    steps: list[list[Step]] = field(default_factory=list)
    """[section]: in list order. A wait and a signal are steps of their own."""
    rows: list[list[int]] = field(default_factory=list)
    """[section]: the row of each step."""
    kinds: list[list[Kind]] = field(default_factory=list)
    """[section]: what each step does."""
    branches: dict[int, Callable[[], bool]] = field(default_factory=dict)
    """Section -> whether its branch takes the first successor; empty for lines that do not decide."""
    around: Iteration = ()
    """The iterations of the loops around the section that it runs."""
    passed: list[int] = field(default_factory=list)
    """Counts of what the core has done in the sections before: how often each section has run, then others."""
    began: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    """Header of a loop -> `passed` when the previous iteration began, and when this one did."""

    @property
    def place(self) -> Place:
        """For messages."""
        return Place(self.core, "" if self.engine == NONE else line_text(self.engine))

    def begin(self, sections: Sections, counts: int) -> None:
        """The state before the first section."""
        self.passed, self.began = [0] * counts, {}
        self.around = (0,) * (0 in sections.structure.loop_at)
        if self.around:
            self._enter(0)

    def leave(self, sections: Sections, section: int, following: int, totals: Sequence[tuple[int, int]]) -> None:
        """Move from a section, which adds `totals` to `passed`, to the next one."""
        for count, amount in totals:
            self.passed[count] += amount
        if following == NONE:
            return
        depth = sections.depths[following]
        if following not in sections.structure.loop_at:
            self.around = self.around[:depth]
            return
        first = following > section
        self.around = (*self.around[: depth - 1], 0 if first else self.around[depth - 1] + 1)
        self._enter(following)

    def carried(self, header: int, section: int) -> int:
        """How often a section had run when the loop's iteration began; 0 if not once in the iteration before."""
        before, now = self.began[header]
        return now[section] if now[section] > before[section] else 0

    def _enter(self, header: int) -> None:
        now = list(self.passed)
        self.began[header] = (self.began[header][1] if self.around[-1] else now, now)


def divide(code: Code, queues: bool) -> list[Line]:
    """The lines of all cores, without steps."""
    lines: list[Line] = []
    for core in range(code.program.lnc):
        engines = [NONE]
        if queues:
            rows = np.concatenate([np.zeros(0, np.int32), *(cores[core] for cores in code.rows)])
            used = np.unique(code.engine[rows])
            engines = used[used != Engine.ALL].tolist() or [int(Engine.ALL)]
        lines += [Line(len(lines) + at, core, engine) for at, engine in enumerate(engines)]
    return lines


def decides(line: Line) -> bool:
    """Whether a line executes the branches of its core."""
    return line.engine in (NONE, BRANCH)
