"""The author's own names of arrays, beside the names of locations that a compiler has made.

A location has `path="params['w']"`. The results of a program have theirs in `results=`, in the order of `outputs=`:
a result that is stored where a donated argument is has a path of its own. Messages, tables and keys of inputs use
paths; no pass and no proof does.
"""

from __future__ import annotations

from haulout.ir.attributes import format_name, parse_attrs
from haulout.ir.enums import NONE
from haulout.ir.program import Program

KEY = "path"
RESULTS = "results"


def location_path(program: Program, row: int) -> str | None:
    """The author's name of a location, None if it has none."""
    text = program.strings.get(int(program.locations.attrs[row]))
    if text is None or f"{KEY}=" not in text:
        return None
    found = parse_attrs(text).get(KEY)
    return found if isinstance(found, str) and found else None


def location_paths(program: Program) -> list[str | None]:
    """Of each location the author's name."""
    first = {text: row for row, text in reversed(list(enumerate(program.locations.attrs.tolist())))}
    known = {text: None if text == NONE else location_path(program, row) for text, row in first.items()}
    return [known[text] for text in program.locations.attrs.tolist()]


def result_paths(program: Program) -> list[str | None]:
    """The author's names of `Program.output_names`; None where there is none."""
    names = program.output_names
    listed = program.attrs.get(RESULTS)
    given = listed if isinstance(listed, list) and len(listed) == len(names) else [None] * len(names)
    return [each if isinstance(each, str) and each else None for each in given]


def named(program: Program, row: int) -> str:
    """`%name` of a location, with its path behind it."""
    name, path = program.strings[int(program.locations.name[row])], location_path(program, row)
    return f"%{format_name(name)}" + (f" ({path})" if path is not None else "")
