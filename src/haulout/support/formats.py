"""The formats of findings, the values of `--format`. Those that few runs print are imported when they are used."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from haulout.support.diagnostics import Diagnostic
from haulout.support.render import NOTHING, About


class Renderer(Protocol):
    """Findings as text."""

    def __call__(self, diagnostics: Sequence[Diagnostic], about: About = NOTHING, /) -> str:
        """The text of the findings."""


_WHERE = {
    "text": "haulout.support.render",
    "concise": "haulout.support.render_lines",
    "github": "haulout.support.render_lines",
    "json": "haulout.support.render",
    "sarif": "haulout.support.sarif",
}
"""The module that has `render_NAME`, by format."""
FORMATS = tuple(_WHERE)
LINES = ("text", "concise", "github")
"""Those that are empty without findings."""


def renderer(style: str) -> Renderer:
    """What prints a format."""
    return cast(Renderer, getattr(import_module(_WHERE[style]), f"render_{style}"))
