"""Tables for notebooks: decoded columns, as a dict of NumPy columns, a pandas DataFrame or an Arrow table.

Texts and the values of enums are decoded; ids of other tables stay row numbers. What is null is None in a column of
texts, and -1 in a column of integers, which is null in pandas and Arrow.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from haulout.ir.enums import NONE, DependenceKind, Engine, Kind, Space
from haulout.ir.schema import TABLES, Column, Dependences, Ids, Instructions, Locations, Table
from haulout.ir.strings import StringTable
from haulout.support.diagnostics import bad_input
from haulout.support.shown import shown

ENUMS: dict[tuple[type[Table], str], list[str]] = {
    (Instructions, "engine"): [each.text for each in Engine],
    (Locations, "space"): [each.text for each in Space],
    (Locations, "kind"): [each.text for each in Kind],
    (Dependences, "kind"): [each.name.lower() for each in DependenceKind],
}
"""Columns that hold values of enums, and the texts of the values."""
Library = Literal["numpy", "pandas", "auto"]


def check_table(name: str) -> None:
    """Raise `bad-input` for a name that is no table."""
    if name not in TABLES:
        bad_input(f"no table {shown(name)}", help=[f"one of {', '.join(TABLES)}"])


def frame(table: Table, strings: StringTable, more: dict[str, Ids], library: Library) -> Any:
    """A table as a DataFrame or as a dict of columns; `more` has derived columns. `auto`: pandas if it is there."""
    if library not in ("numpy", "pandas", "auto"):
        bad_input(f"no library {shown(library)}", help=["one of numpy, pandas, auto"])
    if library == "numpy" or (library == "auto" and find_spec("pandas") is None):
        return more | {name: _decoded(table, name, values, strings) for name, values in table.columns().items()}
    try:
        import pandas
    except ImportError:
        bad_input("pandas is not installed", help=["library='numpy' gives a dict of columns"])
    columns: dict[str, Any] = dict(more)
    for name, values in table.columns().items():
        texts = _texts(table, name, strings)
        if texts is not None:
            columns[name] = pandas.Categorical.from_codes(*_codes(values, texts))
        elif table.specs()[name]["null"]:
            columns[name] = pandas.array(values, dtype="Int64")
            columns[name][values == NONE] = pandas.NA
        else:
            columns[name] = values
    return pandas.DataFrame(columns)


def arrow(table: Table, strings: StringTable, more: dict[str, Ids]) -> Any:
    """A table as a `pyarrow.Table`; texts are dictionary arrays. Raises `bad-input` without pyarrow."""
    try:
        import pyarrow
    except ImportError:
        bad_input("to_arrow needs pyarrow", help=["pip install 'haulout[arrow]'"])
    columns: dict[str, Any] = {name: pyarrow.array(values) for name, values in more.items()}
    for name, values in table.columns().items():
        texts = _texts(table, name, strings)
        if texts is not None:
            codes, categories = _codes(values, texts)
            indices = pyarrow.array(codes, mask=codes == NONE)
            columns[name] = pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(categories, pyarrow.string()))
        else:
            columns[name] = pyarrow.array(values, mask=values == NONE if table.specs()[name]["null"] else None)
    return pyarrow.table(columns)


def _texts(table: Table, name: str, strings: StringTable) -> list[str] | None:
    """The texts that the values of a column stand for; None for numbers."""
    found = ENUMS.get((type(table), name))
    if found is None and table.specs()[name]["to"] == "strings":
        return list(strings)
    return found


def _decoded(table: Table, name: str, values: Column, strings: StringTable) -> Column:
    texts = _texts(table, name, strings)
    if texts is None:
        return values
    # The last entry is that of NONE.
    return np.array([*texts, None], object)[values.astype(np.int64)]


def _codes(values: Column, texts: list[str]) -> tuple[Ids, list[str]]:
    """The texts that occur, each once, and for each row the number of its text, -1 for null."""
    used, codes = np.unique(values.astype(np.int64), return_inverse=True)
    null = int(len(used) > 0 and used[0] == NONE)
    return (codes - null).astype(np.int32), [texts[each] for each in used[null:].tolist()]
