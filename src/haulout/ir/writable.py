"""What the text format can say and columns need not keep to: what a program from elsewhere must hold to be written.

Text that was parsed holds it by construction, and passes keep it. A store is columns: nothing in them stops a name
from holding a line break, or a barrier from standing on an instruction that is none. The program must be sound.
"""

from __future__ import annotations

import re

import numpy as np

from haulout.ir.attributes import NAME, format_attrs, parse_attrs
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import TABLES
from haulout.support.diagnostics import Diagnostics, HauloutError, Severity

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LEAST = {
    ("locations", "align"): 1,
    ("patterns", "offset"): 0,
    ("dims", "count"): 1,
    ("shapes", "extent"): 0,
    ("steps", "modulus"): 0,
    ("steps", "phase"): 0,
}
"""Columns with a least value of their own; columns that may be null start there, at NONE."""
_FREE = {("dims", "stride"), ("steps", "stride"), ("semaphores", "value"), ("patterns", "run")}


def require_writable(program: Program) -> None:
    """Raise `HauloutError` (`bad-input`) with what the format has no words for."""
    found = Diagnostics()
    _check_numbers(program, found)
    _check_text(program, found)
    _check_rendezvous(program, found)
    found.raise_if_errors()


def _bad(found: Diagnostics, message: str) -> None:
    found.add("bad-input", Severity.ERROR, message)


def _check_numbers(program: Program, found: Diagnostics) -> None:
    for name, table in TABLES.items():
        for column, spec in table.specs().items():
            values = getattr(program.table(name), column)
            if spec["to"] is not None or values.dtype.kind != "i" or (name, column) in _FREE:
                continue
            least = _LEAST.get((name, column), NONE if spec["null"] else 0)
            for row in np.flatnonzero(values < least)[:1].tolist():
                _bad(found, f"{name}.{column}[{row}] is {values[row]}, expected at least {least}")
    parts = program.locations.parts
    for row in np.flatnonzero(parts == 0)[:1].tolist():
        _bad(found, f"locations.parts[{row}] is 0, expected at least 1")


def _check_text(program: Program, found: Diagnostics) -> None:
    if _CONTROL.search(program.name):
        _bad(found, f"the program's name {program.name!r} has control characters")
    for name, table in TABLES.items():
        for column, spec in table.specs().items():
            if spec["to"] != "strings":
                continue
            rows = getattr(program.table(name), column)
            for text in (program.strings[row] for row in np.unique(rows[rows != NONE]).tolist()):
                if _CONTROL.search(text):
                    _bad(found, f"{name}.{column}: {text!r} has control characters")
                elif column == "opcode" and NAME.match(text) is None:
                    _bad(found, f"{name}.{column}: {text!r} is no opcode")
                elif column == "attrs" and not _is_attributes(text):
                    _bad(found, f"{name}.{column}: {text!r} are no attributes")


def _is_attributes(text: str) -> bool:
    try:
        return format_attrs(parse_attrs(text)) == text
    except HauloutError:
        return False


def _check_rendezvous(program: Program, found: Diagnostics) -> None:
    """One row of `barriers` for each `core_barrier`, one of `meetings` for each `sendrecv`, and no others."""
    for name, opcode, rows in (
        ("barriers", "core_barrier", program.barriers.instruction),
        ("meetings", "sendrecv", program.meetings.instruction),
    ):
        wanted = np.flatnonzero(program.instructions.opcode == program.strings.find(opcode))
        if not np.array_equal(wanted, rows):
            _bad(
                found, f"{name} has {len(rows)} rows, which are not those of the {len(wanted)} {opcode} instructions"
            )
