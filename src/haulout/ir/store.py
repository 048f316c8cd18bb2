"""A program as one binary file: every column as in memory, strings as bytes and offsets, in one `.npz`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.attributes import AttrValue
from haulout.ir.program import Program
from haulout.ir.schema import TABLES
from haulout.ir.strings import StringTable
from haulout.support.diagnostics import bad_input
from haulout.support.files import read_bytes, write_bytes
from haulout.support.readers import reading

VERSION = 4


def save_program(program: Program, path: Path) -> None:
    """Write a program; the same program gives the same bytes."""
    meta = {"version": VERSION, "name": program.name, "lnc": program.lnc, "attrs": program.attrs}
    arrays: dict[str, Any] = {"meta": np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)}
    arrays["strings.data"], arrays["strings.offsets"] = program.strings.to_columns()
    for name in TABLES:
        for column, values in program.table(name).columns().items():
            arrays[f"{name}.{column}"] = values
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(path, buffer.getvalue())


def load_program(path: Path) -> Program:
    """Read what `save_program` wrote; `bad-input` when it is anything else. The caller verifies the program."""
    data = read_bytes(path)
    with reading(path, "a stored program"), np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        meta = json.loads(_column(arrays, "meta", np.uint8).tobytes())
        name, lnc, attrs = meta["name"], meta["lnc"], meta["attrs"]
        if meta["version"] != VERSION:
            bad_input(f"{path}: version {meta['version']} of the store, expected {VERSION}")
        if not (isinstance(name, str) and type(lnc) is int and isinstance(attrs, dict)):
            raise TypeError("name, lnc or attrs of the program is of another type")
        offsets = _column(arrays, "strings.offsets", np.int64)
        strings = StringTable.from_columns(_column(arrays, "strings.data", np.uint8), offsets)
        tables: dict[str, Any] = {}
        for key, table in TABLES.items():
            specs = table.specs()
            columns = {column: _column(arrays, f"{key}.{column}", specs[column]["dtype"]) for column in specs}
            tables[key] = table.make(len(next(iter(columns.values()))), **columns)
        return Program(name, lnc, strings, attrs=_sound(attrs), file=str(path), **tables)


def _column(arrays: Any, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of the archive, which must have one axis and the type that was stored."""
    values: npt.NDArray[Any] = arrays[name]
    if values.ndim != 1 or values.dtype != np.dtype(dtype):
        raise TypeError(f"{name} is {values.dtype}{list(values.shape)}, expected a column of {np.dtype(dtype)}")
    return values


def _sound(attrs: dict[Any, Any]) -> dict[str, AttrValue]:
    """The program's attributes; `ValueError` when the format could not write one."""
    pending: list[Any] = list(attrs.values())
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif not isinstance(value, (bool, int, float, str)):
            raise ValueError(f"{value!r} is not an attribute value")
    return attrs
