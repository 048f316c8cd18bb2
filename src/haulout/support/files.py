"""Files written whole or not at all, and read with a diagnostic where they cannot be read."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from haulout.support.diagnostics import Label, Span, bad_input


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together: each beside its place under another name, then all renamed. Folders are made.

    What can fail (no space, no permission) fails before the first is renamed: then none of them is changed.
    """
    written: list[tuple[Path, Path]] = []
    path = Path()
    try:
        umask = os.umask(0)
        os.umask(umask)
        for path, data in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "Is a directory")
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            written.append((Path(temporary), path))
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).chmod(0o666 & ~umask)
        while written:
            temporary_path, path = written[0]
            temporary_path.replace(path)
            del written[0]
    except OSError as error:
        bad_input(f"cannot write {path}: {error.strerror or error}")
    finally:
        for temporary_path, _ in written:
            temporary_path.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    write_files({path: data})


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode())


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; `bad-input` when it cannot be read."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        bad_input(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte-order mark; `bad-input` with the line when it is not UTF-8."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        bad_input(f"not UTF-8: byte {data[error.start]:#04x}", Label("this byte", Span(str(path), line)))
