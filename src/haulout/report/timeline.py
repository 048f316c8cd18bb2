"""Timelines in the format of Perfetto and `chrome://tracing` (trace events, JSON): what each line does, and when.

Cores are processes, their engines and queues threads. An instruction is a slice; so is the time that a barrier or an
exchange keeps a line waiting. Flows lead from the line that comes last to those that waited for it, and from a sender
to its receiver. The shared memory is a process of its own, with the live bytes of DRAM as a counter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from haulout.analysis.durations import F64
from haulout.analysis.makespan import Estimate, barrier_groups, makespan, partners
from haulout.ir.enums import LINES, NONE, Kind, Space
from haulout.ir.labels import block_name
from haulout.ir.program import Program
from haulout.runtime.spans import Span
from haulout.sim.flow.code import BRANCH, line_text
from haulout.target.model import Target

LOOPS = LINES + 1
"""The thread of a core that shows its loops."""
WHOLE = LINES + 2
"""The thread of a core whose engines share one."""


class Slice(NamedTuple):
    """A stretch of time of one thread. Times are in microseconds."""

    core: int
    line: int
    name: str
    category: str
    begin: float
    end: float
    args: dict[str, Any]


class Flow(NamedTuple):
    """An arrow from a moment of one thread to a moment of another."""

    name: str
    source: tuple[int, int, float]
    """Core, line, time."""
    target: tuple[int, int, float]


def trace_text(
    name: str, cores: int, slices: Sequence[Slice], flows: Sequence[Flow] = (), live: Sequence[tuple[float, int]] = ()
) -> str:
    """The events as JSON; `live` are moments and the bytes of DRAM that are live from then on.

    Processes are numbered from 1 and threads behind them, no number twice: 0 is an idle thread to Perfetto, and
    threads of one number may be one thread.
    """
    lanes = _lanes(slices)
    used = sorted({(each.core, each.line, lane) for each, lane in zip(slices, lanes, strict=True)})
    thread = {key: {"pid": key[0] + 1, "tid": number} for number, key in enumerate(used, cores + 2)}
    events: list[dict[str, Any]] = []
    for core in range(cores):
        events += _named("process", {"pid": core + 1}, f"{name}: core {core}", core)
        for key in used:
            if key[0] == core:
                title = _line_name(key[1]) + (f", other arm {key[2]}" if key[2] else "")
                events += _named("thread", thread[key], title, key[1])
    for (core, line, title, category, begin, end, args), lane in zip(slices, lanes, strict=True):
        times = {"ts": _moment(begin), "dur": (_nanoseconds(end) - _nanoseconds(begin)) / 1000}
        events.append({"ph": "X", **thread[core, line, lane], **times, "name": title, "cat": category, "args": args})
    waits = _waits(slices, lanes) if any(lanes) else {}
    for number, (title, source, target) in enumerate(flows):
        for phase, (core, line, time) in (("s", source), ("f", target)):
            lane = waits.get((core, line, time), 0)
            place = {"ph": phase, **thread[core, line, lane], "ts": _moment(time), "id": number}
            events.append({**place, "name": title, "cat": "flow", **({"bp": "e"} if phase == "f" else {})})
    dram = {"pid": cores + 1}
    if live:
        events += _named("process", dram, f"{name}: DRAM", cores)
    for time, size in live:
        events.append({"ph": "C", **dram, "ts": _moment(time), "name": "live DRAM", "args": {"bytes": size}})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, separators=(",", ":")) + "\n"


def _lanes(slices: Sequence[Slice]) -> list[int]:
    """A number for each slice, so that slices of one line and one number follow each other.

    The arms of a fork begin at one time in an estimate, and Perfetto drops slices that overlap. Loops are inside each
    other, which it shows.
    """
    lanes = [0] * len(slices)
    ends: dict[tuple[int, int], list[int]] = {}
    order = sorted(range(len(slices)), key=lambda at: (slices[at].begin, at))
    for at in order:
        each = slices[at]
        if each.line == LOOPS:
            continue
        begin, end = _nanoseconds(each.begin), _nanoseconds(each.end)
        free = ends.setdefault((each.core, each.line), [])
        lane = next((number for number, last in enumerate(free) if last <= begin), len(free))
        free[lane : lane + 1] = [end]
        lanes[at] = lane
    return lanes


def _waits(slices: Sequence[Slice], lanes: Sequence[int]) -> dict[tuple[int, int, float], int]:
    """The number of the wait that begins or ends on a line at a time."""
    found: dict[tuple[int, int, float], int] = {}
    for each, lane in zip(slices, lanes, strict=True):
        if each.category == "wait":
            found.setdefault((each.core, each.line, each.begin), lane)
            found.setdefault((each.core, each.line, each.end), lane)
    return found


def _nanoseconds(time: float) -> int:
    """Perfetto counts nanoseconds. A begin and a length that are rounded apart can make an end that is one later than
    the next begin, and Perfetto drops slices that overlap; so moments are rounded, and lengths are their differences.
    """
    return round(time * 1000)


def _moment(time: float) -> float:
    """The time, a whole number of nanoseconds."""
    return _nanoseconds(time) / 1000


def _named(what: str, place: dict[str, int], name: str, order: int) -> Iterator[dict[str, Any]]:
    event = {"ph": "M", **place}
    yield {**event, "name": f"{what}_name", "args": {"name": name}}
    yield {**event, "name": f"{what}_sort_index", "args": {"sort_index": order}}


def _line_name(line: int) -> str:
    return {LOOPS: "loops", WHOLE: "core"}.get(line) or line_text(line)


# -- what ran --------------------------------------------------------------------------------------------------------


def run_trace(program: Program, spans: Sequence[Span]) -> str:
    """The timeline of `haulout run`: a thread a core, or a thread a queue. The category of a slice is `instruction`,
    `signal`, or `wait`: a barrier, or a wait for a semaphore.
    """
    opcode = program.instructions.opcode
    slices = [
        Slice(
            span.core,
            WHOLE if span.engine == NONE else span.engine,
            program.instruction_name(span.row),
            span.kind,
            span.begin / 1000,
            span.end / 1000,
            {"opcode": program.strings[int(opcode[span.row])]},
        )
        for span in spans
    ]
    return trace_text(program.name, program.lnc, slices)


# -- what is estimated -----------------------------------------------------------------------------------------------


def estimated_trace(program: Program, target: Target) -> str:
    """The timeline of the estimate (`analysis/makespan.py`); its end is the estimated makespan.

    Of a loop the first iteration is shown, and a slice on the thread `loops` until all iterations are over.
    """
    found = makespan(program, target)
    slices = [*_instructions(program, found), *_loops(program, found)]
    if max((each.end for each in slices), default=0.0) < found.makespan:
        slices.append(Slice(0, BRANCH, "last branch", "branch", found.makespan, found.makespan, {}))
    return trace_text(program.name, program.lnc, slices, list(_flows(program, found)), _live(program, found))


def _instructions(program: Program, found: Estimate) -> Iterator[Slice]:
    rows, strings = program.instructions, program.strings
    meets = found.arrived >= 0
    columns = np.where(meets, found.arrived, found.begin), found.finish, rows.engine, rows.opcode, rows.loc, meets
    listed = zip(*(column.tolist() for column in columns), strict=True)
    for row, (begin, end, line, opcode, loc, waits) in enumerate(listed):
        if end < 0 or (end == begin and not waits):
            continue  # it never runs, or takes no time
        args = {"opcode": strings[opcode], **({"loc": strings[loc]} if loc != NONE else {})}
        core, name = int(program.instruction_core[row]), program.instruction_name(row)
        yield Slice(core, line, name, "wait" if waits else "instruction", begin, end, args)


def _loops(program: Program, found: Estimate) -> Iterator[Slice]:
    """Loops are numbered alike on all cores."""
    for at, loop in enumerate(program.structure.loops.values()):
        number = at % len(found.began)
        times = "unknown" if loop.trip == NONE else loop.trip
        begin, end = float(found.began[number]), float(found.ended[number])
        core = int(program.block_core[loop.header])
        yield Slice(core, LOOPS, block_name(program, loop.header), "loop", begin, end, {"iterations": times})


def _flows(program: Program, found: Estimate) -> Iterator[Flow]:
    """From the line that comes last to a barrier to the others; from the sender of an exchange to its receiver."""
    engine, core = program.instructions.engine, program.instruction_core
    groups, barriers = barrier_groups(program), program.barriers.instruction
    by_group = barriers[np.argsort(groups.of, kind="stable")]
    pairs = []
    for rows in np.split(by_group, np.cumsum(groups.size)[:-1]) if len(by_group) else []:
        last = rows[np.argmax(found.arrived[rows])]
        pairs += [("barrier", last, row) for row in rows if row != last]
    receiver, _ = partners(program)
    pairs += [("sendrecv", row, receiver[row]) for row in np.flatnonzero(receiver != NONE)]
    for name, one, other in pairs:
        begin, end = float(found.arrived[one]), float(found.finish[other])
        if begin >= 0 and end >= 0:
            yield Flow(name, (int(core[one]), int(engine[one]), begin), (int(core[other]), int(engine[other]), end))


def _live(program: Program, found: Estimate) -> list[tuple[float, int]]:
    """What a loop touches lives as long as the loop, of which the estimate has one iteration."""
    structure = program.structure
    begin, end = np.where(found.arrived >= 0, found.arrived, found.begin), found.finish.copy()
    outermost = [structure.loops_around(block)[:1] for block in range(len(program.blocks))]
    number = {loop: at % len(found.began) for at, loop in enumerate(structure.loops)}
    inside = np.array([number[each[0]] if each else NONE for each in outermost], np.int32)[program.instructions.block]
    looped = inside != NONE
    begin[looped], end[looped] = found.began[inside[looped]], found.ended[inside[looped]]
    return live_bytes(program, begin, end, found.makespan)


# -- what is live ----------------------------------------------------------------------------------------------------


def live_bytes(program: Program, begin: F64, end: F64, makespan: float) -> list[tuple[float, int]]:
    """When the live bytes of DRAM change, and to how many.

    `begin` and `end` are of each instruction: the first moment at which it runs, and the last; `end` is negative of
    one that never runs. A location lives from its first access to its last, an input from the start, an output to
    the end.
    """
    rows, blocks, starts = program.locations, program.blocks, program.starts("instructions", "blocks")
    # A condition is read when its block ends.
    deciding = np.flatnonzero((blocks.cond != NONE) & (np.diff(starts) > 0))
    owner = program.owner[np.append(program.accesses.location, blocks.cond[deciding])]
    instruction = np.append(program.accesses.instruction, starts[deciding + 1] - 1)
    known = (owner != NONE) & (end[instruction] >= 0)
    owner, instruction = owner[known], instruction[known]
    first, last = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    np.minimum.at(first, owner, begin[instruction])
    np.maximum.at(last, owner, end[instruction])
    whole = (rows.kind == Kind.INPUT) | (rows.kind == Kind.INOUT) | (rows.kind == Kind.CONST)
    first[whole] = 0.0
    last[whole | (rows.kind == Kind.OUTPUT)] = makespan
    lives = np.flatnonzero((rows.space <= Space.DRAM_SHARED) & (rows.remote_name == NONE) & (last >= first))
    times, which = np.unique(np.append(first[lives], last[lives]), return_inverse=True)
    change = np.bincount(which, np.append(rows.size[lives], -rows.size[lives]), len(times))
    return list(zip(times.tolist(), np.cumsum(change).astype(np.int64).tolist(), strict=True))
