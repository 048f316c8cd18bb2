"""The text of an HLO file, excerpts of it, and errors at a place in it.

A `Source` is the text with the offset of each line. Other modules store offsets, and get a line and a column only
when a message needs them. An `Excerpt` is a part of the text that is parsed on demand, such as the value of an
attribute. Both raise `bad-input`, with the line and a caret.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from haulout.support.diagnostics import Label, Span, bad_input


@dataclass(frozen=True, slots=True)
class Source:
    """A file's name and text."""

    file: str
    text: str = field(repr=False)
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        object.__setattr__(self, "_starts", starts)

    def line(self, offset: int) -> int:
        """The number of the line that holds `offset`, from 1."""
        return bisect.bisect_right(self._starts, offset)

    def line_text(self, line: int) -> str:
        """The text of a line, without its end."""
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")

    def span(self, start: int, end: int | None = None) -> Span:
        """The place of `[start, end)`, cut at the end of its first line."""
        line = self.line(start)
        column = start - self._starts[line - 1] + 1
        length = 1 if end is None else max(1, end - start)
        return Span(self.file, line, column, max(column + 1, min(column + length, self._line_end(line))))

    def label(self, message: str, start: int, end: int | None = None) -> Label:
        """A label at `[start, end)` that shows its line."""
        span = self.span(start, end)
        return Label(message, span, self.line_text(span.line))

    def fail(
        self, start: int, message: str, label: str = "here", end: int | None = None, help: Iterable[str] = ()
    ) -> NoReturn:
        """Raise `HauloutError` (`bad-input`) with a caret below `[start, end)`."""
        bad_input(message, self.label(label, start, end), help=help)

    def _line_end(self, line: int) -> int:
        return len(self.line_text(line)) + 1


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The piece `[start, end)` of a source."""

    source: Source = field(repr=False)
    start: int
    end: int

    @property
    def text(self) -> str:
        """The piece itself."""
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        """The line it starts on."""
        return self.source.line(self.start)

    def fail(self, message: str, label: str = "here", help: Iterable[str] = ()) -> NoReturn:
        """Raise `HauloutError` (`bad-input`) with carets below the piece."""
        self.source.fail(self.start, message, label, self.end, help)

    def __repr__(self) -> str:
        return f"Excerpt({self.text!r})"
