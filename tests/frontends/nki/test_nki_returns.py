"""What the cores return is one set of tensors; shared allocations are one tensor by name, or by order without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frontends.nki.nki_kernels import checked, codes, write_kernel

import haulout
import haulout.nki as hnki
from haulout.support.diagnostics import Diagnostic

X = {"x": hnki.tensor("f32", 2, 16)}

TWO_OUTPUTS = """
def kernel(x):
    core = nl.program_id(0)
    low = nl.ndarray((2, 16), dtype=nl.float32, buffer=nl.shared_hbm, name="low")
    high = nl.ndarray((2, 16), dtype=nl.float32, buffer=nl.shared_hbm, name="high")
    tile = nl.ndarray((1, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[core : core + 1, :])
    nisa.dma_copy(dst=low[core : core + 1, :], src=tile)
    nisa.dma_copy(dst=high[core : core + 1, :], src=tile)
    return {result}
"""


def finding(found: list[Diagnostic], code: str) -> Diagnostic:
    return next(each for each in found if each.code == code)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("(low, high) if core == 0 else (high, low)", "another order: result 0 is low on core 0 and high on core 1"),
        (
            "(low, high) if core == 0 else (low, low)",
            "different tensors: result 1 is high on core 0 and low on core 1",
        ),
        ("(low, high) if core == 0 else low", "result 1 is high on core 0 and nothing on core 1"),
        ("[low, high] if core == 0 else None", "result 0 is low on core 0 and nothing on core 1"),
        ("None if core == 0 else low", "result 0 is nothing on core 0 and low on core 1"),
        ("(None, low) if core == 0 else (low, None)", "result 0 is nothing on core 0 and low on core 1"),
        ("low[core : core + 1, :]", "result 0 is low: float32[1, 16] in shared_hbm at element 0 on core 0"),
        ("low if core == 0 else low.reshape((1, 32))", "result 0 is low: float32[2, 16] in shared_hbm"),
    ],
)
def test_cores_that_return_different_tensors(tmp_path: Path, result: str, says: str) -> None:
    found = checked(tmp_path, TWO_OUTPUTS.format(result=result), X).diagnostics
    mismatch = finding(found, "return-mismatch")
    assert says in mismatch.message
    source = (tmp_path / "kernels.py").read_text().splitlines()
    assert mismatch.labels[0].span is not None
    assert source[mismatch.labels[0].span.line - 1].lstrip().startswith("return")


def test_compile_says_so_too(tmp_path: Path) -> None:
    kernel = write_kernel(tmp_path, TWO_OUTPUTS.format(result="(low, high) if core == 0 else (high, low)"))
    compiled = haulout.compile(kernel, arguments=X)
    assert "return-mismatch" in {each.code for each in compiled.diagnostics}
    assert not compiled.ok


@pytest.mark.parametrize("result", ["low, high", "[low, {'h': high}]", "low, (high, None, 3)", "None"])
def test_cores_that_return_the_same(tmp_path: Path, result: str) -> None:
    assert codes(checked(tmp_path, TWO_OUTPUTS.format(result=result), X)) == []


def test_results_that_no_core_shares_are_compared_by_their_looks(tmp_path: Path) -> None:
    body = TWO_OUTPUTS.format(result="low, high, tile{part}")
    assert codes(checked(tmp_path, body.format(part=""), X)) == []
    assert codes(checked(tmp_path, body.format(part="[:, 0 : 8 + core]"), X)) == ["return-mismatch"]


ALLOCATIONS = """
def kernel(x):
    core = nl.program_id(0)
    {allocations}
    tile = nl.ndarray((1, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[core : core + 1, :])
    nisa.dma_copy(dst=first[core : core + 1, :], src=tile)
    {meet}
    nisa.dma_copy(dst=tile, src=first[1 - core : 2 - core, :])
    nisa.dma_copy(dst=second[core : core + 1, :], src=tile)
    return second
"""
MEET = "nisa.core_barrier(first, (0, 1))"
NAMED = 'first = nl.ndarray((2, 16), dtype=nl.float32, buffer=nl.shared_hbm, name="first")'
UNNAMED = "second = nl.ndarray((2, 16), dtype=nl.float32, buffer=nl.shared_hbm)"
ALSO_NAMED = UNNAMED.replace("shared_hbm)", 'shared_hbm, name="second")')


def by_core(one: str, other: str) -> str:
    """Both allocations, in this order on core 0 and in the other on core 1."""
    return f"if core == 0:\n        {one}\n        {other}\n    else:\n        {other}\n        {one}"


@pytest.mark.parametrize("second", [UNNAMED, ALSO_NAMED])
def test_allocations_in_another_order_are_said_and_matched_by_name(tmp_path: Path, second: str) -> None:
    crossed = by_core(NAMED, second)
    found = checked(tmp_path, ALLOCATIONS.format(allocations=crossed, meet=MEET), X)
    assert codes(found) == ["shared-allocation-mismatch"]
    mismatch = finding(found.diagnostics, "shared-allocation-mismatch")
    assert "shared allocation 0 has a different name on core 1" in mismatch.message
    assert [label.message.partition(":")[0] for label in mismatch.labels] == ["core 0", "core 1"]
    # `first` is one tensor on both cores: without the barrier they race on it.
    without = codes(checked(tmp_path, ALLOCATIONS.format(allocations=crossed, meet="pass"), X))
    assert "cross-core-race" in without


def test_allocations_in_one_order_are_clean(tmp_path: Path) -> None:
    for second in (UNNAMED, ALSO_NAMED):
        same = f"{NAMED}\n    {second}"
        assert codes(checked(tmp_path, ALLOCATIONS.format(allocations=same, meet=MEET), X)) == []


def test_a_name_on_one_core_only(tmp_path: Path) -> None:
    one_named = 'nl.ndarray((2, 16), dtype=nl.float32, buffer=nl.shared_hbm, name="first" if core else None)'
    body = ALLOCATIONS.format(allocations=f"first = {one_named}\n    {UNNAMED}", meet=MEET)
    assert "shared-allocation-mismatch" in codes(checked(tmp_path, body, X))


def test_tensors_of_one_name_are_matched_by_their_count(tmp_path: Path) -> None:
    twice = f"{NAMED}\n    {NAMED.replace('first =', 'second =')}"
    assert codes(checked(tmp_path, ALLOCATIONS.format(allocations=twice, meet=MEET), X)) == []
