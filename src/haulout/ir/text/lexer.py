"""One line of `.bir` text as tokens, and a cursor whose errors show the line, a caret and what was expected.

A token is read when the cursor comes to it, and nothing is kept of those behind it: a line of 30 MB, a constant,
costs what its text costs. No pattern has alternatives inside a repeat that could be given back (`*+`, `++`), because
those take hundreds of bytes a character.
"""

from __future__ import annotations

import re
from typing import NoReturn

from haulout.ir.attributes import unquote
from haulout.support.diagnostics import Label, Span, bad_input
from haulout.support.shown import shown

Place = tuple[int, int]
"""Where a token stands in its line: first column, counted from 0, and the one behind the last."""

_NAME = r"[A-Za-z_][A-Za-z0-9_.$-]*"
_STRING = r'"(?:[^"\\\x00-\x1f\x7f]++|\\["\\])*+"'
_TOKEN = re.compile(
    rf"""[ \t\r]*(?:
      (?P<end>\#.*|\Z)
    | (?P<arrow>->)
    | (?P<sigil>[%@^](?:{_NAME}|{_STRING}))
    | (?P<number>[+-]?(?:0[xX][0-9A-Fa-f]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![A-Za-z_$])|inf\b|nan\b))
    | (?P<name>{_NAME})
    | (?P<string>{_STRING})
    | (?P<mark>[{{}}()\[\],:;=?])
    )""",
    re.VERBOSE | re.ASCII,
)
_PATTERN = re.compile(r"[ \t]*\[(?P<pattern>[^\]]*)\]")
"""Behind a location: a byte pattern, whose grammar is its own (`values.parse_pattern`)."""
_BLANKS = re.compile(r"[ \t\r]*")

_UNCLOSED = 'a string that is not closed, has a control character, or another escape than \\" and \\\\'


class Line:
    """A cursor over the tokens of one line."""

    __slots__ = ("_next", "at", "file", "first", "kind", "number", "previous", "text", "value")

    def __init__(self, file: str, number: int, text: str) -> None:
        self.file, self.number, self.text = file, number, text
        self.kind = self.value = ""
        """Of the current token; the last one of a line has kind `end`."""
        self.at: Place = (0, 0)
        """Where the current token stands."""
        self._next = 0
        self._read()
        self.first = self.previous = self.at

    def _read(self) -> None:
        """Make the token behind the current one the current one."""
        text, position = self.text, self._next
        if self.kind == "sigil" and self.value[0] == "%" and (match := _PATTERN.match(text, position)):
            self.kind, self.value, self.at = "pattern", match["pattern"], match.span("pattern")
            self._next = match.end()
            return
        match = _TOKEN.match(text, position)
        if match is None:
            start = _BLANKS.match(text, position).end()  # type: ignore[union-attr]
            opens = text[start] == '"' or (text[start] in "%@^" and text[start + 1 : start + 2] == '"')
            self.error(_UNCLOSED if opens else "a character that no token starts with", (start, start + 1))
        kind = match.lastgroup or "end"
        self.kind, self.value, self.at = kind, match[kind], match.span(kind)
        self._next = match.end()

    @property
    def is_blank(self) -> bool:
        """Nothing but white space and a comment."""
        return self.kind == "end" and self.at == self.first

    def move_to_end(self) -> Line:
        """The same line, as if everything in it had been read."""
        self.kind, self.value, self.at = "end", "", (len(self.text), len(self.text))
        return self

    def error(self, message: str, at: Place | None = None) -> NoReturn:
        """Raise a diagnostic that points at a token (the current one by default)."""
        start, end = self.at if at is None else at
        span = Span(self.file, self.number, start + 1, max(start + 1, end) + 1)
        bad_input(message, Label("here", span, self.text))

    def expected(self, what: str) -> NoReturn:
        """Raise `expected WHAT, found ...`."""
        self.error(f"expected {what}, found {'the end of the line' if self.kind == 'end' else shown(self.value)}")

    def advance(self) -> str:
        """The current token's text; moves on."""
        value = self.value
        if self.kind != "end":
            self.previous = self.at
            self._read()
        return value

    def accept(self, text: str) -> bool:
        """Move past a mark or word if it stands here."""
        if self.value == text and self.kind != "string":
            self.advance()
            return True
        return False

    def expect(self, text: str) -> None:
        """Move past a mark or word that must stand here."""
        if not self.accept(text):
            self.expected(repr(text))

    def expect_end(self) -> None:
        """Nothing more may follow."""
        if self.kind != "end":
            self.expected("the end of the line")

    def sigil(self, mark: str, what: str) -> str:
        """A name behind `%`, `@` or `^`."""
        if self.kind != "sigil" or self.value[0] != mark:
            self.expected(f"{what}, written {mark}NAME")
        text = self.advance()[1:]
        return unquote(text) if text.startswith('"') else text

    def string(self, what: str) -> str:
        """A quoted string."""
        if self.kind != "string":
            self.expected(f"{what} in double quotes")
        return unquote(self.advance())

    def pattern_text(self) -> str | None:
        """The text between the brackets behind a location, None when there are none."""
        return self.advance() if self.kind == "pattern" else None
