"""Scalar registers, loops whose trip count only the device knows, exchanges between cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.sim.nki.nki_run import BF16, equal, f64, loaded, nisa, nl, numbers, run, simulated, stored, tile, traced

from haulout.frontends.nki import emit
from haulout.ir.text import parse_bir, print_bir
from haulout.nki.kernel_check import prepare
from haulout.sim import simulate


def _counted(x, count):
    """x + the number of iterations."""
    register = nisa.register_alloc()
    nisa.register_load(register, count)
    total = loaded(x)
    for _ in nl.dynamic_range(register):
        nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=1.0)
    return stored(total)


def _count(number: int) -> Any:
    # A float: the trace follows integers, and would unroll the loop.
    return np.array([[number]], np.float32)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_loop_runs_as_often_as_a_register_says(count: int) -> None:
    x = numbers(4, 6)
    want = x.copy()
    for _ in range(count):
        want = want + np.float32(1)
    equal(run(_counted, x, _count(count)), want)


SCHEDULES = ["random:1", "random:2", "slowest:0:pool", "slowest:0:vector", "slowest:0:dma0", "slowest:0:dma1"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_loop_runs_as_often_under_other_schedules(schedule: str) -> None:
    equal(run(_counted, numbers(4, 6), _count(3), schedule=schedule), run(_counted, numbers(4, 6), _count(3)))


def test_all_schedules_of_a_kernel_with_registers_are_compared() -> None:
    found = simulated(_counted, numbers(4, 6), _count(3), schedule="all")
    assert found.ok and found.schedules > 1


def test_a_load_of_a_register_that_depends_on_the_schedule_is_a_finding() -> None:
    def kernel(count):
        shared = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=shared, src=count)
        else:
            register, dst, seen = nisa.register_alloc(), tile((1, 1), nl.float32), tile((1, 1), nl.float32)
            nisa.dma_copy(dst=seen, src=shared)
            nisa.register_load(register, seen)
            nisa.register_store(dst, register * 3)
            nisa.dma_copy(dst=count, src=dst)
        return shared

    late = simulated(kernel, _count(7), lnc=2, schedule="slowest:0:dma0")
    assert [each.code for each in late.diagnostics if "into a register" in each.message] == ["missing-dependence"]
    early = simulated(kernel, _count(7), lnc=2, schedule="list")
    assert not [each for each in early.diagnostics if "into a register" in each.message]


def test_an_index_of_a_loop_moves_a_tensor() -> None:
    def kernel(x, count):
        register = nisa.register_alloc()
        nisa.register_load(register, count)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        for i in nl.dynamic_range(1, register, 2):
            staged = tile((1, 6), nl.float32)
            nisa.dma_copy(dst=staged, src=x[nl.ds(i + 1, 1), :])
            nisa.tensor_scalar(dst=staged, data=staged, op0=nl.multiply, operand0=10.0)
            nisa.dma_copy(dst=out[nl.ds(i, 1), :], src=staged)
        return out

    x = numbers(8, 6)
    want = x.copy()
    for i in range(1, 6, 2):
        want[i] = x[i + 1] * np.float32(10)
    for schedule in ("list", *SCHEDULES):
        equal(run(kernel, x, _count(6), schedule=schedule), want)


def test_a_while_loop_ends_when_its_register_is_zero() -> None:
    def kernel(x):
        left, register = loaded(x), nisa.register_alloc()
        total = tile((1, 1), nl.float32)
        nisa.memset(dst=total, value=0.0)
        nisa.register_load(register, left)
        while register:
            nisa.tensor_tensor(dst=total, data1=total, data2=left, op=nl.add)
            nisa.tensor_scalar(dst=left, data=left, op0=nl.subtract, operand0=1.0)
            nisa.register_load(register, left)
        return stored(total)

    equal(run(kernel, _count(5)), np.array([[15.0]], np.float32))


def test_psum_that_is_allocated_in_a_loop_begins_anew_in_each_iteration() -> None:
    def kernel(s, m, count):
        register = nisa.register_alloc()
        nisa.register_load(register, count)
        one, two = loaded(s), loaded(m)
        total = tile((16, 24), nl.float32)
        for _ in nl.dynamic_range(register):
            sums = tile((16, 24), nl.float32, nl.psum)
            nisa.nc_matmul(dst=sums, stationary=one, moving=two)
            nisa.tensor_copy(dst=total, src=sums)
        return stored(total)

    s, m = numbers(32, 16), numbers(32, 24, seed=1)
    for schedule in ("list", "slowest:0:pe", *SCHEDULES):
        got = run(kernel, s, m, _count(3), schedule=schedule)
        assert np.allclose(got, f64(s).T @ f64(m), atol=1e-5)


def test_a_register_is_stored() -> None:
    def kernel(x):
        register, dst = nisa.register_alloc(), tile((1, 1), nl.int32)
        nisa.register_load(register, x)
        nisa.register_store(dst, register * 3 + 1)
        return stored(dst)

    equal(run(kernel, _count(7)), np.array([[22]], np.int32))


def test_cores_exchange_tensors() -> None:
    def kernel(x):
        core = nl.program_id(0)
        mine, other = loaded(x[nl.ds(4 * core, 4), :]), tile((4, 6), nl.float32)
        nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[nl.ds(4 * core, 4), :], src=other)
        return out

    x = numbers(8, 6)
    equal(run(kernel, x, lnc=2, schedule="all"), np.concatenate([x[4:], x[:4]]))


def test_an_exchange_delivers_in_the_order_of_elements() -> None:
    def kernel(x):
        core = nl.program_id(0)
        mine, other = loaded(x[nl.ds(4 * core, 4), :]), tile((4, 3, 2), nl.float32)
        turned = other.permute((0, 2, 1)).reshape((4, 2, 3))
        src = mine.reshape((4, 2, 3))
        nisa.sendrecv(src=src, dst=turned, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[nl.ds(4 * core, 4), :], src=other)
        return out

    x = numbers(8, 6)
    swapped = np.concatenate([x[4:], x[:4]]).reshape(8, 2, 3).transpose(0, 2, 1).reshape(8, 6)
    equal(run(kernel, x, lnc=2), np.ascontiguousarray(swapped))


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_program_from_its_text_computes_the_same(lnc: int) -> None:
    def kernel(x, index, count):
        eye = nl.shared_identity_matrix(8, dtype=nl.bfloat16)
        table = nl.shared_constant(np.arange(48, dtype=np.float32).reshape(8, 6))
        register = nisa.register_alloc()
        nisa.register_load(register, count)
        data = loaded(x)
        turned = tile((6, 8), nl.bfloat16, nl.psum)
        nisa.nc_matmul(dst=turned, stationary=data, moving=eye, is_transpose=True)
        rows = tile((8, 6), nl.float32)
        src = table.ap(pattern=[[6, 8], [1, 6]], offset=0, vector_offset=loaded(index), indirect_dim=0)
        nisa.dma_copy(dst=rows, src=src)
        nisa.tensor_copy(dst=rows[:, 1:6], src=rows[:, 0:5])
        for _ in nl.dynamic_range(register):
            nisa.tensor_scalar(dst=rows, data=rows, op0=nl.multiply, operand0=2.0)
        return stored(turned), stored(rows)

    x, index = numbers(8, 6, dtype=BF16), np.random.default_rng(0).permutation(8).astype(np.int32)[:, None]
    arguments = x, index, _count(3)
    found = simulated(kernel, *arguments, lnc=lnc)
    assert found.ok
    rows = np.arange(48, dtype=np.float32).reshape(8, 6)[index[:, 0]]
    rows[:, 1:6] = rows[:, 0:5].copy()
    equal(found.returned[0], np.ascontiguousarray(x.T))
    equal(found.returned[1], rows * 8)
    text = print_bir(prepare(emit(traced(kernel, *arguments, lnc=lnc)).program))
    inputs = dict(zip(("x", "index", "count"), arguments, strict=True))
    again = simulate(parse_bir(text), inputs)
    assert {name: value.tobytes() for name, value in again.outputs.items()} == {
        name: value.tobytes() for name, value in found.result.outputs.items()
    }
