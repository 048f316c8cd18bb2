"""Findings that need no order: each on a kernel that has it, none on the kernel that is put right."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frontends.nki.nki_kernels import TWO_CORE, checked, codes

import haulout.nki as hnki

X = {"x": hnki.tensor("f32", 64, 16)}


def test_shared_allocations_that_differ_between_cores(tmp_path: Path) -> None:
    body = """
        def kernel(x):
            if nl.program_id(0) == {first}:
                extra = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
            shared = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        """
    found = checked(tmp_path, body.format(first=1), X)
    assert "shared-allocation-mismatch" in codes(found)
    finding = next(each for each in found.diagnostics if each.code == "shared-allocation-mismatch")
    assert [label.span.line for label in finding.labels if label.span] == [10, 9]
    assert codes(checked(tmp_path, body.format(first=2), X)) == []


@pytest.mark.parametrize(
    ("allocation", "code"),
    [
        ("nl.ndarray((129, 4), dtype=nl.float32, buffer=nl.sbuf)", "partition-limit"),
        ("nl.ndarray((64, 4), dtype=nl.float32, buffer=nl.sbuf, address=(96, 0))", "partition-limit"),
        ("nl.ndarray((128, 65536), dtype=nl.float32, buffer=nl.sbuf)", "over-capacity"),
        ("nl.ndarray((128, 5000), dtype=nl.float32, buffer=nl.psum)", "over-capacity"),
        ("nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 229370))", "over-capacity"),
        ("nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)", None),
        ("nl.ndarray((128, 16384), dtype=nl.float32, buffer=nl.sbuf)", None),
    ],
)
def test_capacity_of_one_tensor(tmp_path: Path, allocation: str, code: str | None) -> None:
    body = f"def kernel(x):\n    tile = {allocation}\n    nisa.memset(tile, 0.0)\n"
    assert codes(checked(tmp_path, body, X, lnc=1)) == ([] if code is None else [code])


@pytest.mark.parametrize(("together", "expected"), [(True, ["over-capacity"]), (False, [])])
def test_capacity_of_what_lives_at_one_time(tmp_path: Path, together: bool, expected: list[str]) -> None:
    use = "nisa.tensor_tensor(first, first, second, nl.add)" if together else "pass"
    body = f"""
        def kernel(x):
            first = nl.ndarray((128, 32768), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(first, 0.0)
            second = nl.ndarray((128, 32768), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(second, 1.0)
            {use}
        """
    assert codes(checked(tmp_path, body, X, lnc=1)) == expected


SPLIT = """
def kernel(x):
    core = nl.program_id(0)
    tile = nl.ndarray((32, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap([[16, 32], [1, 16]], offset={offset}))
"""


def test_an_offset_in_elements_where_rows_are_meant(tmp_path: Path) -> None:
    found = checked(tmp_path, SPLIT.format(offset="32 * core"), X)
    assert codes(found) == ["overlapping-split"]
    assert "32 rows would be 2048 bytes" in found.diagnostics[0].help[0]
    assert codes(checked(tmp_path, SPLIT.format(offset="32 * 16 * core"), X)) == []


def test_parts_that_interleave_do_not_overlap(tmp_path: Path) -> None:
    body = """
        def kernel(x):
            core = nl.program_id(0)
            tile = nl.ndarray((30, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x.ap([[32, 30], [1, {count}]], offset=16 * core))
        """
    assert codes(checked(tmp_path, body.format(count=16), X)) == []
    wide = body.replace("(30, 16)", "(30, 17)").format(count=17)
    assert codes(checked(tmp_path, wide, X)) == ["overlapping-split"]


def test_barrier_on_a_tensor_that_is_not_shared(tmp_path: Path) -> None:
    found = codes(checked(tmp_path, TWO_CORE.format(meet="nisa.core_barrier(mine, (0, 1))"), {"x": X["x"]}))
    assert "barrier-not-shared" in found
    assert "cross-core-race" in found


def test_adjacent_barriers_are_one(tmp_path: Path) -> None:
    twice = "nisa.core_barrier(shared, (0, 1)); nisa.core_barrier(shared, (0, 1))"
    arguments = {"x": hnki.tensor("f32", 2, 512)}
    assert codes(checked(tmp_path, TWO_CORE.format(meet=twice), arguments)) == ["adjacent-barriers"]
    apart = twice.replace(";", "; nisa.memset(mine, 0.0);")
    assert codes(checked(tmp_path, TWO_CORE.format(meet=apart), arguments)) == ["adjacent-barriers"]
    used = twice.replace(";", "; nisa.dma_copy(dst=mine, src=shared[0:1, :]);")
    assert "adjacent-barriers" not in codes(checked(tmp_path, TWO_CORE.format(meet=used), arguments))


def test_a_barrier_that_orders_nothing(tmp_path: Path) -> None:
    body = TWO_CORE.format(meet="nisa.core_barrier(shared, (0, 1))").replace(
        "    return out", "    nisa.core_barrier(out, (0, 1))\n    return out"
    )
    found = checked(tmp_path, body, {"x": hnki.tensor("f32", 2, 512)})
    assert codes(found) == ["redundant-barrier"]
    assert " of out " in found.diagnostics[0].message


LOOP = """
def kernel(x, count):
    core = nl.program_id(0)
    shared = nl.ndarray((2, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, 16), dtype=nl.float32, buffer=nl.sbuf)
    counted = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[core : core + 1, :])
    nisa.dma_copy(dst=counted, src=count)
    for _ in nl.dynamic_range(0, nisa.register_alloc(counted)):
        nisa.dma_copy(dst=shared[core : core + 1, :], src=tile)
        nisa.core_barrier(shared, (0, 1))
        nisa.dma_copy(dst=tile, src=shared[1 - core : 2 - core, :])
        nisa.core_barrier(shared, (0, 1))
"""


def test_a_barrier_at_a_loops_end_orders_the_next_iteration(tmp_path: Path) -> None:
    arguments = {**X, "count": hnki.tensor("i32", 1, 1)}
    assert codes(checked(tmp_path, LOOP, arguments)) == []
    assert "redundant-barrier" in codes(
        checked(tmp_path, LOOP.replace("1 - core : 2 - core", "core : core + 1"), arguments)
    )


def test_an_output_that_is_not_all_written(tmp_path: Path) -> None:
    body = """
        def kernel(x):
            core, half = nl.program_id(0), x.shape[0] // 2
            tile = nl.ndarray((half, 16), dtype=nl.float32, buffer=nl.sbuf)
            out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=tile, src=x[nl.ds(core * half, half), :])
            nisa.dma_copy(dst=out[nl.ds(core * half, half), :], src=tile)
            return out
        """
    assert codes(checked(tmp_path, body, X)) == []
    odd = checked(tmp_path, body, {"x": hnki.tensor("f32", 65, 16)})
    assert codes(odd) == ["output-not-written"]


def test_tensors_at_addresses_that_the_kernel_chose(tmp_path: Path) -> None:
    body = """
        def kernel(x):
            first = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
            second = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf, address=({partition}, {address}))
            out = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=first, src=x)
            nisa.dma_copy(dst=second, src=x)
            nisa.tensor_tensor(first, first, second, nl.add)
            nisa.dma_copy(dst=out, src=first)
            return out
        """
    assert codes(checked(tmp_path, body.format(partition=0, address=32), X, lnc=1)) == ["overlapping-storage"]
    assert codes(checked(tmp_path, body.format(partition=0, address=64), X, lnc=1)) == []
    assert codes(checked(tmp_path, body.format(partition=64, address=0), X, lnc=1)) == []
