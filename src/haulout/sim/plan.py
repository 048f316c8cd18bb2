"""What runs of a program share: its code, its memory's layout, and, once the branches are known, its events."""

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
from haulout.sim.memory.layout import Layout, lay_out
from haulout.sim.memory.operands import Operands
from haulout.sim.memory.strided_operands import StridedOperands
from haulout.support.diagnostics import bad_input

_MOST_MEMORY = 2**46
"""Bytes; beyond it NumPy's own limits come into view."""


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
    """What executes, and what waits for what."""

    trace: Trace
    graph: EventGraph


def prepare(program: Program) -> Prepared:
    """What every run of a program needs. Raises `HauloutError` when it is unsound or not supported."""
    check_sound(program)
    functions = _entries(program)
    code = Code(program, find_sections(program, functions.tolist()))
    waits = find_waits(code)
    layout = lay_out(program, functions)
    with within_memory(layout.size):
        operands = Operands(program, layout, StridedOperands(code))
    check_patterns_known(program, operands.regions, code.run)
    return Prepared(program, functions, code, waits, find_semaphores(code), layout, operands)


def plan_visits(
    prepared: Prepared, visits: Visits, tally: Tally | None = None, going_on: Collection[int] = ()
) -> Plan:
    """The events of what ran, from some state of the semaphores on; cores that are `going_on` may come to more.

    Raises `HauloutError` where cores cannot meet.
    """
    trace = trace_visits(prepared.code, visits)
    semaphores = prepared.semaphores
    tally = tally or nothing_counted(semaphores)
    return Plan(trace, event_graph(trace, prepared.waits, semaphores, tally, going_on))


def plan_section(
    prepared: Prepared,
    section: int,
    cores: int | None = None,
    tally: Tally | None = None,
    going_on: Collection[int] = (),
) -> Plan:
    """The events of one section, when everything before it is over; `cores` is a mask, None: all."""
    every = mask_of(tuple(range(prepared.program.lnc)))
    return plan_visits(prepared, one_visit(section, every if cores is None else cores), tally, going_on)


@contextmanager
def within_memory(size: int) -> Iterator[None]:
    """Turn an allocation that fails into a diagnostic; `size`: bytes of simulated memory."""
    message = f"the program has {size} bytes of simulated memory; running it takes more than this machine has"
    if size > _MOST_MEMORY:
        bad_input(message)
    try:
        yield
    except MemoryError:
        bad_input(message)


def _entries(program: Program) -> Ids:
    starts = program.starts("functions", "modules")
    for core in range(len(program.modules)):
        if starts[core] == starts[core + 1]:
            bad_input(f"the module of core {core} has no function to run")
    return starts[:-1].astype(np.int32)
