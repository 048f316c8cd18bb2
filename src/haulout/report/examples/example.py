"""The form of an example of a code."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A few small files, a command, and its finding."""

    files: dict[str, str]
    """Name -> text."""
    command: str
    """Run in a folder that holds the files: `haulout ...` or `python FILE`."""
    finding: str
    """The line of its output that names the code, without the place."""
