"""Sets of bytes, one object for each, so that results can be looked up by identity.

Instructions of an unrolled loop repeat the same questions, so most results are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from haulout.checker.values.byte_flow import Runs

_MAX_ANSWERS = 1 << 15
"""Results that are kept."""


class Sets:
    """Known sets of bytes, and results by the identities of the arguments."""

    def __init__(self) -> None:
        self._known: dict[bytes, Runs] = {}
        self._answers: dict[tuple[Any, ...], tuple[Runs, tuple[Any, ...]]] = {}

    def one(self, runs: Runs) -> Runs:
        """The one object for all equal sets."""
        return self._known.setdefault(runs[0].tobytes() + runs[1].tobytes(), runs)

    def made(self, function: Callable[..., Runs], *parts: Any) -> Runs:
        """`function(*parts)` as one object; parts are sets, extents and other objects that compare by identity."""
        key = (function, *(id(part) for part in parts))
        if key not in self._answers:
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
                self._known.clear()
            # The parts are kept, so that no other object takes their place in memory.
            self._answers[key] = self.one(function(*parts)), parts
        return self._answers[key][0]
