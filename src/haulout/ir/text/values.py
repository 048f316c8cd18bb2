"""Attribute lists of one statement, and what a statement may demand of them: a type, a range, a unit."""

from __future__ import annotations

import re
from typing import NoReturn

from haulout.ir.attributes import AttrValue, parse_integer, parse_number, scalar_from_name, unquote
from haulout.ir.patterns import UNKNOWN, Pattern
from haulout.ir.schema import INT32_MAX, INT64_MAX, SIZE_MAX
from haulout.ir.text.lexer import Line, Place
from haulout.support.shown import shown

_INT = r"(?:0[xX][0-9A-Fa-f]+|[0-9]+)"
_RANGE = re.compile(rf"\s*({_INT})\s*:\s*({_INT})\s*\Z")
_STRIDED = re.compile(rf"\s*({_INT})\s*;([^;]*);\s*({_INT})\s*\Z")
_DIM = re.compile(rf"\s*([+-]?[0-9]+)x({_INT})\s*\Z")


class Attributes:
    """The `KEY=VALUE` pairs behind a statement; `take_*` removes what has a meaning, the rest is kept as text."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.values: dict[str, AttrValue] = {}
        self._where: dict[str, Place] = {}
        while line.kind == "name":
            where = line.at
            key = line.advance()
            line.expect("=")
            if key in self.values:
                line.error(f"attribute {key} is given twice", where)
            self._where[key] = where
            self.values[key] = parse_value(line)

    def error(self, key: str, message: str) -> NoReturn:
        """Raise a diagnostic that points at an attribute."""
        self.line.error(f"{key}: {message}", self._where[key])

    def missing(self, key: str, what: str) -> NoReturn:
        """Raise: a required attribute is not there."""
        self.line.error(f"expected {what}, {key}=..., which is required")

    def take(self, key: str) -> AttrValue | None:
        """Remove an attribute, None when absent."""
        return self.values.pop(key, None)

    def take_int(self, key: str, low: int = 0, high: int = INT32_MAX) -> int | None:
        """An INT within bounds, both included."""
        value = self.take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.error(key, f"expected an integer, found {shown(value)}")
        if not low <= value <= high:
            self.error(key, f"expected an integer from {low} to {high}, found {value}")
        return value

    def take_bool(self, key: str) -> bool:
        """`true` or `false`; absent: false."""
        value = self.take(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            self.error(key, f"expected true or false, found {shown(value)}")
        return value

    def take_text(self, key: str) -> str | None:
        """A STRING or NAME."""
        value = self.take(key)
        if value is not None and not isinstance(value, str):
            self.error(key, f"expected a name or a string, found {shown(value)}")
        return value

    def take_ints(self, key: str, low: int = 0, high: int = INT64_MAX) -> list[int] | None:
        """A list of INT."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list):
            self.error(key, f"expected a list of integers, found {shown(value)}")
        for item in value:
            if isinstance(item, bool) or not isinstance(item, int) or not low <= item <= high:
                self.error(key, f"expected integers from {low} to {high}, found {shown(item)}")
        return value  # type: ignore[return-value]

    def take_names(self, key: str) -> list[str]:
        """A list of NAME."""
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.error(key, f"expected a list of names, found {shown(value)}")
        return value  # type: ignore[return-value]

    def take_rows(self, key: str, *types: type, optional: int = 0) -> list[list[int | str]]:
        """A list of rows of the given types, as in `signal=[[NAME,INT],...]`; so many at the end may be left out."""
        value = self.take(key)
        if value is None:
            return []
        names = ["INT" if item is int else "NAME" for item in types]
        shape = "[" + ",".join(names[: len(names) - optional]) + "]"
        if optional:
            shape += " or [" + ",".join(names) + "]"
        rows = value if isinstance(value, list) else [value]
        for row in rows:
            if (
                not isinstance(row, list)
                or not len(types) - optional <= len(row) <= len(types)
                or any(
                    not isinstance(cell, kind) or isinstance(cell, bool)
                    for cell, kind in zip(row, types, strict=False)
                )
            ):
                self.error(key, f"expected a list of {shape}, found {shown(row)}")
            for cell in row:
                if isinstance(cell, int) and abs(cell) > SIZE_MAX:
                    self.error(key, f"expected integers from {-SIZE_MAX} to {SIZE_MAX}, found {cell}")
        return rows  # type: ignore[return-value]


def parse_value(line: Line) -> AttrValue:
    """One VALUE; an explicit stack, so that depth has no limit."""
    stack: list[list[AttrValue]] = []
    while True:
        value: AttrValue
        if line.accept("["):
            stack.append([])
            if not line.accept("]"):
                continue
            value = stack.pop()
        elif line.kind == "number":
            number = parse_number(line.value)
            if isinstance(number, int) and abs(number) > INT64_MAX:
                line.error("an integer of more than 64 bits")
            value = number
            line.advance()
        elif line.kind == "name":
            value = scalar_from_name(line.advance())
        elif line.kind == "string":
            value = unquote(line.advance())
        else:
            line.expected("a value: an integer, a float, a name, a string, a list, true or false")
        while stack:
            stack[-1].append(value)
            if line.accept(","):
                break
            line.expect("]")
            value = stack.pop()
        else:
            return value


def parse_pattern(line: Line, text: str, at: Place) -> Pattern:
    """A byte pattern from the text between the brackets; `at` is the place to point at."""

    def number(token: str) -> int:
        value = parse_integer(token)
        if abs(value) > SIZE_MAX:
            line.error(f"{shown(token)} is more than 2**62 bytes", at)
        return value

    if text.strip() == "?":
        return UNKNOWN
    if match := _RANGE.match(text):
        low, high = number(match.group(1)), number(match.group(2))
        if low >= high:
            line.error(f"expected a range of at least one byte, found {low}:{high}", at)
        return Pattern(low, high - low)
    if match := _STRIDED.match(text):
        dims: list[tuple[int, int]] = []
        for part in match.group(2).split(","):
            dim = _DIM.match(part)
            if dim is None:
                line.error(f"expected STRIDExCOUNT, found {shown(part)}", at)
            stride, count = number(dim.group(1)), number(dim.group(2))
            if count < 1:
                line.error("expected a count of at least 1", at)
            dims.append((stride, count))
        run = number(match.group(3))
        if run < 1:
            line.error("expected a run of at least 1 byte", at)
        return Pattern(number(match.group(1)), run, tuple(dims))
    line.error(f"expected LOW:HIGH, OFFSET;STRIDExCOUNT,...;RUN or ?, found {shown(text)}", at)
