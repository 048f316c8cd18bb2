"""Files written whole or not at all, and read with a diagnostic where they cannot be read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from haulout.support.diagnostics import Label, Span, bad_input


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: beside its place under another name, then renamed. Folders are made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            umask = os.umask(0)
            os.umask(umask)
            Path(temporary).chmod(0o666 & ~umask)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        bad_input(f"cannot write {path}: {error.strerror or error}")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode())


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; `bad-input` when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        bad_input(f"cannot read {path}: {error.strerror or error}")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file; `bad-input` with the line when it is not UTF-8."""
    data = read_bytes(path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        bad_input(f"not UTF-8: byte {data[error.start]:#04x}", Label("this byte", Span(str(path), line)))
