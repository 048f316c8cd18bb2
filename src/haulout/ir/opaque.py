"""Opaque instructions: those that a front end has kept without understanding them.

An opaque instruction reads its operands and writes its results; `hlo.` is in front of the opcode of the source,
`text` has the attributes as the source writes them. That is enough for lifetimes, addresses and the proof of order.
What it computes is not known, so it cannot be executed, and equal operands do not give equal results.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.labels import instruction_label
from haulout.ir.opcodes import OPAQUE
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, Severity, bad_input

MAX_LISTED = 50
"""Opcodes that a warning lists."""


def opaque_instructions(program: Program) -> list[Diagnostic]:
    """`opaque-instruction`, once for the program: of each opcode how often it occurs on a core, and where first."""
    known = [text.startswith(OPAQUE) for text in program.strings]
    rows = np.flatnonzero(np.array([*known, False])[program.instructions.opcode])
    rows = rows[program.instruction_core[rows] == program.instruction_core[rows].min(initial=0)]
    counts: dict[str, int] = {}
    first: dict[str, int] = {}
    effects = 0
    for row in rows.tolist():
        name = opaque_name(program, row)
        counts[name] = counts.get(name, 0) + 1
        first.setdefault(name, row)
        effects += bool(program.instruction_attrs(row).get("effect"))
    if not counts:
        return []
    places = {name: instruction_label(program, row).span for name, row in first.items()}
    notes = [f"{name}: {count}, first at {places[name]}" for name, count in counts.items()]
    if len(notes) > MAX_LISTED:
        notes = [*notes[:MAX_LISTED], f"and {len(notes) - MAX_LISTED} more opcodes"]
    if effects:
        have = "has" if effects == 1 else "have"
        notes.append(f"{effects} of them {have} side effects, which only operands and results order")
    total = sum(counts.values())
    what = "1 instruction is opaque" if total == 1 else f"{total} instructions are opaque"
    return [
        Diagnostic(
            "opaque-instruction",
            Severity.WARNING,
            f"{what}: each reads its operands and writes its results, and nothing else is known of it",
            (instruction_label(program, next(iter(first.values())), "the first"),),
            tuple(notes),
            ("storage and order are proved for these accesses; simulate and run stop at such an instruction",),
        )
    ]


def opaque_name(program: Program, row: int) -> str:
    """The opcode of an opaque instruction in its source, with the target of a call."""
    opcode = program.strings[int(program.instructions.opcode[row])].removeprefix(OPAQUE)
    target = program.instruction_attrs(row).get("target")
    return f"{opcode} of {target}" if target is not None else opcode


def refuse_execution(program: Program, row: int) -> NoReturn:
    """Raise `HauloutError` (`bad-input`) for an opaque instruction; the caller names its place."""
    bad_input(
        f"%{format_name(program.instruction_name(row))} cannot be executed: {opaque_name(program, row)} is opaque",
        help=["it can be compiled and checked; to execute the program, express it with opcodes of docs/opcodes.md"],
    )
