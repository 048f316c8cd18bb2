"""The documentation site: every page of the project, with search and the API reference. `make docs` builds it.

Sphinx reads from the project's root, since the first page is its README. The pages are plain Markdown, which reads
well elsewhere too. docs/api/*.rst names the modules of the API reference; their docstrings are its text. The table
of contents is made from docs/README.md, so that there is one list of pages.
"""

from __future__ import annotations

import re
import shutil
from importlib import metadata
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent

project = "haulout"
release = metadata.version("haulout")
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "docs/api/*.rst"]
exclude_patterns = [".*"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]

myst_heading_anchors = 4
highlight_language = "none"
default_role = "code"
"""Docstrings put code into single backquotes."""

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"haulout {release}"
html_copy_source = False


def navigation() -> str:
    """The sections of docs/README.md that list pages, as tables of contents."""
    parts = []
    for title, body in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", (DOCS / "README.md").read_text(), re.MULTILINE):
        pages = re.findall(r"^\| \[.*?\]\((.*?)\.(?:md|rst)\)", body, re.MULTILINE)
        if pages:
            parts.append(_contents(title, [f"docs/{page}" for page in pages]))
    return "\n".join([*parts, _contents("The project", ["docs/README", "CONTRIBUTING", "CHANGELOG"])])


def _contents(title: str, pages: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def _add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += "\n" + navigation()


def _literal_blocks(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Docstrings indent code after a blank line, as Markdown does; reStructuredText wants `::` before it."""
    for at in range(1, len(lines) - 1):
        before, after = lines[at - 1], lines[at + 1]
        if not lines[at] and after.startswith("    ") and before and not before.startswith((" ", "-")):
            lines[at - 1] = before + ":" if before.endswith(":") else before + " ::"


def _copy_first_page(app: Sphinx, error: Exception | None) -> None:
    """Browsers and servers look for index.html."""
    if error is None and app.builder.name == "html":
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", _add_navigation)
    app.connect("autodoc-process-docstring", _literal_blocks)
    app.connect("build-finished", _copy_first_page)
