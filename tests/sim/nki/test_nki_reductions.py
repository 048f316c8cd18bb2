"""Reductions, accumulators of the engines, scans, statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.sim.nki.nki_run import BF16, F32, close, equal, f64, loaded, nisa, nl, numbers, run, stored, tile

LEAST = np.float32(np.finfo(np.float32).min)
REDUCTIONS: dict[str, Any] = {"add": np.sum, "multiply": np.prod, "max": np.max, "min": np.min}


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("axis", [(2,), (1, 2)])
def test_tensor_reduce_reduces_the_last_axes(op: str, axis: tuple[int, ...]) -> None:
    def kernel(x):
        dst = tile((8, 3) if axis == (2,) else (8, 1), nl.float32)
        nisa.tensor_reduce(dst=dst, op=getattr(nl, op), data=loaded(x), axis=axis, negate=True)
        return stored(dst)

    x = numbers(8, 3, 5, dtype=BF16)
    close(run(kernel, x), -REDUCTIONS[op](f64(x), axis=axis).reshape(8, -1))


def test_tensor_reduce_of_bits() -> None:
    def kernel(x):
        dst = tile((4, 1), nl.uint8)
        nisa.tensor_reduce(dst=dst, op=nl.bitwise_or, data=loaded(x), axis=1)
        return stored(dst)

    x = np.random.default_rng(0).integers(0, 64, (4, 6)).astype(np.uint8)
    equal(run(kernel, x), np.bitwise_or.reduce(x, axis=1, keepdims=True))


@pytest.mark.parametrize(("op", "formula"), [("add", np.sum), ("max", np.max), ("average", np.mean)])
def test_tensor_partition_reduce_reduces_over_partitions(op: str, formula: Any) -> None:
    def kernel(x):
        dst = tile((1, 6), nl.float32)
        nisa.tensor_partition_reduce(dst=dst, op=getattr(nl, op), data=loaded(x))
        return stored(dst)

    x = numbers(40, 6)
    close(run(kernel, x), formula(f64(x), axis=0, keepdims=True))


# -- accumulators ----------------------------------------------------------------------------------------------------


def test_activation_adds_up_over_instructions() -> None:
    def kernel(x):
        data, dst, sums = loaded(x), tile((8, 4), nl.float32), tile((8, 2), nl.float32)
        commands = nisa.reduce_cmd
        for at, command in enumerate((commands.reset_reduce, commands.reduce, commands.reduce)):
            part = data[:, nl.ds(4 * at, 4)]
            res = sums[:, 0:1] if at == 2 else None
            nisa.activation(dst=dst, op=nl.square, data=part, reduce_op=nl.add, reduce_cmd=command, reduce_res=res)
        nisa.activation(dst=dst, op=nl.square, data=data[:, 0:4], reduce_op=nl.add, reduce_cmd=commands.reset)
        nisa.activation(
            dst=dst,
            op=nl.copy,
            data=data[:, 0:4],
            reduce_op=nl.add,
            reduce_cmd=commands.reduce,
            reduce_res=sums[:, 1:2],
        )
        return stored(sums)

    x = numbers(8, 12)
    want = np.stack([np.square(f64(x)).sum(axis=1), f64(x)[:, 0:4].sum(axis=1)], axis=1)
    close(run(kernel, x), want)


def test_activation_reduce_sums_its_own_results() -> None:
    def kernel(x):
        dst, res = tile(x.shape, nl.bfloat16), tile((8, 1), nl.float32)
        nisa.activation_reduce(dst=dst, op=nl.exp, data=loaded(x), reduce_op=nl.add, reduce_res=res, scale=-1.0)
        return stored(dst), stored(res)

    x = numbers(8, 16)
    dst, res = run(kernel, x)
    equal(dst, np.exp(-x).astype(BF16))
    close(res, np.exp(-f64(x)).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("op", REDUCTIONS)
def test_tensor_scalar_reduce(op: str) -> None:
    def kernel(x):
        dst, res = tile(x.shape, nl.float32), tile((8, 1), nl.float32)
        nisa.tensor_scalar_reduce(
            dst=dst, data=loaded(x), op0=nl.add, operand0=0.5, reduce_op=getattr(nl, op), reduce_res=res
        )
        return stored(dst), stored(res)

    x = numbers(8, 6)
    dst, res = run(kernel, x)
    equal(dst, x + np.float32(0.5))
    close(res, REDUCTIONS[op](f64(x) + 0.5, axis=1, keepdims=True))


def test_tensor_scalar_reduce_goes_on_from_an_initial_value_and_negates_only_the_result() -> None:
    def kernel(x):
        data, dst, res = loaded(x), tile(x.shape, nl.float32), tile((8, 2), nl.float32)
        commands = nisa.reduce_cmd
        for at, (command, start) in enumerate(((commands.load_reduce, 10.0), (commands.reduce, None))):
            nisa.tensor_scalar_reduce(
                dst=dst,
                data=data,
                op0=nl.multiply,
                operand0=1.0,
                reduce_op=nl.add,
                reduce_res=res[:, at : at + 1],
                reduce_cmd=command,
                reduce_init=start,
                reduce_res_negate=at == 0,
            )
        return stored(res)

    x = numbers(8, 6)
    total = f64(x).sum(axis=1)
    close(run(kernel, x), np.stack([-(10 + total), 10 + 2 * total], axis=1))


def test_range_select_keeps_what_is_within_bounds() -> None:
    def kernel(x, low, high):
        dst, res = tile(x.shape, nl.float32), tile((8, 1), nl.float32)
        nisa.range_select(
            dst=dst,
            on_true_tile=loaded(x),
            comp_op0=nl.greater_equal,
            comp_op1=nl.less,
            bound0=loaded(low),
            bound1=loaded(high),
            reduce_res=res,
            range_start=3,
        )
        return stored(dst), stored(res)

    x = numbers(8, 12)
    low = np.arange(8, dtype=np.float32)[:, None]
    high = low + 4
    place = 3 + np.arange(12)
    want = np.where((place >= low) & (place < high), x, LEAST)
    dst, res = run(kernel, x, low, high)
    equal(dst, want)
    equal(res, want.max(axis=1, keepdims=True))


@pytest.mark.parametrize("reverse", [False, True])
def test_select_reduce(reverse: bool) -> None:
    def kernel(x, p):
        dst, res = tile(x.shape, nl.float32), tile((8, 1), nl.float32)
        nisa.select_reduce(
            dst=dst,
            predicate=loaded(p),
            on_true=loaded(x),
            on_false=-5.0,
            reduce_res=res,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
            reverse_pred=reverse,
        )
        return stored(dst), stored(res)

    x, p = numbers(8, 9), (numbers(8, 9, seed=1) > 0).astype(np.uint8)
    want = np.where((p != 0) != reverse, x, np.float32(-5))
    dst, res = run(kernel, x, p)
    equal(dst, want)
    equal(res, want.max(axis=1, keepdims=True))


def test_exponential_subtracts_a_maximum_and_sums() -> None:
    def kernel(x, m):
        dst, res = tile(x.shape, nl.float32), tile((8, 1), nl.float32)
        nisa.exponential(
            dst=dst,
            src=loaded(x),
            max_value=loaded(m),
            reduce_res=res,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        return stored(dst), stored(res)

    x = numbers(8, 9)
    m = x.max(axis=1, keepdims=True)
    dst, res = run(kernel, x, m, target="gen4")
    close(dst, np.exp(f64(x) - f64(m)))
    close(res, np.exp(f64(x) - f64(m)).sum(axis=1, keepdims=True))


def test_registers_of_the_vector_engine_are_unknown_after_an_idle_instruction() -> None:
    def kernel(x, p):
        data, dst, res = loaded(x), tile(x.shape, nl.float32), tile((8, 1), nl.float32)
        nisa.tensor_scalar_reduce(dst=dst, data=data, op0=nl.add, operand0=0.0, reduce_op=nl.max)
        nisa.select_reduce(dst=dst, predicate=loaded(p), on_true=data, on_false=0.0)
        nisa.tensor_scalar_reduce(
            dst=dst,
            data=data,
            op0=nl.add,
            operand0=0.0,
            reduce_op=nl.max,
            reduce_cmd=nisa.reduce_cmd.reduce,
            reduce_res=res,
        )
        return stored(res)

    x, p = numbers(8, 9), np.ones((8, 9), np.uint8)
    assert np.isnan(run(kernel, x, p)).all()


# -- scans -----------------------------------------------------------------------------------------------------------

_SCALAR: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "subtract": lambda a, b: a - b,
    "maximum": max,
}


@pytest.mark.parametrize("ops", [("multiply", "add"), ("add", "maximum"), ("multiply", "subtract")])
@pytest.mark.parametrize("reverse", [(False, False), (False, True)])
def test_tensor_tensor_scan(ops: tuple[str, str], reverse: tuple[bool, bool]) -> None:
    def kernel(x, y, start):
        dst = tile(x.shape, nl.float32)
        nisa.tensor_tensor_scan(
            dst=dst,
            data0=loaded(x),
            data1=loaded(y),
            initial=loaded(start),
            op0=getattr(nl, ops[0]),
            op1=getattr(nl, ops[1]),
            reverse0=reverse[0],
            reverse1=reverse[1],
        )
        return stored(dst)

    x, y, start = numbers(4, 9), numbers(4, 9, seed=1), numbers(4, 1, seed=2)
    want = np.empty((4, 9))
    for p in range(4):
        r = float(start[p, 0])
        for i in range(9):
            r = _SCALAR[ops[0]](float(x[p, i]), r)
            r = _SCALAR[ops[1]](*((float(y[p, i]), r) if reverse[1] else (r, float(y[p, i]))))
            want[p, i] = r
    close(run(kernel, x, y, start), want)


def test_tensor_scalar_cumulative_goes_on_where_it_stopped() -> None:
    def kernel(x):
        data, dst = loaded(x), tile(x.shape, nl.float32)
        commands = nisa.reduce_cmd
        for at, command in enumerate((commands.reset_reduce, commands.reduce)):
            part = nl.ds(6 * at, 6)
            nisa.tensor_scalar_cumulative(
                dst=dst[:, part], src=data[:, part], op0=nl.multiply, op1=nl.add, imm0=2.0, reduce_cmd=command
            )
        return stored(dst)

    x = numbers(4, 12)
    close(run(kernel, x), np.cumsum(2 * f64(x), axis=1))


# -- statistics ------------------------------------------------------------------------------------------------------


def test_bn_stats_and_bn_aggr_give_mean_and_variance() -> None:
    def kernel(x):
        data, stats, dst = loaded(x), tile((8, 2, 6), nl.float32), tile((8, 2), nl.float32)
        for at in range(2):
            nisa.bn_stats(dst=stats[:, at, :], data=data[:, nl.ds(51 * at, 51)])
        nisa.bn_aggr(dst=dst, data=stats)
        return stored(stats), stored(dst)

    x = numbers(8, 102) + np.float32(3)
    stats, dst = run(kernel, x)
    even, odd = f64(x)[:, 0:51:2], f64(x)[:, 1:51:2]
    want = [part for half in (even, odd) for part in (half.shape[1], half.mean(1), half.shape[1] * half.var(1))]
    close(stats[:, 0], np.stack([np.broadcast_to(each, 8) for each in want], axis=1))
    close(dst, np.stack([f64(x).mean(axis=1), f64(x).var(axis=1)], axis=1))
    assert dst.dtype == F32
