"""Attribute values: `KEY=VALUE` pairs as text, the form in which tables keep what they have no column for.

    VALUE := INT | FLOAT | STRING | NAME | "[" VALUE,... "]" | true | false

A string that can stand as a NAME is printed bare, any other in double quotes; the two are equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from io import StringIO

from haulout.support.diagnostics import bad_input
from haulout.support.shown import shown

AttrValue = int | float | bool | str | list["AttrValue"]

_MAX_DIGITS = 100
_SHORT, _SHORT_DEPTH = 64, 8
"""Items of a list, and levels below it, that are formatted by recursion."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.$-]*\Z")
NUMERIC_NAMES = frozenset({"true", "false", "nan", "inf"})
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>[A-Za-z_][A-Za-z0-9_.$-]*)
    | (?P<number>[+-]?(?:0[xX][0-9A-Fa-f]+|inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))
    | (?P<string>"(?:[^"\\]++|\\["\\])*+")
    | (?P<mark>[=,\[\]])
    )""",
    re.VERBOSE | re.ASCII,
)
"""Possessive repeats (`*+`): backtracking ones take hundreds of bytes a character."""


def quote(text: str) -> str:
    """The text in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def unquote(token: str) -> str:
    """The text of a quoted token."""
    return token[1:-1].replace('\\"', '"').replace("\\\\", "\\") if "\\" in token else token[1:-1]


def is_bare(text: str) -> bool:
    """Whether the text may be written as a NAME."""
    return NAME.match(text) is not None and text not in NUMERIC_NAMES


def format_name(text: str) -> str:
    """A name, in quotes where it must be."""
    return text if is_bare(text) else quote(text)


def format_value(value: AttrValue) -> str:
    """A value as the format writes it; floats round-trip. An explicit stack, so that depth has no limit."""
    if not isinstance(value, list):
        return _format_scalar(value)
    short = _format_short(value, _SHORT_DEPTH)
    if short is not None:
        return short
    text = StringIO()  # a list of the parts would take tens of bytes a character
    text.write("[")
    stack = [iter(value)]
    between = ""
    while stack:
        for item in stack[-1]:
            text.write(between)
            if isinstance(item, list):
                text.write("[")
                stack.append(iter(item))
                between = ""
                break
            text.write(_format_scalar(item))
            between = ","
        else:
            stack.pop()
            text.write("]")
            between = ","
    return text.getvalue()


def _format_short(value: list[AttrValue], depth: int) -> str | None:
    """A list that is short and flat, several times faster; None for others."""
    if len(value) > _SHORT:
        return None
    parts: list[str] = []
    for item in value:
        if type(item) is int:
            parts.append(str(item))
        elif isinstance(item, str):
            parts.append(_format_word(item) if len(item) <= _SHORT else format_name(item))
        elif isinstance(item, list):
            inner = _format_short(item, depth - 1) if depth else None
            if inner is None:
                return None
            parts.append(inner)
        else:
            parts.append(_format_scalar(item))
    return f"[{','.join(parts)}]"


@lru_cache(maxsize=1 << 10)
def _format_word(text: str) -> str:
    return format_name(text)


def _format_scalar(value: AttrValue) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case str():
            return format_name(value)
    raise TypeError(f"not an attribute value: {value!r}")


def format_attrs(attrs: Mapping[str, AttrValue]) -> str:
    """All pairs, alphabetically, one space between."""
    return " ".join(f"{key}={format_value(attrs[key])}" for key in sorted(attrs))


def parse_number(token: str) -> int | float:
    """An INT or FLOAT token. An integer of far more than 64 bits may become another one of more than 64 bits."""
    if token.isdecimal() and len(token) <= _MAX_DIGITS:
        return int(token)
    lowered = token.lower()
    if "x" not in lowered and any(mark in lowered for mark in (".", "e", "n")):
        return float(lowered)
    return parse_integer(lowered)


def parse_integer(token: str) -> int:
    """A decimal or hexadecimal INT token. With very many digits, a number of 200 bits, out of every range."""
    if len(token) > _MAX_DIGITS:
        return -(1 << 200) if token.startswith("-") else 1 << 200
    return int(token, 16) if "x" in token.lower() else int(token)


def parse_attrs(text: str) -> dict[str, AttrValue]:
    """The pairs of an attribute text, in the form that `format_attrs` gives."""
    tokens = _tokens(text)
    attrs: dict[str, AttrValue] = {}
    for token in tokens:
        key, equals = token["name"], next(tokens, None)
        if key is None or equals is None or equals["mark"] != "=":
            bad_input(f"malformed attribute text {shown(text)}")
        if key in attrs:
            bad_input(f"{key} is given twice in {shown(text)}")
        attrs[key] = _parse_value(tokens, text)
    return attrs


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """One token at a time, since a list would take hundreds of bytes for each; together they are the whole text."""
    end = 0
    for token in _TOKEN.finditer(text):
        if token.start() != end:
            break
        end = token.end()
        yield token
    if text[end:].strip():
        bad_input(f"malformed attribute text {shown(text)}")


def _parse_value(tokens: Iterator[re.Match[str]], text: str) -> AttrValue:
    """One value; an explicit stack, so that depth has no limit."""
    stack: list[list[AttrValue]] = []
    for token in tokens:
        value: AttrValue
        word = token[token.lastgroup or 0]
        match token.lastgroup:
            case "number":
                value = parse_number(word)
            case "name":
                value = scalar_from_name(word)
            case "string":
                value = unquote(word)
            case _ if word == "[":
                stack.append([])
                continue
            case _ if word == ",":
                continue
            case _ if word == "]" and stack:
                value = stack.pop()
            case _:
                break
        if not stack:
            return value
        stack[-1].append(value)
    bad_input(f"malformed attribute text {shown(text)}")


def scalar_from_name(name: str) -> AttrValue:
    """A bare word as a value: a boolean, a number that is spelled in letters, or a string."""
    match name:
        case "true":
            return True
        case "false":
            return False
        case "nan" | "inf":
            return float(name)
    return name


def int_list(value: AttrValue) -> list[int] | None:
    """The value as a list of integers, or None when it is not one."""
    if isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return [int(item) for item in value]  # type: ignore[arg-type]
    return None
