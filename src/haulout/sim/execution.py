"""One run in progress: memory with its inputs, the events that change it, and its outputs at the end."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.enums import NONE, Kind
from haulout.ir.labels import location_label
from haulout.ir.schema import Bytes, Ids
from haulout.sim.claims import Claims
from haulout.sim.events.graph import Effect
from haulout.sim.flow.visits import Iteration
from haulout.sim.inputs import Values, element_type, input_bytes, locations_of_kind, qualified_name
from haulout.sim.machine import Machine
from haulout.sim.memory.arena import Memory
from haulout.sim.nki.binder import has_nki
from haulout.sim.nki.fresh import fill_fresh
from haulout.sim.nki.registers import RegisterLog
from haulout.sim.plan import Plan, Prepared, within_memory
from haulout.support.diagnostics import Diagnostics, Severity, bad_input

Progress = Callable[[int, int], None]
"""Called from time to time with (done, total): events of a run, schedules of a comparison."""

Wrote = Callable[[int, Memory], None]
"""Called with the item of the trace that has written, and the memory."""

_PROGRESS_EVERY = 256


class Steps:
    """Events of a plan in the order of a schedule, as lists."""

    def __init__(self, plan: Plan, order: Ids) -> None:
        trace, graph = plan.trace, plan.graph
        self.visits, self.senders = trace.visits, graph.senders
        self.item: list[int] = graph.item[order].tolist()
        self.effect: list[int] = graph.effect[order].tolist()
        self.row: list[int] = trace.row.tolist()
        """Of each item, not of each step, like the next two."""
        self.visit: list[int] = trace.visit.tolist()
        self.core: list[int] = trace.core.tolist()
        self.instructions = int((trace.row < trace.code.instructions).sum())
        """Of the whole plan, like the barriers."""
        self.barriers = int((graph.queue == NONE).sum())

    def __len__(self) -> int:
        return len(self.item)


class Execution:
    """The memory of one run, and the counts and findings so far."""

    def __init__(
        self,
        prepared: Prepared,
        inputs: Values | None,
        seed: int,
        progress: Progress | None,
        registers: RegisterLog | None = None,
        wrote: Wrote | None = None,
        other: bool = False,
    ) -> None:
        self.prepared, self.progress, self.wrote = prepared, progress, wrote
        self.registers = RegisterLog() if registers is None else registers
        self.found = Diagnostics()
        self.watch: Callable[[int, Iteration], None] | None = None
        """Called after an instruction has written, with its row and the iterations around it."""
        self.instructions = self.events = self.barriers = 0
        self.branches: dict[int, bool] = {}
        """Row of each branch -> whether it took its first successor when it was last executed."""
        with within_memory(prepared.layout.size):
            self.memory = _initial_memory(prepared, inputs, seed, other)
        self.claims = Claims(prepared.program, prepared.functions)
        self.machine = Machine(prepared.code, self.memory, prepared.layout, self.found, self.claims, self.registers)

    def happen(
        self,
        steps: Steps,
        around: Iteration | None = None,
        sent: dict[tuple[int, int], Bytes] | None = None,
        numbers: Sequence[int] | None = None,
        schedule: str = "",
    ) -> None:
        """Execute events; with `around`, all in that iteration.

        With a `schedule`, branches are expected to take the successors that the visits have; without, the successors
        are recorded in `branches`. `sent` keeps the bytes that exchanges have read, by row and visit; `numbers` are
        the numbers of the visits in it.
        """
        machine, moving = self.machine, self.prepared.operands.strided.moving
        rows, senders, visits = steps.row, steps.senders, steps.visits
        sent = {} if sent is None else sent

        def key(item: int) -> tuple[int, int]:
            return rows[item], steps.visit[item] if numbers is None else numbers[steps.visit[item]]

        begun = self.events
        for step, (item, effect) in enumerate(zip(steps.item, steps.effect, strict=True), begun):
            if step % _PROGRESS_EVERY == 0:
                self._report(step, begun + len(steps))
            row = rows[item]
            if row not in moving:
                where: Iteration = ()
            else:
                where = visits.around(steps.visit[item]) if around is None else around
            if effect == Effect.BOTH:
                machine.execute(row, where)
                if self.watch is not None:
                    self.watch(row, where)
            elif effect == Effect.READS:
                sent[key(item)] = machine.read(row, where)
            elif effect == Effect.WRITES:
                if item in senders:
                    machine.write(row, sent[key(senders[item])], where)
                    if self.watch is not None:
                        self.watch(row, where)
            elif effect == Effect.BRANCHES:
                takes = machine.takes(row)
                if not schedule:
                    self.branches[row] = takes
                elif takes != visits.takes(steps.visit[item], steps.core[item]):
                    self._report_divergence(row, visits.around(steps.visit[item]), takes, schedule)
            if self.wrote is not None and effect in (Effect.BOTH, Effect.WRITES):
                self.wrote(item, self.memory)
        self._report_loads(schedule)
        self.events += len(steps)

    def count(self, instructions: int, barriers: int) -> None:
        """Count what is complete."""
        self.instructions += instructions
        self.barriers += barriers

    def outputs(self) -> dict[str, npt.NDArray[Any]]:
        """The outputs of every core, views included; reports bytes that were never written, and claims that fail."""
        self._report(self.events, self.events)
        prepared, result = self.prepared, {}
        with within_memory(prepared.layout.size):
            for row in locations_of_kind(prepared.program, prepared.functions, Kind.OUTPUT, Kind.INOUT, views=True):
                dtype, shape = element_type(prepared.program, row)
                data = self.memory.read(prepared.operands.whole(row)).copy()
                result[qualified_name(prepared.program, row)] = data.view(dtype).reshape(shape)
                undefined = self.memory.undefined(prepared.operands.whole(row))
                if undefined is not None and prepared.program.owner[row] == row:
                    first = prepared.layout.byte_of(row, undefined[1])
                    self.found.add(
                        "output-not-written",
                        Severity.ERROR,
                        f"{undefined[0]} of its {len(data)} bytes were never written, the first at byte {first}",
                        location_label(prepared.program, row),
                    )
            self.found.extend(self.claims.findings(self._held))
        self.found.extend(self.machine.remarks())
        return result

    def _held(self, location: int) -> Bytes | None:
        """The bytes of a location; None where some hold no value."""
        whole = self.prepared.operands.whole(location)
        return None if self.memory.undefined(whole) is not None else self.memory.read(whole)

    def _report(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)

    def _report_divergence(self, row: int, around: Iteration, takes: bool, schedule: str) -> None:
        code = self.prepared.code
        if row in self.branches:
            return
        self.branches[row] = takes
        does = code.effect(row, takes)
        self.found.add(
            "missing-dependence",
            Severity.ERROR,
            f"under `{schedule}` {code.named(row)}{code.iteration(row, around)} {does}, unlike under `list`; "
            "the run continues as under `list`",
            code.label(row),
        )

    def _report_loads(self, schedule: str) -> None:
        """Loads of registers that found other values than in program order."""
        code = self.prepared.code
        for row, (wanted, found) in self.registers.diverged.items():
            self.found.add(
                "missing-dependence",
                Severity.ERROR,
                f"under `{schedule}` {code.named(row)} loads {found} into a register, and {wanted} under `list`; "
                "the run continues as under `list`",
                code.label(row),
            )
        self.registers.diverged.clear()


def _initial_memory(prepared: Prepared, inputs: Values | None, seed: int, other: bool) -> Memory:
    """Memory with constants and inputs in place; `other`: with other bytes in what NKI programs never write."""
    memory = Memory(prepared.layout.size, prepared.operands)
    if has_nki(prepared.program):
        fill_fresh(prepared.program, prepared.functions, prepared.layout, memory.bytes, other)
    for row, data in initial_bytes(prepared, inputs, seed).items():
        memory.write(prepared.operands.whole(row), data)
    return memory


def initial_bytes(prepared: Prepared, inputs: Values | None, seed: int) -> dict[int, Bytes]:
    """The contents of constants and inputs, by location. Raises `bad-input` as `input_bytes` does."""
    program, functions = prepared.program, prepared.functions
    contents = input_bytes(program, functions, inputs, seed)
    for row in locations_of_kind(program, functions, Kind.CONST):
        text = program.strings.get(int(program.locations.data[row]))
        if text is None:
            bad_input("constant has no data", location_label(program, row))
        contents[row] = np.frombuffer(base64.b64decode(text), np.uint8)
    return contents
