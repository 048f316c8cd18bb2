"""Operators, in float32 or on bits, and the functions of the scalar engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special
from tests.sim.nki.nki_run import (
    BF16,
    F32,
    close,
    equal,
    f64,
    loaded,
    nisa,
    nl,
    numbers,
    run,
    simulated,
    stored,
    tile,
)

OPERATORS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def _tensor_tensor(op: str, dtype: Any) -> Any:
    def kernel(x, y):
        dst = tile(x.shape, dtype)
        nisa.tensor_tensor(dst=dst, data1=loaded(x), data2=loaded(y), op=getattr(nl, op))
        return stored(dst)

    return kernel


@pytest.mark.parametrize("op", OPERATORS)
def test_tensor_tensor_computes_in_float32_and_rounds_once(op: str) -> None:
    x, y = numbers(8, 10, dtype=BF16), numbers(8, 10, seed=1)
    x[:, 0] = y[:, 0] = 0
    y[:, 1] = x[:, 1].astype(F32)
    want = OPERATORS[op](x.astype(F32), y).astype(F32)
    equal(run(_tensor_tensor(op, nl.float32), x, y), want)
    equal(run(_tensor_tensor(op, nl.bfloat16), x, y), want.astype(BF16))


def test_power_and_division() -> None:
    x, y = np.abs(numbers(4, 6)), numbers(4, 6, seed=1)
    close(run(_tensor_tensor("power", nl.float32), x, y), f64(x) ** f64(y))
    # No hardware divides: that is a finding, and the numbers are those of the formula all the same.
    found = simulated(_tensor_tensor("divide", nl.float32), x, y)
    assert [each.code for each in found.diagnostics] == ["hardware-rule"]
    close(found.returned[0], f64(x) / f64(y))


def test_the_larger_magnitude_keeps_its_sign_and_a_tie_gives_the_second() -> None:
    x, y = np.array([[-3.0, 1, 2, -2]], np.float32), np.array([[2.0, -4, -2, 2]], np.float32)
    equal(run(_tensor_tensor("abs_max", nl.float32), x, y, target="gen4"), np.array([[-3, -4, -2, 2]], np.float32))
    equal(run(_tensor_tensor("abs_min", nl.float32), x, y, target="gen4"), np.array([[2, 1, -2, 2]], np.float32))


def test_integers_of_32_bits_are_exact_and_wrap() -> None:
    x = np.array([[2**24 + 1, 2**31 - 1, -5, 3]], np.int32)
    y = np.array([[2, 1, 7, -3]], np.int32)
    equal(run(_tensor_tensor("add", nl.int32), x, y), np.array([[2**24 + 3, -(2**31), 2, 0]], np.int32))
    equal(run(_tensor_tensor("multiply", nl.int32), x, y), np.array([[2**25 + 2, 2**31 - 1, -35, -9]], np.int32))


def test_on_the_vector_engine_they_are_float32() -> None:
    def kernel(x, y):
        dst = tile(x.shape, nl.int32)
        nisa.tensor_tensor(dst=dst, data1=loaded(x), data2=loaded(y), op=nl.add, engine=nisa.vector_engine)
        return stored(dst)

    x, y = np.array([[2**24 + 1]], np.int32), np.array([[2]], np.int32)
    want = np.float32(2**24 + 1) + np.float32(2)
    equal(run(kernel, x, y), np.array([[want]]).astype(np.int32))


BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


@pytest.mark.parametrize("op", BITS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint32])
def test_operators_on_bits_take_integers_as_they_are(op: str, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    x, y = (np.random.default_rng(at).integers(limits.min, limits.max, (4, 9)).astype(dtype) for at in (0, 1))
    equal(run(_tensor_tensor(op, str(np.dtype(dtype))), x, y), BITS[op](x, y))


def test_shifts_are_logical() -> None:
    def kernel(x):
        one, two, data = tile(x.shape, nl.int32), tile(x.shape, nl.int32), loaded(x)
        nisa.tensor_scalar(dst=one, data=data, op0=nl.right_shift, operand0=3)
        nisa.tensor_scalar(dst=two, data=data, op0=nl.left_shift, operand0=2, op1=nl.bitwise_and, operand1=0xFF)
        return stored(one), stored(two)

    x = np.array([[-1, 100, -(2**31), 0x7FFFFFFF]], np.int32)
    one, two = run(kernel, x)
    equal(one, (x.view(np.uint32) >> 3).view(np.int32))
    equal(two, ((x.view(np.uint32) << 2) & 0xFF).view(np.int32))


def test_invert_flips_all_bits() -> None:
    def kernel(x):
        dst = tile(x.shape, nl.uint16)
        nisa.tensor_scalar(dst=dst, data=loaded(x), op0=nl.invert, operand0=None)
        return stored(dst)

    x = np.array([[0, 1, 0xFFFF, 0x1234]], np.uint16)
    equal(run(kernel, x), ~x)


@pytest.mark.parametrize("reverse", [(False, False), (True, False), (False, True), (True, True)])
def test_tensor_scalar_applies_two_operators_in_order(reverse: tuple[bool, bool]) -> None:
    def kernel(x, column):
        dst = tile(x.shape, nl.float32)
        nisa.tensor_scalar(
            dst=dst,
            data=loaded(x),
            op0=nl.subtract,
            operand0=loaded(column),
            reverse0=reverse[0],
            op1=nl.power,
            operand1=2.0,
            reverse1=reverse[1],
        )
        return stored(dst)

    x, column = numbers(8, 6), numbers(8, 1, seed=1)
    t = column - x if reverse[0] else x - column
    close(run(kernel, x, column), 2.0 ** f64(t) if reverse[1] else f64(t) ** 2.0)


def test_tensor_scalar_is_exact_on_integers() -> None:
    def kernel(x):
        dst = tile(x.shape, nl.int32)
        nisa.tensor_scalar(dst=dst, data=loaded(x), op0=nl.multiply, operand0=3, op1=nl.add, operand1=1)
        return stored(dst)

    x = np.array([[2**24 + 1, -7]], np.int32)
    equal(run(kernel, x), x * 3 + 1)


@pytest.mark.parametrize(
    ("op", "formula"), [("rsqrt", lambda x: x**-0.5), ("reciprocal", lambda x: 1 / x), ("abs", np.abs)]
)
def test_operators_of_one_operand(op: str, formula: Any) -> None:
    def kernel(x):
        dst = tile(x.shape, nl.float32)
        nisa.tensor_scalar(dst=dst, data=loaded(x), op0=getattr(nl, op), operand0=0)
        return stored(dst)

    x = np.abs(numbers(4, 6)) + np.float32(0.1)
    close(run(kernel, x), formula(f64(x)))


@pytest.mark.parametrize("reverse", [(False, False), (True, True)])
def test_scalar_tensor_tensor(reverse: tuple[bool, bool]) -> None:
    def kernel(x, y, column):
        dst = tile(x.shape, nl.float32)
        nisa.scalar_tensor_tensor(
            dst=dst,
            data=loaded(x),
            op0=nl.subtract,
            operand0=loaded(column),
            op1=nl.subtract,
            operand1=loaded(y),
            reverse0=reverse[0],
            reverse1=reverse[1],
        )
        return stored(dst)

    x, y, column = numbers(8, 6), numbers(8, 6, seed=1), numbers(8, 1, seed=2)
    t = column - x if reverse[0] else x - column
    equal(run(kernel, x, y, column), y - t if reverse[1] else t - y)


def test_reciprocal() -> None:
    def kernel(x):
        dst = tile(x.shape, nl.float32)
        nisa.reciprocal(dst=dst, data=loaded(x))
        return stored(dst)

    x = np.array([[2.0, -4.0, 3.0, 0.0]], np.float32)
    equal(run(kernel, x), np.array([[0.5, -0.25, 1 / np.float32(3), np.inf]], np.float32))


# -- functions of the scalar engine ----------------------------------------------------------------------------------


def _sigmoid(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


def _cdf(z: Any) -> Any:
    return 0.5 * (1 + special.erf(z / math.sqrt(2)))


FUNCTIONS: dict[str, Any] = {
    "copy": lambda z: z,
    "square": lambda z: z * z,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda z: np.where(z > 0, z, 0),
    "exp": np.exp,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "silu": lambda z: z * _sigmoid(z),
    "silu_dx": lambda z: _sigmoid(z) * (1 + z * (1 - _sigmoid(z))),
    "gelu": lambda z: z * _cdf(z),
    "gelu_dx": lambda z: _cdf(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    "gelu_apprx_tanh": lambda z: 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    "gelu_apprx_sigmoid": lambda z: z * _sigmoid(1.702 * z),
    "gelu_apprx_sigmoid_dx": lambda z: (
        _sigmoid(1.702 * z) + 1.702 * z * _sigmoid(1.702 * z) * (1 - _sigmoid(1.702 * z))
    ),
    "softplus": lambda z: np.log(1 + np.exp(z)),
    "mish": lambda z: z * np.tanh(np.log(1 + np.exp(z))),
    "erf": special.erf,
    "erf_dx": lambda z: 2 / math.sqrt(math.pi) * np.exp(-z * z),
    "sin": np.sin,
    "arctan": np.arctan,
}
POSITIVE: dict[str, Any] = {
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "reciprocal": lambda z: 1 / z,
}


def _activation(op: str) -> Any:
    def kernel(x, scale, bias):
        dst = tile(x.shape, nl.float32)
        nisa.activation(dst=dst, op=getattr(nl, op), data=loaded(x), scale=loaded(scale), bias=loaded(bias))
        return stored(dst)

    return kernel


@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_function_of_scale_times_data_plus_bias(op: str) -> None:
    x, scale, bias = numbers(8, 12, dtype=BF16), numbers(8, 1, seed=1, scale=0.5), numbers(8, 1, seed=2, scale=0.3)
    z = f64(x) * f64(scale) + f64(bias)
    close(run(_activation(op), x, scale, bias), FUNCTIONS[op](z), 2e-6)


@pytest.mark.parametrize("op", POSITIVE)
def test_a_function_of_positive_numbers(op: str) -> None:
    x, scale, bias = np.abs(numbers(8, 12)), np.ones((8, 1), np.float32), np.full((8, 1), 0.5, np.float32)
    close(run(_activation(op), x, scale, bias), POSITIVE[op](f64(x) + 0.5), 2e-6)


def test_exp_of_minus_infinity_is_zero_and_sin_beyond_pi_is_not_a_number() -> None:
    one, zero = np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)
    assert run(_activation("exp"), np.array([[-np.inf]], np.float32), one, zero)[0, 0] == 0
    assert np.isnan(run(_activation("sin"), np.array([[9.0]], np.float32), one, zero)[0, 0])


def test_the_last_rounding_is_that_of_the_destination() -> None:
    def kernel(x):
        dst = tile(x.shape, nl.bfloat16)
        nisa.activation(dst=dst, op=nl.exp, data=loaded(x), scale=0.5)
        return stored(dst)

    x = numbers(8, 64, dtype=BF16)
    equal(run(kernel, x), np.exp(x.astype(np.float32) * np.float32(0.5)).astype(BF16))
