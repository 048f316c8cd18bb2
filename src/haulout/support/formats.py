"""The formats of findings, the values of `--format`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from haulout.support.diagnostics import Diagnostic
from haulout.support.render import render_json, render_sarif, render_text
from haulout.support.render_lines import render_concise, render_github

RENDERERS: dict[str, Callable[[Sequence[Diagnostic]], str]] = {
    "text": render_text,
    "concise": render_concise,
    "github": render_github,
    "json": render_json,
    "sarif": render_sarif,
}
LINES = ("text", "concise", "github")
"""Those that are empty without findings."""
