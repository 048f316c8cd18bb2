"""The finding that not every path through loops and forks was checked."""

from __future__ import annotations

from haulout.checker.flow.refusal import Refusal
from haulout.checker.model import Runs
from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label, place
from haulout.support.diagnostics import Diagnostic, Label, Severity, Subject

_MAX_BLOCKS = 8
"""Blocks that are shown."""


def unproved_paths(runs: Runs, refusal: Refusal | None, checked: int) -> list[Diagnostic]:
    """`unproved-paths`: so many paths through the loops and forks of a function were checked, and not all; `refusal`
    is what the proof of all together does not cover.
    """
    program, structure = runs.flow.program, runs.flow.structure
    loops = [
        loop.header for loop in structure.loops.values() if loop.trip == NONE or runs.wanted[loop.header].distant
    ]
    names, labels = [], []
    for block in sorted([*loops, *structure.fork_at]):
        name = runs.flow.name(block)
        names.append(name)
        is_loop = block in structure.loop_at
        what = f"the loop at {name} runs an unknown number of times" if is_loop else f"the branch at {name}"
        span = place(program, NONE, int(program.blocks.text_line[runs.flow.rows[0][block]]))
        labels.append(Label(what, span))
    shown = ", ".join(names[:_MAX_BLOCKS]) + (
        f" and {len(names) - _MAX_BLOCKS} more" if len(names) > _MAX_BLOCKS else ""
    )
    message = f"checked {checked} paths through {shown}: the others are not proved"
    help_text = (
        "put a core_barrier @all of all cores between the branches, outside of them, to prove both sides separately",
        "or give the number of iterations of the loops with trip=, or split the function",
    )
    subject = Subject("paths", runs.name)
    shown_labels = tuple(labels[:_MAX_BLOCKS])
    notes: tuple[str, ...] = ()
    if refusal is not None:
        where = "" if refusal.block == NONE else f", in {runs.flow.name(refusal.block)}"
        notes = (f"they are not proved all together: {refusal.text}{where}",)
        if refusal.instruction != NONE:
            shown_labels = (instruction_label(program, refusal.instruction), *shown_labels)
    return [Diagnostic("unproved-paths", Severity.WARNING, message, shown_labels, notes, help_text, subject)]
