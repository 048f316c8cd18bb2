"""Order between cores: what `core_barrier` and `sendrecv` guarantee in each reading, and what they do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frontends.nki.nki_kernels import TWO_CORE, checked, codes, write_kernel

import haulout
import haulout.nki as hnki
from haulout.support.diagnostics import Severity

X = {"x": hnki.tensor("f32", 2, 512)}
SCOPES = ("data", "global")


@pytest.mark.parametrize("scope", SCOPES)
def test_a_barrier_on_the_tensor_orders_it(tmp_path: Path, scope: hnki.BarrierScope) -> None:
    found = checked(tmp_path, TWO_CORE.format(meet="nisa.core_barrier(shared, (0, 1))"), X, barrier_scope=scope)
    assert codes(found) == []


@pytest.mark.parametrize("scope", SCOPES)
def test_no_barrier_is_a_race_with_both_lines(tmp_path: Path, scope: hnki.BarrierScope) -> None:
    found = checked(tmp_path, TWO_CORE.format(meet="pass"), X, barrier_scope=scope)
    races = [each for each in found.diagnostics if each.code == "cross-core-race"]
    assert races
    lines = {label.span.line for label in races[0].labels if label.span is not None}
    source = Path(found.trace.place[0]).read_text().splitlines()
    assert {source[line - 1].strip() for line in lines} == {
        "nisa.dma_copy(dst=both, src=shared)",
        "nisa.dma_copy(dst=shared[core : core + 1, :], src=mine)",
    }
    assert any("nisa.core_barrier" in text for text in races[0].help)


def test_a_barrier_on_another_tensor_orders_it_in_the_global_reading_only(tmp_path: Path) -> None:
    body = TWO_CORE.format(meet="nisa.core_barrier(out, (0, 1))")
    assert "cross-core-race" in codes(checked(tmp_path, body, X))
    assert "cross-core-race" not in codes(checked(tmp_path, body, X, barrier_scope="global"))


def test_a_barrier_before_the_write_orders_nothing(tmp_path: Path) -> None:
    body = TWO_CORE.format(meet="pass").replace(
        "    nisa.dma_copy(dst=shared[core",
        "    nisa.core_barrier(shared, (0, 1))\n    nisa.dma_copy(dst=shared[core",
    )
    assert codes(checked(tmp_path, body, X)) == ["cross-core-race", "redundant-barrier"]


def test_a_barrier_of_one_core_is_a_mismatch(tmp_path: Path) -> None:
    body = TWO_CORE.format(meet="(nisa.core_barrier(shared, (0, 1)) if core == 0 else None)")
    assert codes(checked(tmp_path, body, X)) == ["barrier-mismatch"]


def test_barriers_in_inverted_order_are_shown_as_such(tmp_path: Path) -> None:
    body = TWO_CORE.format(
        meet="[nisa.core_barrier(t, (0, 1)) for t in ((shared, out) if core == 0 else (out, shared))]"
    )
    found = [each for each in checked(tmp_path, body, X).diagnostics if each.code == "barrier-mismatch"]
    assert found
    assert any("inverted" in note for note in found[0].notes)


EXCHANGE = """
def kernel(x):
    core = nl.program_id(0)
    mine = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    theirs = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=mine, src=x[core : core + 1, :])
    {exchange}
    nisa.tensor_tensor(dst=mine, data1=mine, data2=theirs, op=nl.{op})
    nisa.dma_copy(dst=out{part}, src=mine)
    return out
