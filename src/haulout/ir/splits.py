"""`split=DIM` of an instruction or a location: the source asks for a cut of its value along a dimension.

It is a wish of a user for `split_uniform`, which removes it. It changes no meaning, and no proof rests on it.
"""

from __future__ import annotations

from haulout.ir.attributes import format_attrs, parse_attrs
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Ids

KEY = "split"
NO_DIMENSION = -1
"""What is asked for follows no dimension."""


def asked_dims(program: Program, column: Ids) -> dict[int, int]:
    """Rows of a column of attributes that ask for a cut, and the dimension."""
    texts = {each: program.strings[each] for each in set(column.tolist()) if each != NONE}
    dims = {each: parse_attrs(text).get(KEY) for each, text in texts.items() if KEY in text}
    wanted = {each: dim for each, dim in dims.items() if isinstance(dim, int) and not isinstance(dim, bool)}
    return {row: wanted[each] for row, each in enumerate(column.tolist()) if each in wanted}


def without_splits(program: Program) -> Program:
    """The program without these wishes."""
    tables = {}
    for name in ("instructions", "locations"):
        table = getattr(program, name)
        column = table.attrs.copy()
        for row in asked_dims(program, column):
            attrs = parse_attrs(program.strings[int(column[row])])
            del attrs[KEY]
            column[row] = program.strings.intern(format_attrs(attrs)) if attrs else NONE
        tables[name] = table.replace(attrs=column)
    return program.replace(**tables)
