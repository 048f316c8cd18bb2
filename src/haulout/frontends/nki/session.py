"""The current recorder of the stand-ins, set while a kernel runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from haulout.support.diagnostics import bad_input

if TYPE_CHECKING:
    from haulout.frontends.nki.recorder import Recorder

_current: list[Recorder] = []


def recorder() -> Recorder:
    """The recorder of the core whose program runs."""
    if not _current:
        bad_input(
            "an NKI instruction was called outside of a trace",
            help=["run the kernel with haulout.nki.trace or haulout check"],
        )
    return _current[-1]


def is_tracing() -> bool:
    """Whether a kernel runs."""
    return bool(_current)


_importing: list[str] = []


def is_importing() -> bool:
    """Whether the file of a kernel is imported."""
    return bool(_importing)


@contextmanager
def importing(file: str) -> Iterator[None]:
    """While a file is imported, kernels that it calls do not run."""
    _importing.append(file)
    try:
        yield
    finally:
        _importing.pop()


@contextmanager
def recording(to: Recorder) -> Iterator[None]:
    """Send what the stand-ins record to `to`."""
    _current.append(to)
    try:
        yield
    finally:
        _current.pop()
