"""One line of `.bir` text as tokens, and a cursor whose errors show the line, a caret and what was expected."""

from __future__ import annotations

import re
from typing import NoReturn

from haulout.ir.attributes import unquote
from haulout.support.diagnostics import Label, Span, bad_input

_NAME = r"[A-Za-z_][A-Za-z0-9_.$-]*"
_STRING = r'"(?:[^"\\\x00-\x1f\x7f]|\\["\\])*"'
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
    re.VERBOSE,
)
_PATTERN = re.compile(r"[ \t]*\[(?P<pattern>[^\]]*)\]")
"""Behind a location: a byte pattern, whose grammar is its own (`values.parse_pattern`)."""

_UNCLOSED = 'a string that is not closed, has a control character, or another escape than \\" and \\\\'


class Line:
    """A cursor over the tokens of one line."""

    __slots__ = ("at", "file", "number", "text", "tokens")

    def __init__(self, file: str, number: int, text: str) -> None:
        self.file, self.number, self.text = file, number, text
        self.at = 0
        self.tokens: list[tuple[str, str, int]] = []
        """(kind, text, first column counted from 0); the last one has kind `end`."""
        position = 0
        while True:
            match = _TOKEN.match(text, position)
            if match is None:
                start = position + len(text[position:]) - len(text[position:].lstrip(" \t\r"))
                opens = text[start] == '"' or (text[start] in "%@^" and text[start + 1 : start + 2] == '"')
                self._error_at(start, start + 1, _UNCLOSED if opens else "a character that no token starts with")
            kind = match.lastgroup or "end"
            self.tokens.append((kind, match.group(kind), match.start(kind)))
            if kind == "end":
                return
            position = match.end()
            if kind == "sigil" and text[match.start(kind)] == "%" and (match := _PATTERN.match(text, position)):
                self.tokens.append(("pattern", match.group("pattern"), match.start("pattern")))
                position = match.end()

    @property
    def is_blank(self) -> bool:
        """Nothing but white space and a comment."""
        return len(self.tokens) == 1

    def _error_at(self, start: int, end: int, message: str) -> NoReturn:
        span = Span(self.file, self.number, start + 1, end + 1)
        bad_input(f"{message}", Label("here", span, self.text))

    def error(self, message: str, at: int | None = None) -> NoReturn:
        """Raise a diagnostic that points at a token (the current one by default)."""
        _, text, start = self.tokens[self.at if at is None else at]
        self._error_at(start, start + max(len(text), 1), message)

    def expected(self, what: str) -> NoReturn:
        """Raise `expected WHAT, found ...`."""
        kind, text, _ = self.tokens[self.at]
        found = "the end of the line" if kind == "end" else repr(text)
        self.error(f"expected {what}, found {found}")

    @property
    def kind(self) -> str:
        """Kind of the current token."""
        return self.tokens[self.at][0]

    @property
    def value(self) -> str:
        """Text of the current token."""
        return self.tokens[self.at][1]

    def advance(self) -> str:
        """The current token's text; moves on."""
        text = self.tokens[self.at][1]
        if self.tokens[self.at][0] != "end":
            self.at += 1
        return text

    def accept(self, text: str) -> bool:
        """Move past a mark or word if it stands here."""
        if self.tokens[self.at][1] == text and self.tokens[self.at][0] != "string":
            self.at += 1
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
