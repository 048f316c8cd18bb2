"""The finding that not every path through loops and forks was checked."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.checker.model import Runs
from haulout.ir.enums import NONE
from haulout.ir.labels import place
from haulout.support.diagnostics import Diagnostic, Label, Severity, Subject

_MOST = 8
"""Blocks that are shown."""


def unproved_paths(runs: Runs, blocks: Iterable[int], looked: int, total: int) -> list[Diagnostic]:
    """`unproved-paths`, when paths through some headers and forks, given by number, were left out."""
    missing, program = sorted(blocks), runs.flow.program
    if not missing:
        return []
    names, labels = [], []
    for block in missing:
        name = runs.flow.name(block)
        names.append(name)
        is_loop = block in runs.flow.structure.loop_at
        what = f"the loop at {name} runs an unknown number of times" if is_loop else f"the branch at {name}"
        span = place(program, NONE, int(program.blocks.text_line[runs.flow.rows[0][block]]))
        labels.append(Label(what, span))
    shown = ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
    count = f"{total:,}" if total < 10**12 else "more than 10**12"
    message = f"{looked} of {count} ways through {shown} were looked at: what the others do is not proved"
    help_text = (
        "put a core_barrier @all of all cores between the branches, outside of them: its sides are proved apart",
        "or say how often the loops run with trip=, or split the function",
    )
    subject = Subject("paths", runs.name)
    shown_labels = tuple(labels[:_MOST])
    return [Diagnostic("unproved-paths", Severity.WARNING, message, shown_labels, (), help_text, subject)]
