"""Sets of bytes, one object for each, so that what was computed of them once is known.

Instructions of a loop that was unrolled do the same over and over: most of what is asked was asked before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from haulout.checker.values.byte_flow import Runs

_MOST = 1 << 15
"""Answers that are kept."""


class Sets:
    """Known sets of bytes, and answers by the objects that were asked of."""

    def __init__(self) -> None:
        self._known: dict[bytes, Runs] = {}
        self._answers: dict[tuple[Any, ...], tuple[Runs, tuple[Any, ...]]] = {}

    def one(self, runs: Runs) -> Runs:
        """The object that stands for all equal sets."""
        return self._known.setdefault(runs[0].tobytes() + runs[1].tobytes(), runs)

    def made(self, function: Callable[..., Runs], *parts: Any) -> Runs:
        """`function(*parts)`, as one object; parts are sets and extents that live on, or compare by identity."""
        key = (function, *(id(part) for part in parts))
        if key not in self._answers:
            if len(self._answers) >= _MOST:
                self._answers.clear()
                self._known.clear()
            # The parts are kept, so that no other object takes their place in memory.
            self._answers[key] = self.one(function(*parts)), parts
        return self._answers[key][0]
