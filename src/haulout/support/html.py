"""Small HTML tables, for notebooks. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], more: str = "") -> str:
    """A table with a caption."""
    head = "".join(f"<th>{escape(each)}</th>" for each in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    below = f"<p>{escape(more)}</p>" if more else ""
    caption = f'<caption style="text-align:left"><b>{escape(title)}</b></caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
