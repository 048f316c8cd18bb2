"""Simulating a program: its outputs under one schedule.

The recipe: lay out the locations, fill in constants and inputs. Then the *reference* (`reference.py`) executes the
program section by section, each section's events in the order of `list`, and takes the branches as their conditions
say. For the schedule `list` that is all. For another schedule the reference has found what runs; all its events then
happen once more, in the order of that schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.program import Program
from haulout.sim.events.schedules import ListOrder, Schedule, event_order, parse_schedule
from haulout.sim.execution import Execution, Progress, Steps, Wrote
from haulout.sim.flow.visits import MAX_INSTRUCTIONS, Visits
from haulout.sim.inputs import Values
from haulout.sim.nki.registers import RegisterLog
from haulout.sim.plan import Plan, Prepared, plan_visits, prepare, within_memory
from haulout.sim.reference import Reference
from haulout.sim.unwritten import Written, find_unwritten, once_per_line, stopped
from haulout.support.blas import one_thread
from haulout.support.diagnostics import Diagnostic, HauloutError
from haulout.support.html import html_table

MAX_LISTED = 20
"""Outputs in a table of a notebook."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts of a run."""

    instructions: int
    """Instructions executed, on all cores."""
    events: int
    """Steps of the schedule; these include branches and the deliveries of signals to other cores."""
    barriers: int
    """Barriers passed; one of several cores counts once."""
    memory_bytes: int
    """Bytes of simulated memory."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The outputs and findings of a run."""

    outputs: dict[str, npt.NDArray[Any]]
    """`MODULE/LOCATION` -> value, for every output and inout location of every core."""
    diagnostics: tuple[Diagnostic, ...]
    """`uninitialized-read` and `output-not-written`, where the run continued with zeros, and `unequal-bytes`."""
    statistics: Statistics
    schedule: str
    """The schedule, as `parse_schedule` reads it."""

    def __repr__(self) -> str:
        return f"<SimulationResult of {len(self.outputs)} outputs, schedule {self.schedule}>"

    def _repr_html_(self) -> str:
        rows = [(name, f"{each.dtype}{list(each.shape)}") for name, each in self.outputs.items()][:MAX_LISTED]
        rest = len(self.outputs) - len(rows)
        below = f"{self.statistics.instructions:,} instructions, {self.statistics.barriers:,} barriers"
        below += f", {len(self.diagnostics)} findings" + (f"; and {rest} more outputs" if rest else "")
        return html_table(f"outputs, schedule {self.schedule}", ("name", "type"), rows, below)


def simulate(
    program: Program,
    inputs: Values | None = None,
    *,
    seed: int = 0,
    schedule: Schedule | str = "list",
    max_instructions: int = MAX_INSTRUCTIONS,
    progress: Progress | None = None,
) -> SimulationResult:
    """Run a program and return the outputs of every core.

    `inputs` maps `MODULE/LOCATION`, or `LOCATION` for every core, to arrays of exactly the location's dtype
    and shape; without it the inputs are drawn from `seed` (see `inputs.py`). `schedule` is one of
    `schedules.py`, or its text: `list`, `random:SEED`, `slowest:CORE:ENGINE`. Loops may execute
    `max_instructions` instructions on all cores together.

    Raises `HauloutError`: `bad-input` for inputs or instructions that do not fit and for loops that do not end,
    `barrier-mismatch` and `deadlock` when the program cannot run to its end.
    """
    schedule = parse_schedule(schedule) if isinstance(schedule, str) else schedule
    prepared = prepare(program)
    registers = RegisterLog()
    visits, execution = _reference(prepared, inputs, seed, max_instructions, progress, registers)
    result = result_of(execution, ListOrder())
    if isinstance(schedule, ListOrder) and not execution.machine.fresh:
        return result
    plan = plan_visits(prepared, visits)
    fresh = sorted(execution.machine.fresh)
    found = _find_unwritten(prepared, plan, inputs, seed, registers, fresh) if fresh else []
    if not isinstance(schedule, ListOrder):
        result = run(prepared, plan, inputs, seed=seed, schedule=schedule, progress=progress, registers=registers)
    return replace(result, diagnostics=(*result.diagnostics, *found))


def run_reference(
    prepared: Prepared,
    inputs: Values | None = None,
    *,
    seed: int = 0,
    limit: int = MAX_INSTRUCTIONS,
    progress: Progress | None = None,
    registers: RegisterLog | None = None,
) -> tuple[Visits, SimulationResult]:
    """The run in program order: its visits and its result. `registers` takes the values of scalar registers."""
    visits, execution = _reference(prepared, inputs, seed, limit, progress, registers)
    return visits, result_of(execution, ListOrder())


def _reference(
    prepared: Prepared,
    inputs: Values | None,
    seed: int,
    limit: int,
    progress: Progress | None,
    registers: RegisterLog | None,
) -> tuple[Visits, Execution]:
    execution = Execution(prepared, inputs, seed, progress, registers)
    with executing(prepared):
        return Reference(prepared, execution, limit).run(), execution


def _find_unwritten(
    prepared: Prepared, plan: Plan, inputs: Values | None, seed: int, registers: RegisterLog, rows: list[int]
) -> list[Diagnostic]:
    """What depends on memory that was never written, which some rows read: see `unwritten.py`."""
    steps = Steps(plan, event_order(plan.trace, plan.graph, ListOrder()))
    runs = []
    for other in (False, True):
        written = Written(prepared, plan)
        execution = Execution(prepared, inputs, seed, None, registers.again(), written, other)
        try:
            with executing(prepared):
                execution.happen(steps, schedule="list")
        except HauloutError as error:
            return [stopped(prepared, rows, error)]
        runs.append((execution, written))
    turned = [each for each in runs[1][0].found if each.code == "missing-dependence"]
    if turned:
        return [stopped(prepared, rows, HauloutError(*turned))]
    return once_per_line(find_unwritten(prepared, plan, rows, *runs))


def run(
    prepared: Prepared,
    plan: Plan,
    inputs: Values | None = None,
    *,
    seed: int = 0,
    schedule: Schedule,
    progress: Progress | None = None,
    registers: RegisterLog | None = None,
    wrote: Wrote | None = None,
) -> SimulationResult:
    """The run of a plan under a schedule. `registers`: the values of scalar registers in program order; without them
    the schedule must be `list`. `wrote`: see `execution.py`.
    """
    steps = Steps(plan, event_order(plan.trace, plan.graph, schedule))
    known = None if registers is None else registers.again()
    execution = Execution(prepared, inputs, seed, progress, known, wrote)
    with executing(prepared):
        execution.happen(steps, schedule=str(schedule))
        execution.count(steps.instructions, steps.barriers)
    return result_of(execution, schedule)


@contextmanager
def executing(prepared: Prepared) -> Iterator[None]:
    """One BLAS thread: more gain nothing on small products, and wait for each other on a busy machine."""
    with within_memory(prepared.layout.size), one_thread(), np.errstate(all="ignore"):
        yield


def result_of(execution: Execution, schedule: Schedule) -> SimulationResult:
    """The outputs, findings and counts of a run that has ended."""
    outputs = execution.outputs()
    statistics = Statistics(
        execution.instructions, execution.events, execution.barriers, execution.prepared.layout.size
    )
    return SimulationResult(outputs, tuple(execution.found), statistics, str(schedule))
