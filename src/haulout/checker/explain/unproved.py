"""What is said when not every way through loops and branches was looked at."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.checker.model import Function
from haulout.checker.paths.loops import block_rows
from haulout.ir.enums import NONE
from haulout.ir.labels import place
from haulout.support.diagnostics import Diagnostic, Label, Severity, Subject

_MOST = 8
"""Blocks that are shown."""


def unproved_paths(function: Function, blocks: Iterable[int], looked: int, total: int) -> list[Diagnostic]:
    """`unproved-paths`, when ways through some headers and forks, given by number, were left out."""
    missing, nest, program = sorted(blocks), function.nest, function.program
    if not missing or nest is None:
        return []
    names, labels = [], []
    rows = block_rows(program, function.rows[0])
    for block in missing:
        is_loop = block in nest.headers
        name = nest.loops[nest.headers[block]].name if is_loop else nest.forks[nest.forking[block]].names[0]
        names.append(name)
        what = f"the loop at {name} runs an unknown number of times" if is_loop else f"the branch at {name}"
        span = place(program, NONE, int(program.blocks.text_line[rows.start + block]))
        labels.append(Label(what, span))
    shown = ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
    count = f"{total:,}" if total < 10**12 else "more than 10**12"
    message = f"{looked} of {count} ways through {shown} were looked at: what the others do is not proved"
    help_text = (
        "put a core_barrier @all of all cores between the branches, outside of them: its sides are proved apart",
        "or say how often the loops run with trip=, or split the function",
    )
    subject = Subject("paths", function.name)
    shown_labels = tuple(labels[:_MOST])
    return [Diagnostic("unproved-paths", Severity.WARNING, message, shown_labels, (), help_text, subject)]
