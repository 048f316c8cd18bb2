"""What the cores did and when, in the format of `chrome://tracing` and Perfetto (trace events, JSON).

The program is one process, each core a thread of it, or each queue of a core. The category of an event is
`instruction`, `signal`, or `wait`: a barrier, or a wait for a semaphore, which lasts as long as the thread waits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.sim.flow.code import QUEUES, line_text

Kind: TypeAlias = Literal["instruction", "wait", "signal"]


class Span(NamedTuple):
    """A step of a thread."""

    core: int
    engine: int
    """The queue that the thread runs; NONE: all of the core's."""
    row: int
    """Of the instructions."""
    kind: Kind
    begin: int
    """Nanoseconds from the start of the run."""
    end: int


def trace_text(program: Program, spans: Sequence[Span]) -> str:
    """The events as JSON, times in microseconds."""
    threads = {(core, NONE): (core, f"core {core}") for core in range(program.lnc)}
    for core, engine in sorted({(span.core, span.engine) for span in spans if span.engine != NONE}):
        threads.pop((core, NONE), None)
        threads[core, engine] = core * QUEUES + engine, f"core {core} {line_text(engine)}"
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": program.name}},
        *(
            {"ph": "M", "pid": 0, "tid": tid, "name": "thread_name", "args": {"name": name}}
            for tid, name in threads.values()
        ),
    ]
    for core, engine, row, kind, begin, end in spans:
        opcode = program.strings[int(program.instructions.opcode[row])]
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": threads[core, engine][0],
                "ts": begin / 1000,
                "dur": (end - begin) / 1000,
                "name": program.instruction_name(row),
                "cat": kind,
                "args": {"opcode": opcode},
            }
        )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":")) + "\n"
