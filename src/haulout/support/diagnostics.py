"""Diagnostics: code, message, places, notes and help of a finding. `render.py` has several renderers.

A `Diagnostic` is a value. Code that can continue after a finding appends it to a `Diagnostics` collector. Other code
raises `HauloutError`, which passes the diagnostics to the command line or to the caller. Every finding has a code
that `haulout explain` describes.

The `Subject` of a finding is data. Code that compares, merges, counts or excuses findings uses the code, the severity
and the subject, never the text.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn, Protocol


class Severity(enum.IntEnum):
    """Severity of a finding; notes do not change the exit status."""

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
    """One place of a finding, with a sentence about it.

    `source` is the text of the line of `span`, if it is known; a renderer prints a caret below it.
    """

    message: str
    span: Span | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Entity:
    """A named part of a program on one core: a location, an instruction, or one of its operands."""

    core: int
    name: str
    """The name in the program, without `%`; for a branch, the name of its block with `^`."""
    operand: int = -1
    """Number of the operand, reads first; -1: not an operand."""
    write: bool = False
    row: int = field(default=-1, compare=False)
    """The row in the program's table; of a branch, the number of instructions plus the row of its block."""

    def as_json(self) -> dict[str, Any]:
        """Plain values, without the row, which has no meaning outside the process."""
        plain: dict[str, Any] = {"core": self.core, "name": self.name}
        return plain if self.operand < 0 else plain | {"operand": self.operand, "write": self.write}


@dataclass(frozen=True, slots=True)
class Proviso:
    """A choice of the program's control flow that a finding depends on."""

    construct: Literal["loop", "branch"]
    block: str
    choice: tuple[int, ...]
    """How often the loop runs; the arm that each core takes, -1 for a core that does not matter."""
    text: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a finding. Two findings with equal code and `identity` are the same finding."""

    kind: str
    """A finer kind than the code: `read after write`, `barrier sequence`, ..."""
    function: str = ""
    instructions: tuple[Entity, ...] = ()
    locations: tuple[Entity, ...] = ()
    cores: tuple[int, ...] = ()
    position: int = -1
    """A place in a sequence that the finding names: the index of a barrier, a byte."""
    distance: int = 0
    """Iterations from the first instruction to the second, of the innermost loop in which they differ."""
    pairs: int = 1
    """Number of pairs of accesses that the finding represents."""
    provisos: tuple[Proviso, ...] = ()

    @property
    def identity(self) -> Subject:
        """The subject without the fields that may differ between reports of one fault."""
        return replace(self, pairs=1, provisos=())

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "kind": self.kind,
            "function": self.function,
            "instructions": [each.as_json() for each in self.instructions],
            "locations": [each.as_json() for each in self.locations],
            "cores": list(self.cores),
            "pairs": self.pairs,
            "provisos": [each.text for each in self.provisos],
        }


class Remedy(Protocol):
    """A change of the program that removes a finding."""

    def apply(self, program: Any) -> Any:
        """The program with the change."""

    def text(self, program: Any) -> str:
        """The change in words."""

    @property
    def is_barrier(self) -> bool:
        """Whether it only adds barriers of all cores."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A fix of a finding."""

    fix: Remedy
    verified: bool
    """The checker has checked the program with the fix: the finding is gone, and there is no new one."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is kebab-case and stable; `labels[0]` is the primary place."""

    code: str
    severity: Severity
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: tuple[str, ...] = ()
    subject: Subject | None = None
    advice: Advice | None = None
    suppressed: str = ""
    """The reason of a comment in the source that accepts the finding. Such a finding counts as none, and proves
    nothing."""
    input: str = field(default="", compare=False)
    """The input that it is about, where a command takes several."""

    @property
    def span(self) -> Span | None:
        """The primary place, or None."""
        return next((label.span for label in self.labels if label.span is not None), None)

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span else ""
        return f"{place}{self.severity.name.lower()}[{self.code}]: {self.message}"


class HauloutError(Exception):
    """An error that stops the work. It has at least one diagnostic of severity ERROR."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(str(d) for d in diagnostics))
        self.diagnostics = diagnostics


def error_text(error: BaseException) -> str:
    """The text of an exception, for a message. `str` of a user's exception class may fail."""
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
        """Raise `HauloutError` with all findings if one of them is an error."""
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
