"""Colours of findings on a terminal. What is coloured is plain text before: control characters are gone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from haulout.support.diagnostics import Severity

RESET, BOLD, BLUE, CYAN, GREEN = "\x1b[0m", "\x1b[1m", "\x1b[1;34m", "\x1b[36m", "\x1b[32m"
OF_SEVERITY = {Severity.NOTE: CYAN, Severity.WARNING: "\x1b[1;33m", Severity.ERROR: "\x1b[1;31m"}

_GUTTER = re.compile(r"( *(?:-->|\d+ \||\|))(.*)")
_CARET = re.compile(r"(\s*)(\^+)(.*)")


def wants_colour(stream: Any) -> bool:
    """Whether a stream is a terminal that shows colours, and the user has not set NO_COLOR (see no-color.org)."""
    try:
        terminal = bool(stream.isatty())
    except (AttributeError, ValueError):  # no stream, or a closed one
        return False
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(lines: Iterable[str], severity: Severity) -> list[str]:
    """The lines of one finding: the first one with its severity, carets, numbers of lines, notes and help."""
    first, *rest = lines
    head, colon, message = first.partition("]:")
    title = f"{OF_SEVERITY[severity]}{head}{colon}{RESET}{BOLD}{message}{RESET}"
    return [title, *(_line(each, severity) for each in rest)]


def _line(line: str, severity: Severity) -> str:
    for mark, colour in (("  = note:", CYAN), ("  = help:", GREEN)):
        if line.startswith(mark):
            return f"{colour}{mark}{RESET}{line[len(mark) :]}"
    found = _GUTTER.fullmatch(line)
    if found is None:
        return line
    gutter, text = found.groups()
    if gutter.endswith(" |") and gutter.strip() == "|" and (caret := _CARET.fullmatch(text)):
        text = f"{caret[1]}{OF_SEVERITY[severity]}{caret[2]}{RESET}{caret[3]}"
    return f"{BLUE}{gutter}{RESET}{text}"
