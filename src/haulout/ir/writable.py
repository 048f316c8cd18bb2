"""Check that the text format can express a program. Columns can hold more: a name with a line break, for example.

Parsed programs satisfy this by construction, and passes keep it. The program must be sound.
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


def require_writable(program: Program) -> None:
    """Raise `HauloutError` (`bad-input`) with the parts that the format cannot express."""
    found = Diagnostics()
    _check_text(program, found)
    found.raise_if_errors()


def _bad(found: Diagnostics, message: str) -> None:
    found.add("bad-input", Severity.ERROR, message)


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
                    _bad(found, f"{name}.{column}: {text!r} is not an opcode")
                elif column == "attrs" and not _is_attributes(text):
                    _bad(found, f"{name}.{column}: {text!r} is not an attribute text")


def _is_attributes(text: str) -> bool:
    try:
        return format_attrs(parse_attrs(text)) == text
    except HauloutError:
        return False
