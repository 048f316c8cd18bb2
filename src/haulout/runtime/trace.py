"""What the cores did and when, in the format of `chrome://tracing` and Perfetto (trace events, JSON).

The program is one process, each core a thread of it. The category of an event is `instruction`, `signal`, or `wait`:
a barrier, or a wait for a semaphore, which lasts as long as the core waits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from haulout.ir.program import Program

Kind: TypeAlias = Literal["instruction", "wait", "signal"]


class Span(NamedTuple):
    """A step of a core."""

    core: int
    row: int
    """Of the instructions."""
    kind: Kind
    begin: int
    """Nanoseconds from the start of the run."""
    end: int


def trace_text(program: Program, spans: Sequence[Span]) -> str:
    """The events as JSON, times in microseconds."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": program.name}},
        *(
            {"ph": "M", "pid": 0, "tid": core, "name": "thread_name", "args": {"name": f"core {core}"}}
            for core in range(program.lnc)
        ),
    ]
    for core, row, kind, begin, end in spans:
        opcode = program.strings[int(program.instructions.opcode[row])]
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": core,
                "ts": begin / 1000,
                "dur": (end - begin) / 1000,
                "name": program.instruction_name(row),
                "cat": kind,
                "args": {"opcode": opcode},
            }
        )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":")) + "\n"
