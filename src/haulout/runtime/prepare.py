"""A compiled program, prepared to be executed: the steps of every core, section by section, bound to one arena.

A core runs its instructions in list order, which respects every dependence inside the core; so `deps` cost nothing.
What a thread waits for are the barriers, semaphores and exchanges of the program. Atomic accesses take a lock.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import NONE, Space
from haulout.ir.labels import location_label
from haulout.ir.program import Program
from haulout.ir.schema import Bytes
from haulout.runtime.meeting import Group, Meetings, Tag
from haulout.runtime.trace import Kind
from haulout.sim.flow.visits import Iteration
from haulout.sim.memory.slots import Slot, new_arena
from haulout.sim.numerics import TensorType
from haulout.sim.plan import Prepared, prepare, within_memory
from haulout.sim.steps.bind import Binder
from haulout.sim.steps.make import Step
from haulout.support.diagnostics import HauloutError, bad_input, fail

_BYTE = np.dtype(np.uint8)


@dataclass
class Core:
    """What one thread runs, and where it is."""

    number: int
    steps: list[list[Step]] = field(default_factory=list)
    """[section]: in list order. A wait and a signal are steps of their own."""
    rows: list[list[int]] = field(default_factory=list)
    """[section]: the row of each step."""
    kinds: list[list[Kind]] = field(default_factory=list)
    """[section]: what each step does."""
    branches: dict[int, Callable[[], bool]] = field(default_factory=dict)
    """Section -> whether its branch takes the first successor."""
    around: Iteration = ()
    """The iterations of the loops around the section that it runs."""


@dataclass
class Executable:
    """A program bound to an arena."""

    prepared: Prepared
    arena: Bytes
    cores: list[Core]
    meetings: Meetings
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


def bind(program: Program) -> Executable:
    """The steps of a program in an arena of its own. Raises `HauloutError`: not compiled, unsound, or unsupported."""
    prepared = prepare(program)
    require_compiled(program, prepared)
    with within_memory(prepared.layout.size), np.errstate(all="ignore"):
        return _Binder(prepared).bind()


class _Binder:
    """Makes the steps; what they share is found once."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.program, self.code = prepared, prepared.program, prepared.code
        self.arena = new_arena(prepared.layout.size)
        self.meetings = Meetings(self.code, len(prepared.semaphores))
        self.atomic = threading.Lock()
        self.groups: dict[tuple[int, tuple[int, ...]], Group] = {}
        self.binder = Binder(self.code, prepared.operands, self.arena)
        program = self.program
        self.barriers = {row: at for at, row in enumerate(program.barriers.instruction.tolist())}
        self.exchanges = {row: at for at, row in enumerate(program.meetings.instruction.tolist())}
        self.atomics = set(program.accesses.instruction[program.accesses.atomic].tolist())
        self.issued = [0] * len(prepared.semaphores)
        """Of each semaphore: what its core has issued to it, as `wait_back` counts."""
        self.shared = set(prepared.semaphores.signals.semaphore[prepared.semaphores.remote].tolist())
        """Semaphores that other cores add to."""
        self.waits = _by_row(prepared.semaphores.waits.row)
        self.signals = _by_row(prepared.semaphores.signals.row)

    def bind(self) -> Executable:
        code, sections = self.code, self.code.sections
        cores = [Core(number) for number in range(self.program.lnc)]
        for core in cores:
            for section in range(len(sections)):
                steps: list[Step] = []
                rows: list[int] = []
                kinds: list[Kind] = []
                for row in code.rows[section][core.number].tolist():
                    if code.is_branch(row):
                        core.branches[section] = self._branch(row)
                        continue
                    for kind, step in self._steps(core, row):
                        steps.append(step)
                        rows.append(row)
                        kinds.append(kind)
                core.steps.append(steps)
                core.rows.append(rows)
                core.kinds.append(kinds)
        return Executable(self.prepared, self.arena, cores, self.meetings, self._reset)

    def _reset(self) -> None:
        self.arena[:] = 0
        self.issued[:] = [0] * len(self.issued)
        self.meetings.reset()
        for group in self.groups.values():
            group.reset()

    # -- one instruction ---------------------------------------------------------------------------------------------

    def _steps(self, core: Core, row: int) -> list[tuple[Kind, Step]]:
        before: list[tuple[Kind, Step]] = [("wait", self._wait(core, row, at)) for at in self.waits.get(row, ())]
        after: list[tuple[Kind, Step]] = [("signal", self._signal(at)) for at in self.signals.get(row, ())]
        if row in self.barriers:
            return [*before, ("wait", self._barrier(core, row)), *after]
        if self.code.is_nop[row]:
            return [*before, *after]
        try:
            step = self._exchange(core, row) if row in self.exchanges else self._compute(core, row)
        except HauloutError as error:
            label = self.code.label(row)
            raise HauloutError(*(replace(each, labels=(label, *each.labels)) for each in error.diagnostics)) from None
        return [*before, ("instruction", self._locked(step) if row in self.atomics else step), *after]

    def _locked(self, step: Step) -> Step:
        def run() -> None:
            with self.atomic:
                step()

        return run

    def _compute(self, core: Core, row: int) -> Step:
        operands = self.prepared.operands
        accesses = range(int(self.code.begin[row]), int(self.code.end[row]))
        if row not in operands.strided.moving:
            return self.binder.step(row, tuple(accesses))
        known: dict[tuple[int, ...], Step] = {}

        def run() -> None:
            places = tuple(operands.strided.operand(access, core.around) for access in accesses)
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

    def _barrier(self, core: Core, row: int) -> Step:
        program, at = self.program, self.barriers[row]
        mask, every = int(program.barriers.cores[at]), range(program.lnc)
        members = tuple(each for each in every if mask >> each & 1) if mask else tuple(every)
        if core.number not in members:
            listed = ", ".join(map(str, members))
            fail(
                "barrier-mismatch",
                f"core {core.number} executes a barrier of cores {listed}, which does not include it",
                self.code.label(row),
            )
        key = int(program.instructions.engine[row]), members
        group = self.groups.setdefault(key, Group(*key))
        name = program.strings[int(program.barriers.name[at])]
        return partial(self.meetings.meet, group, core.number, row, name)

    def _wait(self, core: Core, row: int, at: int) -> Step:
        semaphores = self.prepared.semaphores
        semaphore, value = int(semaphores.waits.semaphore[at]), int(semaphores.waits.value[at])
        name = semaphores.named(semaphore)
        if not semaphores.back[at]:
            return partial(self.meetings.wait_for, semaphore, value, core.number, row, name)
        issued = self.issued

        def run() -> None:
            self.meetings.wait_for(semaphore, issued[semaphore] - value, core.number, row, name)

        return run

    def _signal(self, at: int) -> Step:
        semaphores = self.prepared.semaphores
        semaphore, amount = int(semaphores.signals.semaphore[at]), int(semaphores.signals.value[at])
        own = int(semaphores.issues.semaphore[at])
        meetings, issued = self.meetings, self.issued
        is_shared = semaphore in self.shared

        def run() -> None:
            issued[own] += amount
            if is_shared:
                meetings.signal(semaphore, amount)
            else:
                meetings.value[semaphore] += amount

        return run

    def _exchange(self, core: Core, row: int) -> Step:
        program, at = self.program, self.exchanges[row]
        to, source, tag = (
            int(column[at]) for column in (program.meetings.to, program.meetings.source, program.meetings.tag)
        )
        sends: Tag | None = None if to == NONE else (core.number, to, tag)
        receives: Tag | None = None if source == NONE else (source, core.number, tag)
        begin, middle, end = (int(column[row]) for column in (self.code.begin, self.code.middle, self.code.end))
        operands = self.prepared.operands
        slots = [self.binder.raw(each) for each in range(begin, end)]
        reads, writes = slots[: middle - begin], slots[middle - begin :]
        wanted = sum(slot.type.nbytes for slot in writes)

        def run() -> None:
            data = np.concatenate([np.zeros(0, np.uint8), *(slot.read() for slot in reads)])
            received = self.meetings.exchange(core.number, row, sends, receives, data)
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


def _by_row(rows: np.ndarray[Any, Any]) -> dict[int, list[int]]:
    """Row of the code -> rows of a table that is sorted by it."""
    found: dict[int, list[int]] = defaultdict(list)
    for at, row in enumerate(rows.tolist()):
        found[row].append(at)
    return dict(found)