"""
SENDRECV = "nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)"


def test_sendrecv_delivers(tmp_path: Path) -> None:
    body = EXCHANGE.format(exchange=SENDRECV, op="add", part="[core : core + 1, :]")
    assert codes(checked(tmp_path, body, X)) == []


def test_without_the_exchange_the_tile_was_never_written(tmp_path: Path) -> None:
    body = EXCHANGE.format(exchange="pass", op="add", part="[core : core + 1, :]")
    assert "uninitialized-read" in codes(checked(tmp_path, body, X))


def test_sendrecv_without_partner(tmp_path: Path) -> None:
    body = EXCHANGE.format(
        exchange=f"({SENDRECV} if core == 0 else nisa.memset(theirs, 0.0))", op="add", part="[core : core + 1, :]"
    )
    found = checked(tmp_path, body, X)
    assert any(each.severity is Severity.ERROR and "sendrecv" in each.message for each in found.diagnostics)


def test_sendrecv_to_oneself_waits_for_ever(tmp_path: Path) -> None:
    body = EXCHANGE.format(
        exchange="nisa.sendrecv(src=mine, dst=theirs, send_to_rank=0, recv_from_rank=0, pipe_id=0)",
        op="add",
        part="[core : core + 1, :]",
    )
    assert not checked(tmp_path, body, X).ok


# -- the same values from both cores ---------------------------------------------------------------------------------


def test_both_cores_storing_the_same_sum_is_benign(tmp_path: Path) -> None:
    found = checked(tmp_path, EXCHANGE.format(exchange=SENDRECV, op="add", part="[0:1, :]"), X, lnc=2)
    assert "benign-duplicate-write" in codes(found)
    assert "cross-core-race" not in codes(found)


def test_the_compiled_kernel_is_no_race_either(tmp_path: Path) -> None:
    for op, races in (("add", False), ("subtract", True)):
        kernel = write_kernel(tmp_path, EXCHANGE.format(exchange=SENDRECV, op=op, part="[0:1, :]"))
        found = {each.code for each in haulout.compile(kernel, arguments=X).diagnostics}
        assert ("cross-core-race" in found) == races
        assert ("benign-duplicate-write" in found) != races


def test_a_difference_is_not_the_same_on_both_cores(tmp_path: Path) -> None:
    found = checked(tmp_path, EXCHANGE.format(exchange=SENDRECV, op="subtract", part="[0:1, :]"), X)
    assert "cross-core-race" in codes(found)
    assert "benign-duplicate-write" not in codes(found)


SAME = """
def kernel(x):
    core = nl.program_id(0)
    tile = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=x)
    {work}
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


@pytest.mark.parametrize(
    ("work", "benign"),
    [
        ("pass", True),
        ("nisa.activation(dst=tile, op=nl.exp, data=tile, scale=0.5)", True),
        ("nisa.activation(dst=tile, op=nl.exp, data=tile, scale=0.5 * (core + 1))", False),
        ("nisa.activation(dst=tile, op=nl.exp if core else nl.log, data=tile)", False),
        ("nisa.dma_copy(dst=tile[core : core + 1, :], src=x[0:1, :])", False),
        ("nisa.memset(tile, float(core))", False),
        ("nisa.memset(tile, 3.0)", True),
    ],
)
def test_duplicates_are_told_by_value(tmp_path: Path, work: str, benign: bool) -> None:
    found = codes(checked(tmp_path, SAME.format(work=work), X))
    assert ("benign-duplicate-write" in found) == benign
    assert ("cross-core-race" in found) != benign


def test_duplicates_in_columns_that_interleave(tmp_path: Path) -> None:
    halves = "nisa.dma_copy(dst=out[:, {part}], src=tile[:, {part}])"
    work = "\n    ".join(halves.format(part=part) for part in ("0:256", "256:512"))
    body = SAME.format(work="pass").replace("nisa.dma_copy(dst=out, src=tile)", work)
    assert codes(checked(tmp_path, body, X)) == ["benign-duplicate-write"]


def test_zeros_from_both_cores_are_benign_but_not_against_results(tmp_path: Path) -> None:
    body = """
        def kernel(x):
            core = nl.program_id(0)
            zeros = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.sbuf)
            tile = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
            out = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
            nisa.memset(zeros, 0.0)
            nisa.dma_copy(dst=out, src=zeros)
            {meet}
            nisa.dma_copy(dst=tile, src=x[core : core + 1, :])
            nisa.dma_copy(dst=out[core : core + 1, :], src=tile)
            return out
        """
    clean = codes(checked(tmp_path, body.format(meet="nisa.core_barrier(out, (0, 1))"), X))
    assert clean == ["benign-duplicate-write"]
    assert "cross-core-race" in codes(checked(tmp_path, body.format(meet="pass"), X))


