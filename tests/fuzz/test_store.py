"""Stores that are archives of columns, but not of a program: what mutants found, one case each."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import haulout
from haulout.ir.store import save_program
from haulout.ir.text import print_bir

SOURCE = Path(__file__).parent / "data" / "by_hand.bir"
Columns = dict[str, Any]


def changed(tmp_path: Path, change: Callable[[Columns], None]) -> Path:
    """The stored program, with some columns changed."""
    path = tmp_path / "x.npz"
    save_program(haulout.load(SOURCE), path)
    with np.load(io.BytesIO(path.read_bytes())) as arrays:
        columns: Columns = {name: arrays[name] for name in arrays.files}
    change(columns)
    np.savez(path, **columns)
    return path


def meta(key: str, value: object) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        document = json.loads(columns["meta"].tobytes()) | {key: value}
        columns["meta"] = np.frombuffer(json.dumps(document).encode(), np.uint8)

    return change


def cell(name: str, row: int, value: int) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        columns[name] = columns[name].copy()
        columns[name][row] = value

    return change


def column(name: str, make: Callable[[np.ndarray[Any, Any]], object]) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        columns[name] = make(columns[name])

    return change


def text(old: bytes, new: bytes) -> Callable[[Columns], None]:
    """Replace text of the string table by as many bytes."""
    assert len(old) == len(new)
    return column("strings.data", lambda data: np.frombuffer(data.tobytes().replace(old, new), np.uint8))


CASES: dict[str, tuple[Callable[[Columns], None], str]] = {
    "a column is missing": (lambda columns: columns.pop("accesses.write"), "accesses.write"),
    "a column of two axes": (column("accesses.location", lambda c: c.reshape(-1, 1)), "expected a column of int32"),
    "a column of floats": (column("locations.size", lambda c: c.astype("f8")), "expected a column of int64"),
    "a number for a column": (column("locations.size", lambda c: c.sum()), "expected a column of int64"),
    "columns of unequal length": (column("locations.size", lambda c: c[:-1]), "rows"),
    "strings that overlap wrongly": (column("strings.offsets", lambda c: c[::-1]), ""),
    "text that is not UTF-8": (text(b"odd name", b"odd\xff\xfeame"), "utf-8"),
    "another version": (meta("version", 99), "version 99 of the store"),
    "a name that is none": (meta("name", 3), "another type"),
    "cores that are none": (meta("lnc", "3"), "another type"),
    "attributes that are none": (meta("attrs", {"a": {"b": 1}}), "not an attribute value"),
    "an id beyond its table": (cell("accesses.location", 0, 99), "not a row of locations"),
    "parents that fall": (cell("accesses.instruction", 0, 5), "falls"),
    "reads behind writes": (column("accesses.write", lambda c: ~c), "reads must come before writes"),
    "a line break in a name": (text(b"odd name", b"odd\nname"), "control characters"),
    "attributes that nobody can read": (text(b"value=1", b"value=="), "is not an attribute text"),
    "no partitions": (cell("locations.parts", 3, 0), "expected at least 1"),
    "time before the beginning": (column("instructions.seq", lambda c: c * 0 - 7), "expected at least -1"),
    "a barrier that is no core_barrier": (cell("barriers.instruction", 0, 1), "barriers has"),
    "two modules of one name": (column("modules.name", lambda c: c * 0 + c[0]), "two modules have one name"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name: str, tmp_path: Path) -> None:
    change, message = CASES[name]
    with pytest.raises(haulout.HauloutError) as caught:
        haulout.load(changed(tmp_path, change))
    assert {each.code for each in caught.value.diagnostics} == {"bad-input"}
    assert any(message in each.message for each in caught.value.diagnostics), caught.value


def test_a_store_is_read_back(tmp_path: Path) -> None:
    """The changes above, not the store itself, are what is refused."""
    path = changed(tmp_path, lambda columns: None)
    assert print_bir(haulout.load(path)) == print_bir(haulout.load(SOURCE))


def test_an_archive_that_claims_too_much(tmp_path: Path) -> None:
    """A header may claim any length; no memory is taken for it."""
    path = changed(tmp_path, lambda columns: None)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (1 << 58,)})
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["locations.size.npy"] = header.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(haulout.HauloutError, match="not a stored program"):
        haulout.load(path)
