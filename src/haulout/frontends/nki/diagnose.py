"""Findings while a kernel is traced: each at the kernel's own line, each once a place, collected not raised.

Tracing goes on after a finding wherever it can, so that one run shows everything. What the findings stand for is in
`docs/nki.md` and `haulout explain`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

from haulout.support.diagnostics import Diagnostic, Label, Severity, Span
from haulout.support.render import encodable

_OWN_FOLDERS = (str(Path(__file__).parent), str(Path(__file__).parents[2] / "nki"))
"""Frames of these files are ours, not the kernel's."""
_MOST_LETTERS = 80
"""Letters of a value in a message."""
_own_code: dict[CodeType, bool] = {}


def kernel_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of the stack that is the kernel's, from `depth` frames above the caller."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        own = _own_code.get(code)
        if own is None:
            own = _own_code[code] = code.co_filename.startswith(_OWN_FOLDERS) or code.co_filename.startswith(
                "<frozen"
            )
        if not own:
            return frame
        frame = frame.f_back
    return None


def allocation_place(depth: int = 1) -> tuple[str, int]:
    """(file, line) of the kernel that asks for a tensor: allocators that kernels write themselves are skipped."""
    frame = first = kernel_frame(depth + 1)
    while frame is not None and "alloc" in frame.f_code.co_name:
        frame = frame.f_back
        if frame is not None and frame.f_code.co_filename.startswith(_OWN_FOLDERS):
            frame = None
    chosen = frame or first
    return ("", 0) if chosen is None else (chosen.f_code.co_filename, chosen.f_lineno)


def kernel_place(depth: int = 1) -> tuple[str, int]:
    """(file, line) where the kernel is."""
    frame = kernel_frame(depth + 1)
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def shown_path(file: str) -> str:
    """The path as a message shows it: relative to the current folder when it lies inside."""
    return _relative(file, str(Path.cwd()))


@lru_cache(maxsize=1 << 10)
def _relative(file: str, folder: str) -> str:
    try:
        return str(Path(file).relative_to(folder))
    except ValueError:
        return file


def shown_value(value: object) -> str:
    """A value as a message shows it: never by its address, which differs from run to run."""
    text = repr(value)
    return (
        text if " at 0x" not in text and len(text) <= _MOST_LETTERS else f"something of type {type(value).__name__}"
    )


def span_at(place: tuple[str, int]) -> Span | None:
    """A place as a span."""
    return Span(shown_path(place[0]), place[1]) if place[0] else None


def place_text(place: tuple[str, int]) -> str | None:
    """A place as the program's tables hold it."""
    return f"{encodable(shown_path(place[0]))}:{place[1]}" if place[0] else None


@dataclass(slots=True)
class Findings:
    """An ordered collector that keeps one finding for each (code, place, subject)."""

    items: list[Diagnostic] = field(default_factory=list)
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
        """Append a finding at `place`, or where the kernel is now."""
        file, line = place or kernel_place(2)
        key = (code, file, line, subject)
        if key in self._seen:
            return
        self._seen.add(key)
        labels = (Label(label, span_at((file, line))), *more)
        self.items.append(Diagnostic(code, severity, message, labels, tuple(notes), tuple(help)))
