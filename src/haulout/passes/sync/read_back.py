"""The inverse of `lower_sync`: from signals and waits to the order that they guarantee.

It reasons about counts only, and knows nothing of how they were chosen. What an instruction needs in order to start
(its engine, its edges, its counts) stays fulfilled once it is: nothing takes a signal back. So there is *one* largest
run in which an instruction X never completes: start whatever can start, until nothing can. What has not started then
is behind X on every schedule; what has started is not. That is exact, and it covers a counter that several engines
signal in whatever order. A counter that one engine signals needs no such run: its k-th signal is what "at least k"
waits for.

    dma0:    A +1    B +1        least count without B: 1     "at least 2" is behind B, and so behind A
    vector:  C waits for 2

A program with loops is read back run by run: `order_of_run` takes the rows as one core runs them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import Dependences
from haulout.passes.sync.semaphores import waits_of
from haulout.support.diagnostics import bad_input, fail


def guaranteed_order(program: Program) -> Dependences:
    """Edges that the semaphores of a straight-line program guarantee, for each instruction the last of each engine.

    A wait for more than will ever be signalled guarantees whatever one likes; it is a `deadlock`, and refused here.
    """
    if program.structure:
        bad_input("a program with loops or forks is read back run by run")
    bounds = np.searchsorted(program.instruction_function, np.arange(len(program.functions) + 1)).tolist()
    found: list[tuple[int, int]] = []
    for begin, end in pairwise(bounds):
        found += [(begin + row, begin + producer) for row, producer in order_of_run(program, range(begin, end))]
    return Dependences.make(
        len(found), instruction=[row for row, _ in found], producer=[producer for _, producer in found]
    )


def order_of_run(program: Program, rows: Sequence[int]) -> list[tuple[int, int]]:
    """(position, position that it is behind) by the semaphores of one core, whose run is these rows in order."""
    run = _Run.of(program, rows)
    edges: dict[tuple[int, int], int] = {}
    for name, signals in run.signals.items():
        waiting = [(at, count) for at, counts in run.waits.items() for each, count in counts if each == name]
        in_order = len({run.line[at] for at, _ in signals}) == 1
        sums = np.cumsum([value for _, value in signals])
        for at, count in waiting:
            if count > sums[-1]:
                _refuse(program, rows[at], name, count, int(sums[-1]))
            if in_order and count > 0:
                producer = signals[int(np.searchsorted(sums, count))][0]
                _later(edges, at, run.line[producer], producer)
        if not in_order:
            for producer, _ in signals:
                started = run.without(producer)
                for at, _ in waiting:
                    if at not in started and at != producer:
                        _later(edges, at, run.line[producer], producer)
    for at, counts in run.waits.items():
        for name, count in counts:
            if count > 0 and name not in run.signals:
                _refuse(program, rows[at], name, count, 0)
    # Engine order needs no edge, nor does what stands behind: it waits for more than it must.
    return sorted((at, producer) for (at, line), producer in edges.items() if line != run.line[at] and producer < at)


def _later(edges: dict[tuple[int, int], int], at: int, line: int, producer: int) -> None:
    edges[at, line] = max(producer, edges.get((at, line), producer))


def _refuse(program: Program, row: int, name: int, count: int, most: int) -> None:
    fail(
        "deadlock",
        f"it waits until semaphore {program.strings[name]} is {count}, and {most} is the most it comes to",
        instruction_label(program, row),
    )


@dataclass(slots=True)
class _Run:
    """Positions of one core's run: their lines, the edges they wait for, their signals and counts."""

    line: list[int]
    deps: dict[int, list[int]]
    adds: dict[int, list[tuple[int, int]]]
    """Position -> (semaphore, value) added on completion."""
    waits: dict[int, list[tuple[int, int]]]
    """Position -> (semaphore, count) needed to start; `wait_back` as the count that it stands for here."""
    signals: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Semaphore -> (position, value) in the order of the run."""

    @classmethod
    def of(cls, program: Program, rows: Sequence[int]) -> _Run:
        table = program.semaphores
        adds_of: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for at in np.flatnonzero(~table.wait & (table.core == NONE)).tolist():
            adds_of[int(table.instruction[at])].append((int(table.name[at]), int(table.value[at])))
        waits_by_row = defaultdict(list)
        for wait in waits_of(program):
            waits_by_row[wait.row].append(wait)
        forward = program.dependences.take(~program.dependences.carried)
        producers = defaultdict(list)
        for row, producer in zip(forward.instruction.tolist(), forward.producer.tolist(), strict=True):
            producers[row].append(producer)
        run = cls(program.instructions.engine[list(rows)].tolist() if len(rows) else [], {}, {}, {})
        before: dict[int, int] = defaultdict(int)
        newest: dict[int, int] = {}
        for at, row in enumerate(rows):
            if row in waits_by_row:
                run.waits[at] = [
                    (each.name, before[each.name] - each.value if each.back else each.value)
                    for each in waits_by_row[row]
                ]
            run.deps[at] = [newest[producer] for producer in producers[row] if producer in newest]
            for name, value in adds_of[row]:
                before[name] += value
                run.adds.setdefault(at, []).append((name, value))
                run.signals.setdefault(name, []).append((at, value))
            newest[row] = at
        return run

    def without(self, blocked: int) -> set[int]:
        """All that can start when `blocked` never completes. Other cores are taken to be as quick as one likes."""
        count = len(self.line)
        queues: dict[int, list[int]] = defaultdict(list)
        for at, line in enumerate(self.line):
            queues[line].append(at)
        place = dict.fromkeys(queues, 0)
        fences = queues.get(int(Engine.ALL), [])
        value: dict[int, int] = defaultdict(int)
        done: set[int] = set()
        started: set[int] = set()
        passed, first_open = 0, 0
        moved = True
        while moved:
            moved = False
            for line, queue in queues.items():
                while place[line] < len(queue):
                    at = queue[place[line]]
                    while first_open < count and first_open in done:
                        first_open += 1
                    fence = fences[passed] if passed < len(fences) else count
                    ready = first_open >= at if line == Engine.ALL else at < fence
                    ready = ready and all(each in done for each in self.deps[at])
                    ready = ready and all(value[name] >= needed for name, needed in self.waits.get(at, ()))
                    if not ready:
                        break
                    started.add(at)
                    moved = True
                    if at == blocked:
                        queues[line] = queue = queue[: place[line]]
                        break
                    done.add(at)
                    passed += line == Engine.ALL
                    for name, added in self.adds.get(at, ()):
                        value[name] += added
                    place[line] += 1
        return started
