"""Atomic writes of files, and reads with diagnostics.

A command may name stdin or a pipe, which gives its bytes once; several readers may look at them (`holding_streams`).

The kind of a path decides how it is written:

    "-", or this process's own stdout      into stdout, after earlier output
    a device, a named pipe, a descriptor   into it, without replacing it
    a symbolic link                        its target is written, the link stays
    a file, or a new path                  staged next to it, then renamed over it (see `staging.py`)
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from haulout.support.diagnostics import Label, Span, bad_input
from haulout.support.staging import Staged, commit, reporting, stage

Name = TypeVar("Name", bound=str | Path)

STDOUT = "-"
"""As the text of a path."""
STDIN = "<stdin>"
"""The path of stdin while a command holds streams, and its name in messages."""

_held: dict[str, bytes] | None = None
"""What stdin and pipes had, by path; None: nothing is held."""


def write_files(contents: Mapping[Name, bytes]) -> None:
    """Write files as one transaction, and make folders. Raises `bad-input`, and then no file is changed.

    The text `-` is stdout; `Path("-")` is a file of that name.
    """
    with ExitStack() as stack:
        staged: list[Staged] = []
        streams: list[tuple[Name, bytes]] = []
        for path, data in contents.items():
            with reporting(path):
                if is_stdout(path) or not _is_file(path):
                    streams.append((path, data))
                else:
                    staged.append(stack.enter_context(stage(path, data)))
        for path, data in streams:
            if is_stdout(path):
                _write_stdout(data)
            else:
                with reporting(path):
                    _write_into(path, data)
        commit(staged)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write one file, as `write_files` does."""
    write_files({path: data})


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text, as `write_files` does."""
    write_bytes(path, text.encode())


def is_stdout(path: str | Path) -> bool:
    """Whether a path is this process's stdout: `-`, /dev/stdout, or the file or pipe that stdout is."""
    if path == STDOUT or _descriptor(path) == 1:
        return True
    try:
        there, ours = Path(path).stat(), os.fstat(1)
    except (OSError, ValueError):
        return False
    return os.path.samestat(there, ours) and not stat.S_ISCHR(there.st_mode)


@contextmanager
def holding_streams() -> Iterator[None]:
    """Keep what is read from pipes in the block, for readers to come; `STDIN` is the path of stdin in it."""
    global _held
    before, _held = _held, {}
    try:
        yield
    finally:
        _held = before


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; `bad-input` when it cannot be read."""
    name = str(path)
    try:
        if _held is None or (name != STDIN and not _is_pipe(path)):
            return path.read_bytes()
        if name not in _held:
            _held[name] = _stdin() if name == STDIN else path.read_bytes()
        return _held[name]
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        bad_input(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


def read_start(path: Path, count: int) -> bytes:
    """So many bytes at the start of a file, or all; none of a pipe that nothing holds, which its reader needs whole.

    `bad-input` when it cannot be read.
    """
    try:
        held = _held is not None and str(path) == STDIN
        if held or _is_pipe(path):
            return b"" if _held is None else read_bytes(path)[:count]
        with path.open("rb") as file:
            return file.read(count)
    except (OSError, ValueError) as error:
        bad_input(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte-order mark; `bad-input` with the line when it is not UTF-8."""
    return _decoded(read_bytes(path), str(path))


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        bad_input(f"not UTF-8: byte {data[error.start]:#04x}", Label("this byte", Span(name, line)))


# -- kinds of paths --------------------------------------------------------------------------------------------------


def _is_pipe(path: Path) -> bool:
    return stat.S_ISFIFO(path.stat().st_mode)


def _stdin() -> bytes:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise ValueError("it is closed")
    data: bytes = stream.read()
    return data


def _is_file(path: str | Path) -> bool:
    """Whether a path is, or will be, a regular file that can be renamed over; a folder is an `OSError`."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return _descriptor(path) is None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return stat.S_ISREG(mode) and _descriptor(path) is None


def _descriptor(path: str | Path) -> int | None:
    """The number of this process's descriptor that a path names, as /dev/stdout and /dev/fd/3 do."""
    place = Path(path)
    own = {os.path.realpath("/proc/self/fd"), "/dev/fd"}
    for _ in range(40):  # as many links as the system follows
        folder = Path(os.path.realpath(place.parent))
        if str(folder) in own and place.name.isdecimal():
            return int(place.name)
        try:
            place = folder / (folder / place.name).readlink()
        except (OSError, ValueError):
            return None
    return None


def _write_stdout(data: bytes) -> None:
    if sys.stdout is None:
        bad_input("cannot write to stdout: it is closed")
    try:
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(data)
        else:  # a text stream of the caller
            sys.stdout.write(data.decode("utf-8", "surrogateescape"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # the reader of the pipe has exited: not an error of the input
    except OSError as error:
        bad_input(f"cannot write to stdout: {error.strerror or error}")


def _write_into(path: str | Path, data: bytes) -> None:
    """Write into an existing device or pipe, without creating or truncating a file."""
    number = _descriptor(path)
    opened = os.open(path, os.O_WRONLY | os.O_NOCTTY) if number is None else os.dup(number)
    with os.fdopen(opened, "wb") as file:
        file.write(data)
