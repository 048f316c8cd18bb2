"""Kernels: lazy, the same compiled and interpreted, callable from one another."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from numpy.typing import NDArray

from haulout.support.jit import interpreted, njit


@njit
def _double(x: int) -> int:
    """Twice x."""
    return 2 * x


@njit
def _total(values: NDArray[np.int64]) -> int:
    total = 0
    for value in values:
        total += _double(value)
    return total


def test_compiled_and_interpreted_agree() -> None:
    values = np.arange(5)
    with interpreted():
        plain = _total(values)
    assert plain == _total(values) == 20
    assert _total.is_ready


def test_keeps_name_and_docstring() -> None:
    assert _double.__doc__ == "Twice x."
    assert _double.__name__ == "_double"  # type: ignore[attr-defined]


def test_interpreted_ends_with_its_block() -> None:
    calls = []

    def probe(x: int) -> int:
        calls.append(x)
        return x

    kernel = njit(probe)
    with interpreted():
        kernel(1)
    assert calls == [1]
    assert not kernel.is_ready


def test_numba_is_imported_late() -> None:
    """Neither importing the planner nor a small problem imports Numba."""
    code = (
        "import sys; from haulout.passes.allocator import plan; s = plan([0, 1, 2], [2, 3, 4], [64, 32, 64]);"
        "assert s.peak == 128, s; assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
