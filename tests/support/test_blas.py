"""BLAS uses one thread while a program runs, and as many as before afterwards."""

from __future__ import annotations

from pathlib import Path

import haulout
from haulout.support import blas


def test_the_number_of_threads_comes_back() -> None:
    controls = blas._controls()
    assert controls, "NumPy's wheel has OpenBLAS"
    before = [get() for get, _ in controls]
    with blas.one_thread():
        assert [get() for get, _ in controls] == [1] * len(controls)
    assert [get() for get, _ in controls] == before


def test_a_simulation_uses_one_thread() -> None:
    controls = blas._controls()
    seen: list[int] = []
    source = Path(__file__).parents[2] / "examples/race/sum_fixed.bir"
    haulout.simulate(haulout.load(source), progress=lambda done, total: seen.extend(get() for get, _ in controls))
    assert seen[0] == 1
