"""Simulating a program: its outputs under one schedule.

The recipe: trace what each core executes; build the graph of events; lay the locations out; fill in constants
and inputs; then let the events happen in the order of the schedule, and read the outputs.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.enums import Kind
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.ir.verify import check_sound, location_label
from haulout.sim.events import Effect, EventGraph, event_graph
from haulout.sim.inputs import Values, element_type, input_bytes, locations_of_kind, qualified_name
from haulout.sim.layout import Layout, lay_out
from haulout.sim.machine import Machine, check_patterns_known
from haulout.sim.memory import Memory
from haulout.sim.operands import Operands
from haulout.sim.rendezvous import senders
from haulout.sim.schedules import Schedule, event_order, parse_schedule
from haulout.sim.trace import Trace, trace_program
from haulout.support.diagnostics import Diagnostic, Diagnostics, Severity, bad_input

Progress = Callable[[int, int], None]
"""Called now and then with what is done and what there is: events of a run, schedules of a comparison."""

_PROGRESS_EVERY = 256


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a run did."""

    instructions: int
    """Instructions executed, on all cores."""
    events: int
    """Steps of the schedule."""
    barriers: int
    """Barriers passed; one that several cores attend counts once."""
    memory_bytes: int
    """Bytes of simulated memory."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a run produced."""

    outputs: dict[str, npt.NDArray[Any]]
    """`MODULE/LOCATION` -> value, for every output and inout location of every core."""
    diagnostics: tuple[Diagnostic, ...]
    """`uninitialized-read` and `output-not-written`; the run went on with zeros."""
    statistics: Statistics
    schedule: str
    """The schedule, as `parse_schedule` reads it."""

    def __repr__(self) -> str:
        return f"<SimulationResult of {len(self.outputs)} outputs, schedule {self.schedule}>"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything about a program that all of its runs share."""

    program: Program
    trace: Trace
    graph: EventGraph
    layout: Layout
    operands: Operands
    senders: dict[int, int]
    """For each item of the trace that receives: the item whose data it receives."""


def prepare(program: Program) -> Prepared:
    """What every run of a program needs. Raises `HauloutError`: unsound, unsupported, or cores that cannot meet."""
    check_sound(program)
    trace = trace_program(program)
    graph = event_graph(program, trace)
    layout = lay_out(program, trace.functions)
    operands = Operands(program, layout)
    check_patterns_known(program, operands.regions, trace.instruction)
    return Prepared(program, trace, graph, layout, operands, senders(program, trace))


def simulate(
    program: Program,
    inputs: Values | None = None,
    *,
    seed: int = 0,
    schedule: Schedule | str = "list",
    progress: Progress | None = None,
) -> SimulationResult:
    """Run a program and return the outputs of every core.

    `inputs` maps `MODULE/LOCATION`, or `LOCATION` for every core, to arrays of exactly the location's dtype
    and shape; without it the inputs are drawn from `seed` (see `inputs.py`). `schedule` is one of
    `schedules.py`, or its text: `list`, `random:SEED`, `slowest:CORE:ENGINE`.

    Raises `HauloutError`: `bad-input` for inputs or instructions that do not fit, `barrier-mismatch` and
    `deadlock` when the program cannot run to its end.
    """
    return run(prepare(program), inputs, seed=seed, schedule=schedule, progress=progress)


def run(
    prepared: Prepared,
    inputs: Values | None = None,
    *,
    seed: int = 0,
    schedule: Schedule | str = "list",
    progress: Progress | None = None,
) -> SimulationResult:
    """`simulate` for a program that is prepared."""
    program, trace, graph = prepared.program, prepared.trace, prepared.graph
    if isinstance(schedule, str):
        schedule = parse_schedule(schedule)
    order = event_order(program, trace, graph, schedule)
    memory = _initial_memory(prepared, inputs, seed)
    found = Diagnostics()
    machine = Machine(program, memory, prepared.layout, found)
    _happen(prepared, machine, order, progress)
    outputs = _outputs(prepared, memory, found)
    barriers = int((graph.effect == Effect.NOTHING).sum())
    statistics = Statistics(len(trace), len(graph), barriers, prepared.layout.size)
    return SimulationResult(outputs, tuple(found), statistics, str(schedule))


def _happen(prepared: Prepared, machine: Machine, order: Ids, progress: Progress | None) -> None:
    """Let the events happen."""
    graph = prepared.graph
    items, effects = graph.item[order].tolist(), graph.effect[order].tolist()
    instructions = prepared.trace.instruction.tolist()
    sent: dict[int, Any] = {}
    for step, (item, effect) in enumerate(zip(items, effects, strict=True)):
        if progress is not None and step % _PROGRESS_EVERY == 0:
            progress(step, len(order))
        if effect == Effect.BOTH:
            machine.execute(instructions[item])
        elif effect == Effect.READS:
            sent[item] = machine.read(instructions[item])
        elif effect == Effect.WRITES and item in prepared.senders:
            machine.write(instructions[item], sent[prepared.senders[item]])
    if progress is not None:
        progress(len(order), len(order))


def _initial_memory(prepared: Prepared, inputs: Values | None, seed: int) -> Memory:
    """Memory with constants and inputs in place."""
    program, functions = prepared.program, prepared.trace.functions
    try:
        memory = Memory(prepared.layout.size, prepared.operands)
    except (MemoryError, ValueError):
        bad_input(f"the program needs {prepared.layout.size} bytes of simulated memory, which this machine lacks")
    contents = input_bytes(program, functions, inputs, seed)
    for row in locations_of_kind(program, functions, Kind.CONST):
        text = program.strings.get(int(program.locations.data[row]))
        if text is None:
            bad_input("a constant without data", location_label(program, row))
        contents[row] = np.frombuffer(base64.b64decode(text), np.uint8)
    for row, data in contents.items():
        memory.write(prepared.operands.whole(row), data)
    return memory


def _outputs(prepared: Prepared, memory: Memory, found: Diagnostics) -> dict[str, npt.NDArray[Any]]:
    program = prepared.program
    result = {}
    for row in locations_of_kind(program, prepared.trace.functions, Kind.OUTPUT, Kind.INOUT):
        dtype, shape = element_type(program, row)
        data = memory.read(prepared.operands.whole(row)).copy()
        result[qualified_name(program, row)] = data.view(dtype).reshape(shape)
        undefined = memory.undefined(prepared.operands.whole(row))
        if undefined is not None:
            first = prepared.layout.byte_of(row, undefined[1])
            found.add(
                "output-not-written",
                Severity.ERROR,
                f"{undefined[0]} of its {len(data)} bytes were never written, the first at byte {first}",
                location_label(program, row),
            )
    return result
