"""What went wrong, where, what was seen, and what to do: one object, several renderers (`render.py`).

A `Diagnostic` is a value. Code that can go on after a finding appends it to a `Diagnostics` collector; code that
cannot raises `HauloutError`, which carries the diagnostics to the command line (exit status 2) or to the caller.
No finding is ever a bare exception text: the code names it for `haulout explain`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn


class Severity(enum.IntEnum):
    """How bad it is; notes do not change the exit status."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text file. `line` and `column` count from 1; 0 means unknown; `end_column` is exclusive."""

    file: str
    line: int = 0
    column: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        parts = [self.file] + [str(number) for number in (self.line, self.column) if number]
        return ":".join(parts)


@dataclass(frozen=True, slots=True)
class Label:
    """One entity of a finding: a sentence about it, and where it stands.

    `source` is the text of the line that `span` names, when it is at hand; a renderer puts a caret below it.
    """

    message: str
    span: Span | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is kebab-case and stable; `labels[0]` is the primary place."""

    code: str
    severity: Severity
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: tuple[str, ...] = ()

    @property
    def span(self) -> Span | None:
        """The primary place, or None."""
        return next((label.span for label in self.labels if label.span is not None), None)

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span else ""
        return f"{place}{self.severity.name.lower()}[{self.code}]: {self.message}"


class HauloutError(Exception):
    """The work cannot go on. Carries at least one diagnostic of severity ERROR."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(str(d) for d in diagnostics))
        self.diagnostics = diagnostics


def error_text(error: BaseException) -> str:
    """What an exception says, for a message; an exception of somebody else's class may fail even at that."""
    try:
        return str(error).strip() or type(error).__name__
    except Exception:
        return f"<{type(error).__name__} without text>"


@dataclass(slots=True)
class Diagnostics:
    """An ordered collector of findings."""

    items: list[Diagnostic] = field(default_factory=list)

    def add(
        self,
        code: str,
        severity: Severity,
        message: str,
        *labels: Label,
        notes: Iterable[str] = (),
        help: Iterable[str] = (),
    ) -> None:
        """Append one finding."""
        self.items.append(Diagnostic(code, severity, message, labels, tuple(notes), tuple(help)))

    def extend(self, items: Iterable[Diagnostic]) -> None:
        """Append findings in order."""
        self.items.extend(items)

    def raise_if_errors(self) -> None:
        """Raise `HauloutError` with everything collected when any of it is an error."""
        if any(item.severity is Severity.ERROR for item in self.items):
            raise HauloutError(*self.items)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def fail(code: str, message: str, *labels: Label, notes: Iterable[str] = (), help: Iterable[str] = ()) -> NoReturn:
    """Raise `HauloutError` with one ERROR diagnostic."""
    raise HauloutError(Diagnostic(code, Severity.ERROR, message, labels, tuple(notes), tuple(help)))


def bad_input(message: str, *labels: Label, notes: Iterable[str] = (), help: Iterable[str] = ()) -> NoReturn:
    """Raise `HauloutError` with code `bad-input`: the input is malformed or not supported (exit status 2)."""
    fail("bad-input", message, *labels, notes=notes, help=help)
