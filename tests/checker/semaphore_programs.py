"""Random programs with semaphores, and a slow judge of their order that shares no code with the checker.

What can happen stays possible, whatever else happens. So an event is behind another exactly when it does not happen
in the run in which the other never does and everything else does that can. The judge makes that run for each event,
from rows and attributes, step by step.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.program import Program

Event = tuple[str, int]
"""`in` (started; of a `sendrecv`: arrived) or `out` (complete), and the instruction's row."""

_LINES = (Engine.PE, Engine.ACT, Engine.DMA0, Engine.DMA1)


def random_semaphores(random: Random, *, cores: int = 0, most: int = 7) -> Program:
    """Straight lines: few semaphores, signalled and waited for at random, on few engines."""
    cores = cores or random.choice((1, 1, 2, 2, 3))
    build = ProgramBuilder("semaphores", cores)
    names = ["s", "t"][: random.choice((1, 2))]
    lines = _LINES[: random.randint(2, 4)]
    meet = random.random() < 0.4 and cores > 1
    exchange = random.random() < 0.3 and cores > 1
    reach = random.choice((1, 2, 3))
    for core in range(cores):
        function = build.function(build.module(f"nc{core}", core), "main")
        here = build.location(function, "x", Space.DRAM_LOCAL, 64, kind=Kind.INOUT)
        block = build.block(function, "entry")
        size = random.randint(2, most)
        rows: list[int] = []
        for at in range(size):
            marks: list[dict[str, Any]] = []
            if cores > 1 and random.random() < 0.4:
                others = [other for other in range(cores) if other != core]
                marks += [
                    {"core": other, "name": random.choice(names), "value": random.randint(1, 2)}
                    for other in random.sample(others, random.randint(1, len(others)))
                ]
            if random.random() < 0.2:
                name = random.choice(names)
                marks.append({"name": name, "value": random.randint(0, 1), "wait": True, "back": True})
            deps = [row for row in rows if random.random() < 0.15]
            bytes_ = {"reads": [here], "writes": [here], "deps": deps}
            if meet and at == size // 2:
                row = build.barrier(block, f"b{at}", "m", engine=random.choice((Engine.ALL, lines[0])))
            elif exchange and at == 1:
                to, source = (core + 1) % cores, (core - 1) % cores
                row = build.sendrecv(block, f"i{at}", random.choice(lines), to=to, source=source, **bytes_)
            else:
                row = build.instruction(block, f"i{at}", "op", random.choice(lines), **bytes_)
            rows.append(row)
            if random.random() < 0.5:
                marks.append({"name": random.choice(names), "value": random.randint(1, 2)})
            if random.random() < 0.4:
                marks.append({"name": random.choice(names), "value": random.randint(1, reach), "wait": True})
            for mark in marks:
                build.semaphore(row, **mark)
    return build.freeze()


class SemaphoreJudge:
    """The order of the events of one straight program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        rows = program.instructions
        self.count = len(rows)
        self.core = program.instruction_core.tolist()
        self.engine = rows.engine.tolist()
        self.adds: dict[int, list[tuple[tuple[int, str], int]]] = defaultdict(list)
        self.needs: dict[int, list[tuple[tuple[int, str], int]]] = defaultdict(list)
        late: dict[int, list[tuple[str, int]]] = defaultdict(list)
        table = program.semaphores
        for at, row in enumerate(table.instruction.tolist()):
            name, value = program.strings[int(table.name[at])], int(table.value[at])
            if table.back[at]:
                late[row].append((name, value))
            elif table.wait[at]:
                self.needs[row].append(((self.core[row], name), value))
            else:
                core = self.core[row] if table.core[at] == NONE else int(table.core[at])
                self.adds[row].append(((core, name), value))
        issued: dict[tuple[int, str], int] = defaultdict(int)
        for row in range(self.count):
            for name, back in late[row]:
                self.needs[row].append(((self.core[row], name), issued[self.core[row], name] - back))
            for (_, name), amount in self.adds[row]:
                issued[self.core[row], name] += amount
        self.after: dict[Event, list[Event]] = {}
        self._edges()

    def _edges(self) -> None:
        program = self.program
        barriers, meetings = program.barriers.instruction.tolist(), program.meetings.instruction.tolist()
        for row in range(self.count):
            before: list[Event] = []
            for other in range(row):
                fenced = Engine.ALL in (self.engine[row], self.engine[other])
                if self.core[other] == self.core[row] and (fenced or self.engine[other] == self.engine[row]):
                    before.append(("out", other))
            self.after["in", row], self.after["out", row] = before, [("in", row)]
        for at in range(len(program.dependences)):
            waits, producer = int(program.dependences.instruction[at]), int(program.dependences.producer[at])
            self.after["in", waits].append(("out", producer))
        for row in barriers:
            self.after["out", row] += [("in", other) for other in barriers]
        for row in meetings:
            for other in meetings:
                if self._meets(row, other):
                    self.after["out", row].append(("in", other))
                    self.after["out", other].append(("in", row))

    def _meets(self, row: int, other: int) -> bool:
        table = self.program.meetings
        to = int(table.to[table.instruction.tolist().index(row)])
        return to != NONE and to == self.core[other]

    def happens(self, without: Event | None = None) -> set[Event]:
        """All that happens when one event never does."""
        done: set[Event] = set()
        count: dict[tuple[int, str], int] = defaultdict(int)
        moved = True
        while moved:
            moved = False
            for event, before in self.after.items():
                if event in done or event == without or not all(each in done for each in before):
                    continue
                kind, row = event
                if kind == "in" and any(count[name] < value for name, value in self.needs[row]):
                    continue
                done.add(event)
                moved = True
                if kind == "out":
                    for name, value in self.adds[row]:
                        count[name] += value
        return done

    def hangs(self) -> bool:
        """Whether something never happens."""
        return len(self.happens()) < 2 * self.count
