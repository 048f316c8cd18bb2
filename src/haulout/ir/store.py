"""A program as one binary file: every column as it stands in memory, strings as bytes and offsets, in one `.npz`."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from haulout.ir.program import Program
from haulout.ir.schema import TABLES
from haulout.ir.strings import StringTable
from haulout.support.diagnostics import bad_input
from haulout.support.files import read_bytes, write_bytes

VERSION = 1


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
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
            meta = json.loads(arrays["meta"].tobytes())
            if meta["version"] != VERSION:
                bad_input(f"{path}: version {meta['version']} of the store, expected {VERSION}")
            strings = StringTable.from_columns(arrays["strings.data"], arrays["strings.offsets"])
            tables: dict[str, Any] = {}
            for name, table in TABLES.items():
                columns: dict[str, Any] = {column: arrays[f"{name}.{column}"] for column in table.specs()}
                tables[name] = table.make(len(next(iter(columns.values()))), **columns)
            return Program(
                str(meta["name"]), int(meta["lnc"]), strings, attrs=dict(meta["attrs"]), file=str(path), **tables
            )
    except (KeyError, ValueError, TypeError, EOFError, OSError, zipfile.BadZipFile, OverflowError) as error:
        bad_input(f"{path} is not a stored program: {error}")
