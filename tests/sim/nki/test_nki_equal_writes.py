"""Unordered writes under all schedules: equal ones are a note, as the checker says; a read between them is not."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.sim.nki.nki_run import loaded, nisa, nl, numbers, simulated, tile, traced

from haulout.nki.kernel_check import check_trace
from haulout.sim import compare_schedules


def _whole(x):
    """Both cores store 2 x."""
    out, data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), loaded(x)
    nisa.tensor_scalar(dst=data, data=data, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=data)
    return out


def _unequal(x):
    """The cores store x and 2 x."""
    out, data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), loaded(x)
    nisa.tensor_scalar(dst=data, data=data, op0=nl.multiply, operand0=1.0 + nl.program_id(0))
    nisa.dma_copy(dst=out, src=data)
    return out


def _read_between(x):
    """Both cores store x, and one reads it without waiting for the other."""
    out, scratch = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    nisa.dma_copy(dst=scratch, src=loaded(x))
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=out, src=loaded(scratch))
    return out


def _in_a_loop(x, count):
    """Both cores store x in every iteration."""
    register = nisa.register_alloc()
    nisa.register_load(register, count)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    for _ in nl.dynamic_range(register):
        staged = tile(x.shape, x.dtype)
        nisa.dma_copy(dst=staged, src=x)
        nisa.dma_copy(dst=out, src=staged)
    return out


def _codes(body: Any, *arrays: Any) -> list[tuple[str, str]]:
    found = simulated(body, *arrays, lnc=2, schedule="all")
    return [(each.code, each.severity.name) for each in found.diagnostics]


def test_equal_writes_are_a_note_for_both_judges() -> None:
    x = numbers(4, 6)
    assert _codes(_whole, x) == [("benign-duplicate-write", "NOTE")]
    checked = check_trace(traced(_whole, x, lnc=2)).diagnostics
    assert [each.code for each in checked] == ["benign-duplicate-write"]


def test_unequal_writes_are_an_error() -> None:
    assert ("cross-core-race", "ERROR") in _codes(_unequal, numbers(4, 6))
    # Twice nothing is nothing: what is equal is the values of this run.
    assert _codes(_unequal, np.zeros((4, 6), np.float32)) == [("benign-duplicate-write", "NOTE")]


def test_a_read_between_equal_writes_is_an_error() -> None:
    assert ("cross-core-race", "ERROR") in _codes(_read_between, numbers(4, 6))


def test_equal_writes_of_all_iterations_are_a_note() -> None:
    codes = _codes(_in_a_loop, numbers(4, 6), np.array([[3]], np.float32))
    assert set(codes) == {("benign-duplicate-write", "NOTE")}


def test_a_comparison_without_values_stays_exact() -> None:
    found = simulated(_whole, numbers(4, 6), lnc=2)
    assert not compare_schedules(found.program).agrees
    assert compare_schedules(found.program, excuse_equal=True).agrees
