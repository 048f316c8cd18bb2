"""Keep what libraries in C print away from stdout, which is for results."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def c_output_to_stderr() -> Iterator[None]:
    """Within the block, what C code prints to stdout goes to stderr; nothing is lost."""
    try:
        saved = os.dup(1)
    except OSError:  # stdout is closed
        yield
        return
    try:
        _flush()
        os.dup2(2, 1)
        yield
    finally:
        _flush()
        os.dup2(saved, 1)
        os.close(saved)


def _flush() -> None:
    """Write out what Python and C have in their buffers for stdout."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or replaced by an object without `flush`
        sys.stdout.flush()
    with suppress(OSError, TypeError, AttributeError):  # a platform without a C library of this kind
        ctypes.CDLL(None).fflush(None)
