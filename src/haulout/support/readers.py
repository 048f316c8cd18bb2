"""Readers of TOML, .npy and .npz files: every exception of the library becomes `bad-input`.

Libraries do not document what they raise on malformed bytes: NumPy raises errors of zipfile, zlib, pickle, struct and
tokenize, and allocates the memory that a header claims.
"""

from __future__ import annotations

import io
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.support.diagnostics import HauloutError, Label, Span, bad_input, error_text
from haulout.support.files import read_bytes

Array = npt.NDArray[Any]

_AT_LINE = re.compile(r"\s*\(at line (\d+), column (\d+)\)")


@contextmanager
def reading(file: str | Path, expected: str) -> Iterator[None]:
    """Turn exceptions of a library in the block into `bad-input`: `file` is not `expected`."""
    try:
        yield
    except HauloutError:
        raise
    except Exception as error:
        bad_input(f"{file} is not {expected}: {error_text(error)}", Label("this file", Span(str(file))))


def parse_toml(text: str, file: str | Path) -> dict[str, Any]:
    """The tables of a TOML file's text; `bad-input` with the line if it is invalid."""
    try:
        tree = tomllib.loads(text)
        _refuse_long_integers(tree)
        return tree
    except RecursionError:
        bad_input("invalid TOML: tables or lists are nested too deeply", Label("here", Span(str(file))))
    except ValueError as error:
        message = error_text(error)
        if not isinstance(error, tomllib.TOMLDecodeError):
            message = "an integer of more than 64 bits"  # Python says how to read more digits
        where = _AT_LINE.search(message)
        line, column = (int(where[1]), int(where[2])) if where else (0, 0)
        if message.endswith("(at end of document)"):
            line = text.count("\n") + 1
        bad_input(f"invalid TOML: {_AT_LINE.sub('', message)}", Label("here", Span(str(file), line, column)))


def _refuse_long_integers(tree: dict[str, Any]) -> None:
    """Refuse integers of more than 64 bits: `tomllib` accepts them, and some are too long to print."""
    pending: list[Any] = [tree]
    while pending:
        match pending.pop():
            case dict() as table:
                pending += table.values()
            case list() as items:
                pending += items
            case int() as value if not -(1 << 63) <= value < 1 << 63:
                raise ValueError("an integer of more than 64 bits")


def read_npy(path: Path) -> Array:
    """The array of an .npy file."""
    data = read_bytes(path)
    with reading(path, "an .npy file of one array"):
        array = np.load(io.BytesIO(data), allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise TypeError("it is an archive of several arrays")
        return array


def read_npz(path: Path) -> dict[str, Array]:
    """All arrays of an .npz file, by name."""
    data = read_bytes(path)
    with reading(path, "an .npz file of arrays"):
        arrays = np.load(io.BytesIO(data), allow_pickle=False)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise TypeError("it has one array without a name")
        with arrays:
            return {name: arrays[name] for name in arrays.files}
