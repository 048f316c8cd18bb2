"""How much memory a call takes at its peak."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes allocated at one time while `call` runs, its result included."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
