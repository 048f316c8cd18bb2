"""The formats of findings, the values of `--format`. Those that few runs print are imported when they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from haulout.support.diagnostics import Diagnostic
from haulout.support.render import NOTHING, About, render_json, render_text


class Renderer(Protocol):
    """Findings as text."""

    def __call__(self, diagnostics: Sequence[Diagnostic], about: About = NOTHING, /) -> str:
        """The text of the findings."""


def _concise(diagnostics: Sequence[Diagnostic], about: About = NOTHING, /) -> str:
    from haulout.support.render_lines import render_concise

    return render_concise(diagnostics, about)


def _github(diagnostics: Sequence[Diagnostic], about: About = NOTHING, /) -> str:
    from haulout.support.render_lines import render_github

    return render_github(diagnostics, about)


def _sarif(diagnostics: Sequence[Diagnostic], about: About = NOTHING, /) -> str:
    from haulout.support.sarif import render_sarif

    return render_sarif(diagnostics, about)


RENDERERS: dict[str, Renderer] = {
    "text": render_text,
    "concise": _concise,
    "github": _github,
    "json": render_json,
    "sarif": _sarif,
}
LINES = ("text", "concise", "github")
"""Those that are empty without findings."""
