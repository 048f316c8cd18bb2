"""The plan of a run: the code, the layout of memory and, once the branches are known, the events."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.ir.verify import check_sound
from haulout.sim.events.graph import EventGraph, event_graph
from haulout.sim.events.semaphores import Semaphores, Tally, find_semaphores, nothing_counted
from haulout.sim.events.waits import Waits, find_waits
from haulout.sim.flow.code import Code
from haulout.sim.flow.sections import find_sections
from haulout.sim.flow.trace import Trace, trace_visits
from haulout.sim.flow.visits import Visits, mask_of, one_visit
from haulout.sim.machine import check_patterns_known
from haulout.sim.memory.layout import Layout, lay_out, refuse_size
from haulout.sim.memory.operands import Operands
from haulout.sim.memory.strided_operands import StridedOperands
from haulout.support.diagnostics import bad_input


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything about a program that does not depend on its inputs."""

    program: Program
    functions: Ids
    """The entry function of each core."""
    code: Code
    waits: Waits
    semaphores: Semaphores
    layout: Layout
    operands: Operands


@dataclass(frozen=True, slots=True)
class Plan:
    """A trace and its events."""

    trace: Trace
    graph: EventGraph


def prepare(program: Program) -> Prepared:
    """What every run of a program needs. Raises `HauloutError` when the program is unsound or unsupported."""
    check_sound(program)
    functions = _entries(program)
    code = Code(program, find_sections(program, functions.tolist()))
    waits = find_waits(code)
    layout = lay_out(program, functions)
    with within_memory(layout.size):
        operands = Operands(program, layout, StridedOperands(code))
    check_patterns_known(program, operands.extents, code.run)
    return Prepared(program, functions, code, waits, find_semaphores(code), layout, operands)


def plan_visits(
    prepared: Prepared, visits: Visits, tally: Tally | None = None, unfinished: Collection[int] = ()
) -> Plan:
    """The events of some visits that start with a state of the semaphores; `unfinished` cores may execute more.

    Raises `barrier-mismatch`, and `deadlock` for a `sendrecv` without partner.
    """
    trace = trace_visits(prepared.code, visits)
    semaphores = prepared.semaphores
    tally = tally or nothing_counted(semaphores)
    return Plan(trace, event_graph(trace, prepared.waits, semaphores, tally, unfinished))


def plan_section(
    prepared: Prepared,
    section: int,
    cores: int | None = None,
    tally: Tally | None = None,
    unfinished: Collection[int] = (),
) -> Plan:
    """The events of one section after everything before it; `cores` is a mask, None: all."""
    lnc = prepared.program.lnc
    mask = mask_of(tuple(range(lnc))) if cores is None else cores
    return plan_visits(prepared, one_visit(section, mask, lnc), tally, unfinished)


@contextmanager
def within_memory(size: int) -> Iterator[None]:
    """Turn a failed allocation into a diagnostic; `size`: bytes of simulated memory."""
    try:
        yield
    except MemoryError:
        refuse_size(size)


def _entries(program: Program) -> Ids:
    starts = program.starts("functions", "modules")
    for core in range(len(program.modules)):
        if starts[core] == starts[core + 1]:
            bad_input(f"the module of core {core} has no function")
    return starts[:-1].astype(np.int32)
