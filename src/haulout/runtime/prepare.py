"""A compiled program, prepared to be executed: the steps of every line, section by section, bound to one arena.

A thread that runs a core in list order respects every dependence inside the core; so `deps` cost nothing. Otherwise
a dependence between two lines is a semaphore that counts how often its producer is complete. Besides these a thread
waits for the barriers, semaphores and exchanges of the program. Atomic accesses take a lock.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import NONE, Engine, Space
from haulout.ir.labels import location_label
from haulout.ir.program import Program
from haulout.ir.schema import Bytes
from haulout.runtime.lines import Line, divide
from haulout.runtime.meeting import Group, Meetings, Tag
from haulout.runtime.spans import Kind
from haulout.sim.memory.slots import Slot, new_arena
from haulout.sim.numerics import TensorType
from haulout.sim.plan import Prepared, prepare, within_memory
from haulout.sim.steps.bind import Binder
from haulout.sim.steps.make import Step
from haulout.support.diagnostics import HauloutError, bad_input, fail

_BYTE = np.dtype(np.uint8)


@dataclass
class Executable:
    """A program bound to an arena."""

    prepared: Prepared
    arena: Bytes
    lines: list[Line]
    meetings: Meetings
    totals: list[list[list[tuple[int, int]]]]
    """[section][core]: what the section adds to `Line.passed`."""
    counts: int
    """The length of `Line.passed`."""
    reset: Callable[[], None]
    """Brings the arena to zeros, and everything that threads share to the state before a run."""

    def whole(self, location: int, kind: TensorType) -> Slot:
        """A location as an array."""
        operands = self.prepared.operands
        return Slot(self.arena, operands[operands.whole(location)].patterns, kind)


def require_compiled(program: Program, prepared: Prepared) -> None:
    """`bad-input` unless all locations of the functions that run are in DRAM and have addresses."""
    locations = program.locations
    runs = np.isin(locations.function, prepared.functions)
    for row in np.flatnonzero(runs & (locations.space > Space.DRAM_SHARED))[:1].tolist():
        space = Space(int(locations.space[row])).text
        bad_input(
            f"it is in {space}: only programs whose locations are all in DRAM can be executed",
            location_label(program, row),
            help=["`haulout simulate` runs it"],
        )
    for row in np.flatnonzero(runs & (locations.address == NONE))[:1].tolist():
        bad_input(
            "it has no address: only a compiled program can be executed",
            location_label(program, row),
            help=["compile it: haulout compile INPUT -o DIR, then DIR/program.bir", "`haulout simulate` runs it"],
        )


def bind(program: Program, queues: bool = False) -> Executable:
    """The steps of a program in an arena of its own, on a line a core, or a line a queue with `queues`.

    Raises `HauloutError`: not compiled, unsound, or unsupported.
    """
    prepared = prepare(program)
    require_compiled(program, prepared)
    with within_memory(prepared.layout.size), np.errstate(all="ignore"):
        return _Binder(prepared, queues).bind()


class _Binder:
    """Makes the steps; what they share is found once."""

    def __init__(self, prepared: Prepared, queues: bool) -> None:
        self.prepared, self.program, self.code = prepared, prepared.program, prepared.code
        self.arena = new_arena(prepared.layout.size)
        self.lines = divide(self.code, queues)
        self.line_of: dict[tuple[int, int], Line] = {(line.core, line.engine): line for line in self.lines}
        self.of_core = [[line for line in self.lines if line.core == core] for core in range(self.program.lnc)]
        self.atomic = threading.Lock()
        self.groups: dict[tuple[int, tuple[int, ...]], Group] = {}
        self.binder = Binder(self.code, prepared.operands, self.arena)
        program = self.program
        self.barriers = {row: at for at, row in enumerate(program.barriers.instruction.tolist())}
        self.exchanges = {row: at for at, row in enumerate(program.meetings.instruction.tolist())}
        self.atomics = set(program.accesses.instruction[program.accesses.atomic].tolist())
        semaphores = prepared.semaphores
        self.waits = _by_row(semaphores.waits.row)
        self.signals = _by_row(semaphores.signals.row)
        self.shared = self._shared()
        self.waits_for = self._dependences()
        """Consumer -> pairs (producer, carried), of other lines."""
        producers = sorted({each for pairs in self.waits_for.values() for each, _ in pairs})
        self.complete = {row: len(semaphores) + at for at, row in enumerate(producers)}
        """Producer -> the semaphore that counts how often it is complete."""
        self.meetings = Meetings(self.code, [line.place for line in self.lines], len(semaphores), len(producers))
        self.counts: dict[tuple[str, Hashable], int] = {
            ("section", section): section for section in range(len(self.code.sections))
        }
        """Of what is counted, its place in `Line.passed`."""

    def bind(self) -> Executable:
        code, totals = self.code, []
        for section in range(len(code.sections)):
            for line in self.lines:
                for table in (line.steps, line.rows, line.kinds):
                    table.append([])
            totals.append([self._bind(section, core) for core in range(self.program.lnc)])
        return Executable(self.prepared, self.arena, self.lines, self.meetings, totals, len(self.counts), self._reset)

    def _bind(self, section: int, core: int) -> list[tuple[int, int]]:
        """Add the steps of a section of a core to its lines; what the section adds to `Line.passed`."""
        code = self.code
        here = Counter({self.counts["section", section]: 1})
        for row in code.rows[section][core].tolist():
            lines = self._lines(row)
            for kind, step in self._steps(lines[0], row, here):
                _add(lines[0], section, row, kind, step)
            if row in self.barriers:  # its other lines meet, and no more
                for line in lines[1:]:
                    _add(line, section, row, "wait", self._barrier(line, row))
            if code.is_branch(row):
                lines[0].branches[section] = self._branch(row)
            for at in self.signals.get(row, ()):
                issues = self.prepared.semaphores.issues
                here[self._count("issued", int(issues.semaphore[at]))] += int(issues.value[at])
        return sorted(here.items())

    def _lines(self, row: int) -> list[Line]:
        """The lines that an instruction is on."""
        core, engine = int(self.code.core[row]), int(self.code.engine[row])
        if engine == Engine.ALL:
            return self.of_core[core]
        return [self.line_of.get((core, engine)) or self.line_of[core, NONE]]

    def _count(self, what: str, which: Hashable) -> int:
        """The place in `Line.passed` of something that is counted."""
        return self.counts.setdefault((what, which), len(self.counts))

    def _shared(self) -> set[int]:
        """Semaphores that several threads use."""
        semaphores = self.prepared.semaphores
        users: dict[int, set[int]] = defaultdict(set)
        for operations in (semaphores.signals, semaphores.waits):
            for row, semaphore in zip(operations.row.tolist(), operations.semaphore.tolist(), strict=True):
                users[semaphore].add(self._lines(row)[0].number)
        return {semaphore for semaphore, threads in users.items() if len(threads) > 1}

    def _dependences(self) -> dict[int, list[tuple[int, bool]]]:
        """The dependences that the order of the lines does not imply, by consumer."""
        found: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        waits, engine = self.prepared.waits, self.code.engine
        if len(self.lines) == self.program.lnc:
            return found
        # A barrier on `all` is on every line: whatever comes before or after it on its core does so by line order.
        between = (engine[waits.consumer] != engine[waits.producer]) & (engine[waits.producer] != Engine.ALL)
        kept = between & (engine[waits.consumer] != Engine.ALL)
        for consumer, producer, carried in zip(*(column[kept].tolist() for column in waits), strict=True):
            found[consumer].append((producer, carried))
        return found

    def _reset(self) -> None:
        self.arena[:] = 0
        self.meetings.reset()
        for group in self.groups.values():
            group.reset()
        for line in self.lines:
            line.begin(self.code.sections, len(self.counts))

    # -- one instruction ---------------------------------------------------------------------------------------------

    def _steps(self, line: Line, row: int, here: Counter[int]) -> list[tuple[Kind, Step]]:
        """The steps of a row of the code; `here`: what its section has counted before it."""
        before: list[tuple[Kind, Step]] = [
            ("wait", self._wait(line, row, at, here)) for at in self.waits.get(row, ())
        ]
        before += [("wait", self._dependence(line, row, *each)) for each in self.waits_for.get(row, ())]
        after: list[tuple[Kind, Step]] = [("signal", self._signal(at)) for at in self.signals.get(row, ())]
        if row in self.complete:
            after.append(("signal", partial(self.meetings.signal, self.complete[row], 1)))
        if row in self.barriers:
            return [*before, ("wait", self._barrier(line, row)), *after]
        if self.code.is_branch(row) or self.code.is_nop[row]:
            return [*before, *after]
        try:
            step = self._exchange(line, row, here) if row in self.exchanges else self._compute(line, row)
        except HauloutError as error:
            label = self.code.label(row)
            raise HauloutError(*(replace(each, labels=(label, *each.labels)) for each in error.diagnostics)) from None
        return [*before, ("instruction", self._locked(step) if row in self.atomics else step), *after]

    def _locked(self, step: Step) -> Step:
        def run() -> None:
            with self.atomic:
                step()

        return run

    def _compute(self, line: Line, row: int) -> Step:
        operands = self.prepared.operands
        accesses = range(int(self.code.begin[row]), int(self.code.end[row]))
        if row not in operands.strided.moving:
            return self.binder.step(row, tuple(accesses))
        known: dict[tuple[int, ...], Step] = {}

        def run() -> None:
            places = tuple(operands.strided.operand(access, line.around) for access in accesses)
            step = known.get(places)
            if step is None:
                step = known[places] = self.binder.step(row, places)
            step()

        return run

    def _branch(self, row: int) -> Callable[[], bool]:
        operand = int(self.code.begin[row])
        location = int(self.prepared.operands.location[operand])
        name = self.program.strings.get(int(self.program.locations.dtype[location]))
        known = self.prepared.operands[operand]
        dtype = _BYTE if name is None else NUMPY[name]
        slot = Slot(self.arena, known.patterns, TensorType(dtype, (known.nbytes // dtype.itemsize,)))
        return lambda: bool((slot.read() != 0).any())

    # -- what threads wait for ---------------------------------------------------------------------------------------

    def _barrier(self, line: Line, row: int) -> Step:
        program, at = self.program, self.barriers[row]
        members = program.core_sets.members[program.core_sets.of[at]]
        if line.core not in members:
            listed = ", ".join(map(str, members))
            fail(
                "barrier-mismatch",
                f"core {line.core} executes a barrier of cores {listed}, which does not include it",
                self.code.label(row),
            )
        engine = int(program.instructions.engine[row])
        wanted = sum(len(self.of_core[each]) if engine == Engine.ALL else 1 for each in members)
        group = self.groups.setdefault((engine, members), Group(engine, members, wanted))
        name = program.strings[int(program.barriers.name[at])]
        return partial(self.meetings.meet, group, line.number, row, name)

    def _wait(self, line: Line, row: int, at: int, here: Counter[int]) -> Step:
        semaphores, wait_for = self.prepared.semaphores, self.meetings.wait_for
        semaphore, value = int(semaphores.waits.semaphore[at]), int(semaphores.waits.value[at])
        name = semaphores.named(semaphore)
        if not semaphores.back[at]:
            return partial(wait_for, semaphore, value, line.number, row, name)
        count = self._count("issued", semaphore)
        more = here[count] - value

        def run() -> None:
            wait_for(semaphore, line.passed[count] + more, line.number, row, name)

        return run

    def _dependence(self, line: Line, row: int, producer: int, carried: bool) -> Step:
        code, wait_for, complete = self.code, self.meetings.wait_for, self.complete[producer]
        own, other = int(code.section[row]), int(code.section[producer])
        what, more = code.named(producer), int(own == other)
        if not carried:

            def run() -> None:
                wait_for(complete, line.passed[other] + more, line.number, row, what)

            return run
        structure = code.sections.structure
        loop = structure.common_loop(own, other)
        if loop == NONE:
            return int  # there is no iteration before
        header = structure.loops[loop].header

        def run_carried() -> None:
            wait_for(complete, line.carried(header, other), line.number, row, what)

        return run_carried

    def _signal(self, at: int) -> Step:
        semaphores, meetings = self.prepared.semaphores, self.meetings
        semaphore, amount = int(semaphores.signals.semaphore[at]), int(semaphores.signals.value[at])
        if semaphore in self.shared:
            return partial(meetings.signal, semaphore, amount)

        def run() -> None:
            meetings.value[semaphore] += amount

        return run

    def _exchange(self, line: Line, row: int, here: Counter[int]) -> Step:
        program, at = self.program, self.exchanges[row]
        to, source, tag = (
            int(column[at]) for column in (program.meetings.to, program.meetings.source, program.meetings.tag)
        )
        sends: Tag | None = None if to == NONE else (line.core, to, tag)
        receives: Tag | None = None if source == NONE else (source, line.core, tag)
        number = [self._numbered(line, side, tag, here) for side, tag in (("to", sends), ("from", receives))]
        begin, middle, end = (int(column[row]) for column in (self.code.begin, self.code.middle, self.code.end))
        operands = self.prepared.operands
        slots = [self.binder.raw(each) for each in range(begin, end)]
        reads, writes = slots[: middle - begin], slots[middle - begin :]
        wanted = sum(slot.type.nbytes for slot in writes)

        def run() -> None:
            data = np.concatenate([np.zeros(0, np.uint8), *(slot.read() for slot in reads)])
            received = self.meetings.exchange(line.number, row, number[0](), number[1](), data)
            if received is None:
                return
            if wanted != len(received):
                bad_input(f"it receives {len(received)} bytes, but its destination has {wanted}")
            begin = 0
            for slot in writes:
                slot.write(received[begin : begin + slot.type.nbytes])
                begin += slot.type.nbytes

        if row in operands.strided.moving:
            bad_input("a `sendrecv` whose operands move with iterations cannot be executed")
        return run

    def _numbered(
        self, line: Line, side: str, tag: Tag | None, here: Counter[int]
    ) -> Callable[[], tuple[Tag, int] | None]:
        """A function for the number of an exchange among those of its core with this tag, which then counts it."""
        if tag is None:
            return lambda: None
        count = self._count(side, tag)
        more = here[count]
        here[count] += 1
        return lambda: (tag, line.passed[count] + more)


def _add(line: Line, section: int, row: int, kind: Kind, step: Step) -> None:
    line.steps[section].append(step)
    line.rows[section].append(row)
    line.kinds[section].append(kind)


def _by_row(rows: np.ndarray[Any, Any]) -> dict[int, list[int]]:
    """Row of the code -> rows of a table that is sorted by it."""
    found: dict[int, list[int]] = defaultdict(list)
    for at, row in enumerate(rows.tolist()):
        found[row].append(at)
    return dict(found)
