"""Memory that was never written, and values whose result NKI does not document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.sim.nki.nki_run import loaded, nisa, nl, numbers, run, simulated, stored, tile, traced

from haulout.frontends.nki import emit
from haulout.nki.kernel_check import prepare
from haulout.sim import simulate
from haulout.support.diagnostics import Severity


def _half(x: Any, rows: int = 8) -> Any:
    """A tile of some rows; the first four are written."""
    found = tile((rows, 6), nl.float32)
    nisa.dma_copy(dst=found[0:4, :], src=x)
    return found


def _found(body: Any, *arrays: Any, **options: Any) -> list[tuple[str, Severity]]:
    return [(each.code, each.severity) for each in simulated(body, *arrays, **options).diagnostics]


ERROR, NOTE = ("uninitialized-read", Severity.ERROR), ("uninitialized-read", Severity.NOTE)


def _copied(x):
    return stored(_half(x))


def _squared(x):
    data = _half(x)
    nisa.tensor_tensor(dst=data, data1=data, data2=data, op=nl.multiply)
    return stored(data)


def _transposed(x):
    turned = tile((6, 8), nl.float32, nl.psum)
    nisa.nc_transpose(dst=turned, data=_half(x))
    return stored(turned)


@pytest.mark.parametrize("body", [_copied, _squared, _transposed])
def test_an_output_that_depends_on_memory_never_written(body: Any) -> None:
    found = simulated(body, numbers(4, 6))
    assert [(each.code, each.severity) for each in found.diagnostics] == [ERROR]
    assert "96 bytes" in found.diagnostics[0].message  # four rows of six
    assert any("reads bytes that were never written" in label.message for label in found.diagnostics[0].labels)


def test_what_is_read_and_not_used_is_no_finding() -> None:
    def kernel(x):
        data = _half(x)
        nisa.tensor_tensor(dst=data, data1=data, data2=data, op=nl.multiply)
        return stored(data[0:4, :])

    assert np.array_equal(run(kernel, numbers(4, 6)), np.square(numbers(4, 6)))


def test_what_a_mask_removes_is_no_finding() -> None:
    def kernel(x, keep):
        data, zeros = _half(x), tile((8, 6), nl.float32)
        nisa.memset(dst=zeros, value=0.0)
        nisa.tensor_copy_predicated(dst=zeros, src=data, predicate=loaded(keep))
        return stored(zeros)

    keep = np.zeros((8, 6), np.uint32)
    keep[:4] = 1
    assert np.array_equal(run(kernel, numbers(4, 6), keep)[:4], numbers(4, 6))
    keep[5, 2] = 1
    assert _found(kernel, numbers(4, 6), keep) == [ERROR]


def test_a_contraction_over_memory_never_written() -> None:
    def kernel(x, m, kept):
        sums = tile((6, 6), nl.float32, nl.psum)
        nisa.nc_matmul(dst=sums, stationary=_half(x), moving=loaded(m))
        found = stored(sums)
        return found if kept.shape[0] > 1 else stored(loaded(kept))

    x, m = numbers(4, 6), numbers(8, 6, seed=1)
    assert _found(kernel, x, m, np.zeros((2, 2), np.float32)) == [ERROR, NOTE]
    assert _found(kernel, x, m, np.zeros((1, 2), np.float32)) == [NOTE]


def test_a_reduction_over_partitions() -> None:
    def kernel(x):
        total = tile((1, 6), nl.float32)
        nisa.tensor_partition_reduce(dst=total, op=nl.add, data=_half(x))
        return stored(total)

    assert _found(kernel, numbers(4, 6)) == [ERROR, NOTE]


def test_an_index_that_depends_on_memory_never_written() -> None:
    def kernel(x, index):
        held = tile((8, 1), nl.int32)
        nisa.dma_copy(dst=held[0:4, :], src=index)
        nisa.tensor_scalar(dst=held, data=held, op0=nl.bitwise_and, operand0=0x40000007)
        rows = tile((8, 6), nl.float32)
        src = x.ap(pattern=[[6, 8], [1, 6]], offset=0, vector_offset=held, indirect_dim=0)
        nisa.dma_copy(dst=rows, src=src)
        return stored(rows[0:4, :])

    # 0xAAAAAAAA becomes row 2, 0x55555555 a row far outside.
    found = simulated(kernel, numbers(8, 6), np.arange(4, dtype=np.int32)[:, None])
    assert [(each.code, each.severity) for each in found.diagnostics] == [ERROR]
    assert "index or a branch" in found.diagnostics[0].message


def test_a_branch_that_depends_on_memory_never_written() -> None:
    def kernel(x):
        held, register = tile((1, 2), nl.uint8), nisa.register_alloc()
        nisa.tensor_scalar(dst=held, data=held, op0=nl.bitwise_and, operand0=3)
        nisa.register_load(register, held[:, 0:1])
        data = loaded(x)
        for _ in nl.dynamic_range(register):
            nisa.tensor_scalar(dst=data, data=data, op0=nl.add, operand0=1.0)
        return stored(data)

    assert ERROR in _found(kernel, numbers(4, 6))


def test_other_schedules_say_the_same() -> None:
    assert _found(_copied, numbers(4, 6), schedule="random:1") == [ERROR]


# -- what NKI does not document --------------------------------------------------------------------------------------


def _texts(body: Any, *arrays: Any) -> list[str]:
    found = simulated(body, *arrays).diagnostics
    assert {each.severity for each in found} <= {Severity.NOTE}
    return [each.message for each in found if each.code == "undefined-result"]


@pytest.mark.parametrize("value", [np.nan, 1.0])
def test_nan_in_a_maximum(value: float) -> None:
    def kernel(x):
        data = loaded(x)
        for _ in range(3):  # three instructions of one line are one finding
            nisa.tensor_scalar(dst=data, data=data, op0=nl.maximum, operand0=0.0)
        return stored(data)

    assert len(_texts(kernel, np.full((4, 6), value, np.float32))) == (1 if np.isnan(value) else 0)


@pytest.mark.parametrize(
    ("op", "good", "bad"),
    [
        ("rsqrt", 2.0, 0.0),
        ("reciprocal", -2.0, 1e-20),
        ("log", 2.0, 0.0),
        ("sqrt", 0.0, -1.0),
        ("sin", 3.0, 4.0),
        ("arctan", 1.0, 2.0),
    ],
)
def test_an_input_outside_of_a_functions_range(op: str, good: float, bad: float) -> None:
    def kernel(x):
        data = loaded(x)
        nisa.activation(dst=data, op=getattr(nl, op), data=data)
        return stored(data)

    assert _texts(kernel, np.full((4, 6), good, np.float32)) == []
    (text,) = _texts(kernel, np.full((4, 6), bad, np.float32))
    assert text.startswith(f"{op} takes {bad:g}")


@pytest.mark.parametrize(("value", "is_said"), [(1 << 24, False), ((1 << 24) + 1, True), (1 << 25, False)])
def test_integers_that_float32_rounds(value: int, is_said: bool) -> None:
    def kernel(x):
        data = loaded(x)
        nisa.tensor_scalar(dst=data, data=data, op0=nl.maximum, operand0=0.0)
        return stored(data)

    assert bool(_texts(kernel, np.full((4, 6), value, np.int32))) is is_said


@pytest.mark.parametrize("first", ["reset_reduce", "idle", None])
def test_accumulators_that_nothing_has_defined(first: str | None) -> None:
    def kernel(x):
        data, total = loaded(x), tile((4, 1), nl.float32)
        out = tile((4, 6), nl.float32)
        for command in (first, "reduce"):
            if command is not None:
                nisa.activation(
                    dst=out,
                    op=nl.copy,
                    data=data,
                    reduce_op=nl.add,
                    reduce_res=total if command == "reduce" else None,
                    reduce_cmd=getattr(nisa.reduce_cmd, command),
                )
        return stored(total)

    assert bool(_texts(kernel, numbers(4, 6))) is (first != "reset_reduce")


def test_a_program_of_its_own_says_the_same() -> None:
    program = prepare(emit(traced(_copied, numbers(4, 6))).program)
    found = simulate(program, {"x": numbers(4, 6)}).diagnostics
    assert [each.code for each in found] == ["uninitialized-read"]
