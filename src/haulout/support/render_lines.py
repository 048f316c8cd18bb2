"""Renderers of one line a finding: for editors, and for the checks of GitHub."""

from __future__ import annotations

from collections.abc import Sequence

from haulout.support.diagnostics import Diagnostic, Severity, Span
from haulout.support.render import NOTHING, About, encodable, input_file, without_controls

_COMMANDS = {Severity.NOTE: "notice", Severity.WARNING: "warning", Severity.ERROR: "error"}
_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY_ESCAPES = _ESCAPES | str.maketrans({":": "%3A", ",": "%2C"})


def render_concise(diagnostics: Sequence[Diagnostic], _about: About = NOTHING) -> str:
    """`FILE:LINE:COLUMN: SEVERITY[CODE]: MESSAGE`; what is not known is left out."""
    return "\n".join(_concise(each) for each in diagnostics)


def _concise(each: Diagnostic) -> str:
    span = _first_span(each)
    place = "" if span is None else f"{span}: "
    return without_controls(encodable(f"{place}{each.severity.name.lower()}[{each.code}]: {each.message}"))


def render_github(diagnostics: Sequence[Diagnostic], _about: About = NOTHING) -> str:
    """Workflow commands of GitHub's actions, which show the finding on its line."""
    return "\n".join(_command(each) for each in diagnostics)


def _command(each: Diagnostic) -> str:
    span = _first_span(each)
    values: dict[str, object] = {}
    if span is not None:
        values["file"] = encodable(span.file)
        values |= {"line": span.line} if span.line else {}
        values |= {"col": span.column} if span.column else {}
        values |= {"endColumn": span.end_column - 1} if 0 < span.column < span.end_column else {}
    values["title"] = each.code
    properties = ",".join(f"{key}={str(value).translate(_PROPERTY_ESCAPES)}" for key, value in values.items())
    text = "\n".join([each.message, *each.notes, *(f"help: {line}" for line in each.help)])
    return f"::{_COMMANDS[each.severity]} {properties}::{encodable(text).translate(_ESCAPES)}"


def _first_span(each: Diagnostic) -> Span | None:
    """The place of the first label that has one, else the input."""
    return each.span or (Span(input_file(each.input)) if each.input else None)
