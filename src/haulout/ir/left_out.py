"""What the source leaves out: data of constants, which are inputs with `left_out=true`; and parts of the text."""

from __future__ import annotations

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.enums import NONE
from haulout.ir.labels import location_label
from haulout.ir.origin import INCOMPLETE
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, Severity

LEFT_OUT = "left_out"
"""The attribute of such a location."""
MAX_NAMED = 10
"""Names in a warning."""


def left_out_constants(program: Program) -> list[Diagnostic]:
    """`left-out-constant`, once for the program."""
    marked = np.array([LEFT_OUT in text for text in program.strings] + [False])
    own = program.location_core == 0
    rows = np.flatnonzero(own & (program.locations.attrs != NONE) & marked[program.locations.attrs]).tolist()
    rows = [row for row in rows if program.location_attrs(row).get(LEFT_OUT)]
    if not rows:
        return []
    names = [f"%{format_name(program.strings[int(program.locations.name[row])])}" for row in rows]
    shown = ", ".join(names[:MAX_NAMED]) + (f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
    what = "1 constant has no data" if len(rows) == 1 else f"{len(rows)} constants have no data"
    return [
        Diagnostic(
            "left-out-constant",
            Severity.WARNING,
            f"{what} in the source; the program takes them as inputs: {shown}",
            (location_label(program, rows[0], "the first"),),
            (),
            (
                "dump the module with its constants: XLA_FLAGS=--xla_dump_large_constants, or print_large_constants",
                "or give their values to simulate and run as inputs; else these draw numbers",
            ),
        )
    ]


def incomplete_text(program: Program) -> list[Diagnostic]:
    """`incomplete-text`, if a part of the source was cut away."""
    said = program.attrs.get(INCOMPLETE)
    if not isinstance(said, list) or not said:
        return []
    message = f"{program.name} is made of a part of a module; the rest is not in the text"
    help = ("what was compiled is proved; dump the whole module for the rest of it",)
    return [Diagnostic("incomplete-text", Severity.WARNING, message, (), tuple(map(str, said)), help)]
