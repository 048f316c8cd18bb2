"""Values for names by patterns: `{"layers.*.attn.wq.weight": spec}`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from haulout.support.diagnostics import Diagnostics, Severity

T = TypeVar("T")


def by_pattern(patterns: Mapping[str, T], names: Sequence[str], what: str) -> dict[str, T]:
    """Of each name that a pattern matches the value of the first one that does, in the order of `patterns`.

    Patterns are those of `fnmatch`: `*` also matches dots. A name matches itself, whatever brackets it has. Raises
    `bad-input` with each pattern that decides nothing; `what` says what the names are.
    """
    chosen: dict[str, T] = {}
    found = Diagnostics()
    for pattern, value in patterns.items():
        matched = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if matched and all(name in chosen for name in matched):
            message = f"{pattern!r} decides no {what}: patterns before it match all that it matches"
            found.add("bad-input", Severity.ERROR, message, help=["put it before them, or leave it out"])
        elif not matched:
            near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.5) or list(names[:5])
            hints = ["one of the nearest names: " + ", ".join(near)] if near else [f"there is no {what}"]
            found.add("bad-input", Severity.ERROR, f"{pattern!r} matches no {what}", help=hints)
        for name in matched:
            chosen.setdefault(name, value)
    found.raise_if_errors()
    return chosen
