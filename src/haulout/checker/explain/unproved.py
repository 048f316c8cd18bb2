"""The finding that not every path through loops and branches was checked."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.checker.model import Function
from haulout.checker.paths.loops import block_rows
from haulout.ir.enums import NONE
from haulout.ir.labels import place
from haulout.support.diagnostics import Diagnostic, Label, Severity, Subject

_MAX_BLOCKS = 8
"""Blocks that are shown."""


def unproved_paths(function: Function, blocks: Iterable[int], checked: int, total: int) -> list[Diagnostic]:
    """`unproved-paths`, when paths through some loops and forks, given by their blocks, were not checked."""
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
    shown = ", ".join(names[:_MAX_BLOCKS]) + (
        f" and {len(names) - _MAX_BLOCKS} more" if len(names) > _MAX_BLOCKS else ""
    )
    count = f"{total:,}" if total < 10**12 else "more than 10**12"
    message = f"checked {checked} of {count} paths through {shown}: the others are not proved"
    help_text = (
        "put a core_barrier @all of all cores between the branches, outside of them, to prove both sides separately",
        "or give the number of iterations of the loops with trip=, or split the function",
    )
    subject = Subject("paths", function.name)
    shown_labels = tuple(labels[:_MAX_BLOCKS])
    return [Diagnostic("unproved-paths", Severity.WARNING, message, shown_labels, (), help_text, subject)]
