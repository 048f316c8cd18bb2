"""The formats of findings, the values of `--format`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from haulout.support.diagnostics import Diagnostic
from haulout.support.render import NOTHING, About, render_json, render_text
from haulout.support.render_lines import render_concise, render_github
from haulout.support.sarif import render_sarif


class Renderer(Protocol):
    """Findings as text."""

    def __call__(self, diagnostics: Sequence[Diagnostic], about: About = NOTHING, /) -> str:
        """The text of the findings."""


RENDERERS: dict[str, Renderer] = {
    "text": render_text,
    "concise": render_concise,
    "github": render_github,
    "json": render_json,
    "sarif": render_sarif,
}
LINES = ("text", "concise", "github")
"""Those that are empty without findings."""
