"""Findings of a kernel's trace: collected with the line of the kernel, once for each place.

Tracing continues after a finding if it can, so that one run reports all of them. `docs/nki.md` and `haulout explain`
describe the codes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NoReturn

from haulout.support.diagnostics import Diagnostic, Label, Severity, Span, fail
from haulout.support.render import encodable

OWN_FOLDERS = (str(Path(__file__).parent), str(Path(__file__).parents[2] / "nki"))
"""Frames of files in these folders belong to haulout, not to the kernel."""
MAX_SHOWN = 80
"""Characters of a value in a message."""
_own_code: dict[CodeType, bool] = {}


def kernel_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of the stack that is the kernel's, from `depth` frames above the caller."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        own = _own_code.get(code)
        if own is None:
            own = _own_code[code] = code.co_filename.startswith(OWN_FOLDERS) or code.co_filename.startswith("<frozen")
        if not own:
            return frame
        frame = frame.f_back
    return None


def allocation_place(depth: int = 1) -> tuple[str, int]:
    """(file, line) of the allocation of a tensor. Allocation helpers of the kernel are skipped."""
    frame = first = kernel_frame(depth + 1)
    while frame is not None and "alloc" in frame.f_code.co_name:
        frame = frame.f_back
        if frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS):
            frame = None
    chosen = frame or first
    return ("", 0) if chosen is None else (chosen.f_code.co_filename, chosen.f_lineno)


def kernel_place(depth: int = 1) -> tuple[str, int]:
    """(file, line) of the current line of the kernel."""
    frame = kernel_frame(depth + 1)
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def shown_path(file: str) -> str:
    """The path for a message: relative to the current folder, if it is inside."""
    return _relative(file, str(Path.cwd()))


@lru_cache(maxsize=1 << 10)
def _relative(file: str, folder: str) -> str:
    try:
        return str(Path(file).relative_to(folder))
    except ValueError:
        return file


def shown_value(value: object) -> str:
    """A value for a message, without addresses, which differ from run to run."""
    text = repr(value)
    return text if " at 0x" not in text and len(text) <= MAX_SHOWN else f"something of type {type(value).__name__}"


def span_at(place: tuple[str, int]) -> Span | None:
    """A place as a span."""
    return Span(shown_path(place[0]), place[1]) if place[0] else None


def place_text(place: tuple[str, int]) -> str | None:
    """A place as the program's tables hold it."""
    return f"{encodable(shown_path(place[0]))}:{place[1]}" if place[0] else None


def reject(message: str, *help: str, place: tuple[str, int] | None = None) -> NoReturn:
    """Raise `kernel-error` at `place`, or at the current line of the kernel."""
    fail("kernel-error", message, Label("here", span_at(place or kernel_place(2))), help=help)


@dataclass(slots=True)
class Findings:
    """An ordered collector with one finding for each (code, place, subject)."""

    items: list[Diagnostic] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    """What is reported once a kernel, wherever it is met."""
    _seen: set[tuple[str, str, int, str]] = field(default_factory=set)

    def add(
        self,
        code: str,
        message: str,
        *,
        severity: Severity = Severity.ERROR,
        subject: str = "",
        place: tuple[str, int] | None = None,
        label: str = "here",
        more: Iterable[Label] = (),
        notes: Iterable[str] = (),
        help: Iterable[str] = (),
    ) -> None:
        """Append a finding at `place`, or at the current line of the kernel."""
        file, line = place or kernel_place(2)
        key = (code, file, line, subject)
        if key in self._seen:
            return
        self._seen.add(key)
        labels = (Label(label, span_at((file, line))), *more)
        self.items.append(Diagnostic(code, severity, message, labels, tuple(notes), tuple(help)))