# -- indices that only the device knows ------------------------------------------------------------------------------

SCATTER = """
def kernel(x, index):
    core = nl.program_id(0)
    at = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=at, src=index[core : core + 1, :])
    tile = nl.ndarray((1, 256), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[core : core + 1, 0:256])
    out = nl.ndarray((8, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    column = {column}
    nisa.dma_copy(dst=out.ap([[512, 1], [1, 256]], offset=column, scalar_offset=at, indirect_dim=0), src=tile)
"""


def test_scattered_rows_in_columns_of_ones_own_are_no_race(tmp_path: Path) -> None:
    arguments = {**X, "index": hnki.tensor("i32", 2, 1)}
    assert codes(checked(tmp_path, SCATTER.format(column="256 * core"), arguments)) == []


def test_scattered_rows_that_may_be_the_same_are_a_possible_race(tmp_path: Path) -> None:
    arguments = {**X, "index": hnki.tensor("i32", 2, 1)}
    found = checked(tmp_path, SCATTER.format(column="0"), arguments)
    assert codes(found) == ["possible-race"]
    assert found.diagnostics[0].severity is Severity.WARNING


@pytest.mark.parametrize(("rows", "expected"), [([[1], [5]], []), ([[3], [3]], ["cross-core-race"])])
def test_given_indices_decide(tmp_path: Path, rows: list[list[int]], expected: list[str]) -> None:
    import numpy as np

    arguments = {**X, "index": np.array(rows, np.int32)}
    assert codes(checked(tmp_path, SCATTER.format(column="0"), arguments)) == expected


def test_declared_ranges_decide_too(tmp_path: Path) -> None:
    body = SCATTER.format(column="0").replace(
        "    tile = nl", "    nisa.tensor_scalar(dst=at, data=at, op0=nl.add, operand0=4 * core)\n    tile = nl", 1
    )
    declared = hnki.tensor("i32", 2, 1, within=(0, 4))
    assert codes(checked(tmp_path, body, {**X, "index": declared})) == []
    assert codes(checked(tmp_path, body, {**X, "index": hnki.tensor("i32", 2, 1, within=(0, 5))})) == [
        "possible-race"
    ]


# -- loops -----------------------------------------------------------------------------------------------------------

LOOP = """
def kernel(x, count):
    core = nl.program_id(0)
    shared = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    other = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[core : core + 1, :])
    counted = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=counted, src=count)
    register = nisa.register_alloc(counted)
    for _ in nl.dynamic_range(0, register):
        nisa.dma_copy(dst=shared[core : core + 1, :], src=tile)
        nisa.core_barrier(shared, (0, 1))
        nisa.dma_copy(dst=other, src=shared[1 - core : 2 - core, :])
        {behind}
"""


def test_what_one_iteration_leaves_to_the_next_is_judged(tmp_path: Path) -> None:
    arguments = {**X, "count": hnki.tensor("i32", 1, 1)}
    racy = checked(tmp_path, LOOP.format(behind="pass"), arguments)
    assert "cross-core-race" in codes(racy)
    safe = checked(tmp_path, LOOP.format(behind="nisa.core_barrier(shared, (0, 1))"), arguments)
    assert "cross-core-race" not in codes(safe)


def test_a_barrier_in_a_loop_that_may_not_run_orders_nothing_around_it(tmp_path: Path) -> None:
    body = """
        def kernel(x, count):
            core = nl.program_id(0)
            shared = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
            tile = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[core : core + 1, :])
            nisa.dma_copy(dst=shared[core : core + 1, :], src=tile)
            counted = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.dma_copy(dst=counted, src=count)
            register = nisa.register_alloc(counted)
            for _ in nl.dynamic_range(0, register):
                nisa.core_barrier(shared, (0, 1))
            nisa.dma_copy(dst=tile, src=shared[1 - core : 2 - core, :])
        """
    found = checked(tmp_path, body, {**X, "count": hnki.tensor("i32", 1, 1)})
    races = [each for each in found.diagnostics if each.code == "cross-core-race"]
    assert races
    assert any("runs zero times" in note for note in races[0].notes)
