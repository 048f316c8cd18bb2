"""A reading position in a source. The grammar decides which token comes next.

HLO text has no context-free tokens: `3x3`, `b01f_01io->b01f` and `0_0x1_1` are one token in a window and several
elsewhere. So there is no lexer. The cursor skips blanks and comments and tries one pattern at its position. On a
mismatch it reports what was expected and what was found, with line, column and caret.
"""

from __future__ import annotations

import re
from typing import NoReturn

from haulout.frontends.hlo.source import Excerpt, Source

NAME = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.\-]*)")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
INTEGER = re.compile(r"-?[0-9]+")
# Possessive repeats (`*+`): backtracking may take hundreds of bytes for each character.
STRING = re.compile(r'"((?:[^"\\\n]++|\\.)*+)"')
QUOTED = re.compile(r"'((?:[^'\\\n]++|\\.)*+)'|" + STRING.pattern)
COMMENT = r"/\*(?s:.*?)\*/"

_BLANK = re.compile(rf"(?:\s++|{COMMENT}|//[^\n]*+)*+")
_FOUND = re.compile(r"[A-Za-z0-9_.%\-]+|\S")
_PUNCTUATION = {
    mark: re.compile(re.escape(mark)) for mark in ("(", ")", "{", "}", "[", "]", "<=", "->", ",", "=", ":")
}
MAX_DIGITS = 19
"""Of an int64. Python refuses to read integers with thousands of digits."""


class Cursor:
    """A position in `source`, moving towards `end`."""

    __slots__ = ("end", "position", "source")

    def __init__(self, source: Source, position: int = 0, end: int | None = None) -> None:
        self.source = source
        self.position = position
        self.end = len(source.text) if end is None else end

    @classmethod
    def over(cls, excerpt: Excerpt) -> Cursor:
        """A cursor that reads only `excerpt`."""
        return cls(excerpt.source, excerpt.start, excerpt.end)

    def skip(self) -> int:
        """Move over blanks and comments; the new position."""
        match = _BLANK.match(self.source.text, self.position, self.end)
        if match is not None:
            self.position = match.end()
        return self.position

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip blanks, then read `pattern` if it is next."""
        match = pattern.match(self.source.text, self.skip(), self.end)
        if match is not None:
            self.position = match.end()
        return match

    def expect(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Read `pattern`, or fail with `expected <what>`."""
        match = self.take(pattern)
        if match is None:
            self.fail(what)
        return match

    def sees(self, pattern: re.Pattern[str]) -> bool:
        """Whether `pattern` comes next; nothing is read but blanks."""
        return pattern.match(self.source.text, self.skip(), self.end) is not None

    def take_mark(self, mark: str) -> bool:
        """Read a punctuation mark if it is next."""
        return self.take(_PUNCTUATION[mark]) is not None

    def expect_mark(self, mark: str, what: str | None = None) -> None:
        """Read a punctuation mark, or fail."""
        if self.take(_PUNCTUATION[mark]) is None:
            self.fail(what or f"`{mark}`")

    def sees_mark(self, mark: str) -> bool:
        """Whether a punctuation mark comes next."""
        return self.sees(_PUNCTUATION[mark])

    def name(self, what: str) -> str:
        """Read a name, with or without `%`; the `%` is dropped."""
        return self.expect(NAME, what)[1]

    def integer(self, what: str, minimum: int | None = 0) -> int:
        """Read a decimal integer that fits 64 bits and is at least `minimum` (None: may be negative)."""
        match = self.expect(INTEGER, what)
        value = int(match[0]) if len(match[0]) <= MAX_DIGITS + 1 else 1 << 64
        if not -(1 << 63) <= value < 1 << 63:
            self.source.fail(match.start(), f"{what} does not fit 64 bits", "too large", match.end())
        if minimum is not None and value < minimum:
            self.source.fail(match.start(), f"{what} must be at least {minimum}", f"this is {value}", match.end())
        return value

    def integers(self, opening: str, closing: str, what: str, minimum: int | None = 0) -> tuple[int, ...]:
        """Read `opening INT, INT, ... closing`, possibly with nothing inside."""
        self.expect_mark(opening)
        values: list[int] = []
        while not self.take_mark(closing):
            if values:
                self.expect_mark(",", f"`,` or `{closing}`")
            values.append(self.integer(what, minimum))
        return tuple(values)

    def at_end(self) -> bool:
        """Whether nothing but blanks is left."""
        return self.skip() >= self.end

    def finish(self, what: str) -> None:
        """Fail when something is left: `expected the end of <what>`."""
        if not self.at_end():
            self.fail(f"the end of {what}")

    def fail(self, expected: str) -> NoReturn:
        """Raise: `expected <expected>, found <what is next>`."""
        start = self.skip()
        match = _FOUND.match(self.source.text, start, self.end)
        found, end = ("the end of the file", start) if start >= len(self.source.text) else ("nothing", start)
        if match is not None:
            found, end = f"`{match[0]}`", match.end()
        self.source.fail(start, f"expected {expected}, found {found}", f"expected {expected}", end)
