"""Renderers of diagnostics: text and JSON. `sarif.py` and `render_lines.py` have the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from haulout.support.colours import coloured
from haulout.support.diagnostics import Diagnostic, Label, Span

JSON_VERSION = 1
"""Of the document of `--format json`. It changes when a field goes or gets another meaning."""
MAX_SOURCE = 400
"""Characters of a source line that are shown."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a code means, for formats that describe codes besides findings."""

    short: str
    full: str
    help: str


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Lines of a file in place of others; the lines count from 1, `end` is exclusive. `end == begin` inserts."""

    begin: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextFix:
    """Edits of one file that remove a finding, from top to bottom; they do not overlap."""

    file: str
    description: str
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True, slots=True)
class About:
    """What a document says besides the findings. The caller knows it: the catalog of codes, the command."""

    command: str = ""
    version: str = ""
    """Of haulout."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, Any] = field(default_factory=dict)
    """More of a JSON document."""
    rules: Mapping[str, Rule] = field(default_factory=dict)
    """Code -> its meaning."""
    fix_of: Callable[[Diagnostic], TextFix | None] = lambda _: None
    """An edit that the checker has verified."""
    colour: bool = False
    """Whether text may have the colours of a terminal."""


NOTHING = About()


def render_text(diagnostics: Sequence[Diagnostic], about: About = NOTHING) -> str:
    """One paragraph for each finding that is not suppressed: message, places with the source line and a caret, notes,
    help."""
    return "\n\n".join(_paragraph(each, about.colour) for each in diagnostics if not each.suppressed)


def _paragraph(diagnostic: Diagnostic, colour: bool) -> str:
    lines = [f"{diagnostic.severity.name.lower()}[{diagnostic.code}]: {diagnostic.message}"]
    for label in diagnostic.labels:
        lines += _label(label)
    lines += [f"  = note: {note}" for note in diagnostic.notes]
    lines += [f"  = help: {text}" for text in diagnostic.help]
    plain = [without_controls(encodable(line)) for line in lines]
    return "\n".join(coloured(plain, diagnostic.severity) if colour else plain)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, which a terminal would interpret."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def without_controls(line: str) -> str:
    """A line with what a terminal would interpret replaced."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", line)


def encodable(text: str) -> str:
    """The text with escaped surrogates, which stand for bytes of a file name that are not UTF-8."""
    return _SURROGATE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def input_file(source: str) -> str:
    """The file of an input: of a kernel, `FILE.py::FUNCTION`, the file."""
    return source.rpartition("::")[0] if ".py::" in source else source


def _label(label: Label) -> list[str]:
    if label.span is None:
        return [f"  = {label.message}"] if label.message else []
    source = label.source if label.source is not None else _source_line(label.span)
    message = "" if label.message == "here" else label.message
    if source is None:
        return [f"  --> {label.span}{': ' if message else ''}{message}"]
    gutter = " " * len(str(label.span.line))
    source, column = _excerpt(source.rstrip("\r\n"), label.span.column)
    lines = [f" {gutter}--> {label.span}", f" {label.span.line} | {source}"]
    if column:
        # Tabs keep their width in the line of the caret.
        blank = "".join(char if char == "\t" else " " for char in source[: column - 1])
        width = max(min(label.span.end_column - label.span.column, len(source) - column + 1), 1)
        lines.append(f" {gutter} | {blank}{'^' * width} {message}".rstrip())
    elif message:
        lines.append(f" {gutter} = {message}")
    return lines


def _excerpt(source: str, column: int) -> tuple[str, int]:
    """What is shown of a line, and the column in it: the start, or what is around the column."""
    if column <= MAX_SOURCE:
        return source[:MAX_SOURCE], column
    begin = column - 1 - MAX_SOURCE // 2
    return "..." + source[begin : begin + MAX_SOURCE], column - begin + 3


def _source_line(span: Span) -> str | None:
    """The line that a span names, when its file can be read."""
    if not span.line:
        return None
    try:
        if not Path(span.file).is_file():  # a pipe or a device may have no end
            return None
        with Path(span.file).open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if number == span.line:
                    return line.rstrip("\n")
    except (OSError, ValueError):
        return None
    return None


def as_json(diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """Plain values: code, severity, message, labels (message, file, line, column, end_column), notes, help, the input
    where a command takes several, subject, and the reason of a suppressed finding."""
    return [
        {
            "code": each.code,
            "severity": each.severity.name.lower(),
            "message": encodable(each.message),
            "labels": [
                {"message": encodable(label.message)}
                | ({} if label.span is None else {"file": encodable(label.span.file), "line": label.span.line})
                | _columns(label.span)
                for label in each.labels
            ],
            "notes": [encodable(text) for text in each.notes],
            "help": [encodable(text) for text in each.help],
        }
        | ({} if not each.input else {"input": encodable(each.input)})
        | ({} if each.subject is None else {"subject": each.subject.as_json()})
        | ({} if not each.suppressed else {"suppressed": encodable(each.suppressed)})
        for each in diagnostics
    ]


def _columns(span: Span | None) -> dict[str, int]:
    """The columns that are known, from 1; the end is exclusive."""
    if span is None or not span.column:
        return {}
    return {"column": span.column} | ({"end_column": span.end_column} if span.end_column > span.column else {})


def render_json(diagnostics: Sequence[Diagnostic], about: About = NOTHING) -> str:
    """`{"version": 1, "command": ..., "summary": {...}, "diagnostics": [...]}`, and `"suppressed": [...]` where
    comments accept findings. A new field does not change the version."""
    document: dict[str, Any] = {
        "version": JSON_VERSION,
        "command": about.command,
        "summary": about.summary,
        "diagnostics": as_json([each for each in diagnostics if not each.suppressed]),
    }
    if suppressed := as_json([each for each in diagnostics if each.suppressed]):
        document["suppressed"] = suppressed
    document |= about.sections
    import msgspec  # takes as long as all other imports of this module

    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
