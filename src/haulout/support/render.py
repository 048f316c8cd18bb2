"""Renderers of diagnostics: text, JSON, and SARIF for code hosts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from haulout.support.diagnostics import Diagnostic, Label, Severity, Span

SARIF_LEVEL = {Severity.NOTE: "note", Severity.WARNING: "warning", Severity.ERROR: "error"}


def render_text(diagnostics: Sequence[Diagnostic]) -> str:
    """One paragraph for each finding that is not suppressed: message, places with the source line and a caret, notes,
    help."""
    return "\n\n".join(_paragraph(each) for each in diagnostics if not each.suppressed)


def _paragraph(diagnostic: Diagnostic) -> str:
    lines = [f"{diagnostic.severity.name.lower()}[{diagnostic.code}]: {diagnostic.message}"]
    for label in diagnostic.labels:
        lines += _label(label)
    lines += [f"  = note: {note}" for note in diagnostic.notes]
    lines += [f"  = help: {text}" for text in diagnostic.help]
    return "\n".join(without_controls(encodable(line)) for line in lines)


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


def _label(label: Label) -> list[str]:
    if label.span is None:
        return [f"  = {label.message}"] if label.message else []
    source = label.source if label.source is not None else _source_line(label.span)
    message = "" if label.message == "here" else label.message
    if source is None:
        return [f"  --> {label.span}{': ' if message else ''}{message}"]
    source = source.rstrip("\r")
    gutter = " " * len(str(label.span.line))
    lines = [f" {gutter}--> {label.span}", f" {label.span.line} | {source}"]
    if label.span.column:
        # Tabs keep their width in the line of the caret.
        before = source[: label.span.column - 1]
        blank = "".join(char if char == "\t" else " " for char in before)
        width = max(label.span.end_column - label.span.column, 1)
        lines.append(f" {gutter} | {blank}{'^' * width} {message}".rstrip())
    elif message:
        lines.append(f" {gutter} = {message}")
    return lines


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
                    return line.rstrip("\n")[:400]
    except (OSError, ValueError):
        return None
    return None


def as_json(diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """Plain values: code, severity, message, labels (message, file, line, column), notes, help, subject, and the
    reason of a suppressed finding."""
    return [
        {
            "code": each.code,
            "severity": each.severity.name.lower(),
            "message": encodable(each.message),
            "labels": [
                {"message": encodable(label.message)}
                | ({} if label.span is None else {"file": encodable(label.span.file), "line": label.span.line})
                | ({} if label.span is None or not label.span.column else {"column": label.span.column})
                for label in each.labels
            ],
            "notes": [encodable(text) for text in each.notes],
            "help": [encodable(text) for text in each.help],
        }
        | ({} if each.subject is None else {"subject": each.subject.as_json()})
        | ({} if not each.suppressed else {"suppressed": encodable(each.suppressed)})
        for each in diagnostics
    ]


def render_json(diagnostics: Sequence[Diagnostic]) -> str:
    """`{"diagnostics": [...]}`, and `"suppressed": [...]` where comments accept findings."""
    document = {"diagnostics": as_json([each for each in diagnostics if not each.suppressed])}
    if suppressed := as_json([each for each in diagnostics if each.suppressed]):
        document["suppressed"] = suppressed
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def render_sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """SARIF 2.1.0, one run; paths as they were given."""
    rules = sorted({each.code for each in diagnostics})
    results = []
    for each in diagnostics:
        places = [_location(label) for label in each.labels if label.span is not None]
        result: dict[str, Any] = {
            "ruleId": each.code,
            "ruleIndex": rules.index(each.code),
            "level": SARIF_LEVEL[each.severity],
            "message": {"text": encodable("\n".join([each.message, *each.notes, *each.help]))},
        }
        if places:
            result["locations"] = places[:1]
            result["relatedLocations"] = [{"id": at, **place} for at, place in enumerate(places[1:], 1)]
        if each.suppressed:
            result["suppressions"] = [{"kind": "inSource", "justification": encodable(each.suppressed)}]
        results.append(result)
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "haulout", "rules": [{"id": rule} for rule in rules]}},
                "results": results,
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _location(label: Label) -> dict[str, Any]:
    span = label.span or Span("")
    region = {"startLine": max(span.line, 1)} | ({"startColumn": span.column} if span.column else {})
    return {
        "physicalLocation": {"artifactLocation": {"uri": encodable(span.file)}, "region": region},
        "message": {"text": encodable(label.message)},
    }
