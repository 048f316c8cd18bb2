"""Several files replaced as one transaction: staged next to their targets, then renamed over them.

On Linux a staged file has no name, so a killed process leaves no incomplete file. It gets the mode and, if permitted,
the owner of the file that it replaces. The renames hold a lock on the folder, so that two runs do not mix their
files. Signals wait until the renames are done; if one fails, the others are undone. Only a process that is killed
between two renames, or a power failure, can leave files of two runs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import signal
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from haulout.support.diagnostics import bad_input

_PATIENCE = 60.0
"""Seconds to wait for another process that renames its files in the same folder."""
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def reporting(path: str | Path) -> Iterator[None]:
    """What the system refuses is `bad-input` with the path."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a path that holds a null character
        bad_input(f"cannot write {path or 'an empty path'}: {getattr(error, 'strerror', None) or error}")


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that is written but not in its place yet."""

    path: str | Path
    target: Path
    """The path behind all links."""
    temporary: Path
    """A name beside it."""
    descriptor: int | None
    """Of the file while it has no name; None: it has the temporary one."""

    def put(self) -> None:
        """Rename it over the target."""
        if self.descriptor is not None:
            # Only with a folder's descriptor does Python ask for the link to be followed.
            source, number = f"/proc/self/fd/{self.descriptor}", self.descriptor
            os.link(source, self.temporary, src_dir_fd=number, follow_symlinks=True)
        self.temporary.replace(self.target)


@contextmanager
def stage(path: str | Path, data: bytes) -> Iterator[Staged]:
    """Write data beside its place; the file is gone at the end unless it was renamed."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    temporary = _beside(target)
    descriptor, named = _open_unnamed(target.parent), False
    try:
        if descriptor is None:
            descriptor, named = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), True
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        _keep_mode(descriptor, target)
        yield Staged(path, target, temporary, None if named else descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)
        with suppress(OSError):
            temporary.unlink()


def _open_unnamed(folder: Path) -> int | None:
    """A new file in a folder that has no name there; None where the system cannot do that."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, flag | os.O_WRONLY, 0o666)
    except OSError:
        return None  # where the folder itself is the cause, the named file fails for it too


def _keep_mode(descriptor: int, target: Path) -> None:
    """Give a staged file the mode of what it replaces, and the owner as far as we may."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return  # a new one: 0o666 without the umask's bits, as it was opened
    new = os.fstat(descriptor)
    mode = stat.S_IMODE(old.st_mode)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            mode &= 0o777  # set-user-id would mean another user now
            with suppress(PermissionError):
                os.fchown(descriptor, -1, old.st_gid)
    os.fchmod(descriptor, mode)


def _beside(target: Path) -> Path:
    """A name that no file has, in the folder of a target; it does not grow with the target's."""
    return target.parent / f".haulout-{secrets.token_hex(8)}"


# -- renaming --------------------------------------------------------------------------------------------------------


def commit(staged: list[Staged]) -> None:
    """Rename all staged files over their targets, or none."""
    with ExitStack() as stack:
        for folder in sorted({each.target.parent for each in staged}):
            with reporting(folder):
                stack.enter_context(_locked(folder))
        stack.enter_context(_uninterrupted())
        before: dict[Path, Path | None] = {}
        """Target -> another name of what it was; None: there was nothing."""
        done: list[Path] = []
        try:
            for each in staged:
                with reporting(each.path):
                    if len(staged) > 1:
                        before[each.target] = _kept(each.target)
            for each in staged:
                with reporting(each.path):
                    each.put()
                done.append(each.target)
        except BaseException:
            for target in done:
                old = before.get(target)
                with suppress(OSError):
                    target.unlink() if old is None else old.replace(target)
            raise
        finally:
            for old in filter(None, before.values()):
                with suppress(OSError):
                    old.unlink()


def _kept(target: Path) -> Path | None:
    """A second name of a file, or of a copy of it; None: there is no such file."""
    if not target.exists():
        return None
    name = _beside(target)
    with suppress(OSError):  # a file system without links
        # The link to a file of someone else could not be removed again in a folder like /tmp.
        if os.geteuid() in (0, target.stat().st_uid):
            os.link(target, name)
            return name
    shutil.copy2(target, name)
    return name


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Where it cannot be locked (a network drive), each file is whole all the same."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        yield
        return
    try:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError(errno.ETIMEDOUT, "another process holds a lock on this folder") from None
                time.sleep(0.002)
                continue
            except OSError:
                pass
            break
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals that end the process come when the block is left."""
    came: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        came.append(number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # no other thread gets them
        before = {each: signal.getsignal(each) for each in _DEFERRED}
    try:
        for number, handler in before.items():
            if handler is not None and handler != signal.SIG_IGN:
                signal.signal(number, remember)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)
