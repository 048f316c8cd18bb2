"""Element-wise operations on the values where HLO and NumPy part ways; expectations written out by hand."""

import warnings
from typing import Any

import numpy as np
import pytest

from haulout.ir.dtypes import NUMPY
from haulout.ir.opcodes import OPCODES, Flow
from haulout.sim.numerics import TensorType, evaluate
from haulout.sim.numerics.evaluate import KERNELS
from haulout.support.diagnostics import HauloutError

INF, NAN = float("inf"), float("nan")
LOW = -(2**31)


def run(opcode: str, dtype: str, *operands: Any, gives: str | None = None, **attrs: Any) -> list[Any]:
    arrays = [np.array(operand, NUMPY[dtype]) for operand in operands]
    output = TensorType(NUMPY[gives or dtype], arrays[0].shape)
    return evaluate(opcode, attrs, arrays, [output])[0].tolist()


@pytest.mark.parametrize(
    ("opcode", "dtype", "operands", "expected"),
    [
        ("divide", "s32", ([7, -7, 7, 5, LOW], [2, 2, -2, 0, -1]), [3, -3, -3, -1, LOW]),
        ("divide", "u8", ([7, 200, 5], [2, 3, 0]), [3, 66, 255]),
        ("remainder", "s32", ([7, -7, 7, -5, LOW], [2, 2, -2, 0, -1]), [1, -1, 1, -5, 0]),
        ("remainder", "f32", ([5.5, -5.5, 5.5], [2, 2, INF]), [1.5, -1.5, 5.5]),
        ("power", "s32", ([2, -2, -1, -1, 1, 5, 0, 3], [10, 3, -1, -2, -9, -1, 0, 40]),
         [1024, -8, -1, 1, 1, 0, 1, 3**40 % 2**32]),
        ("power", "u8", ([3, 2], [5, 9]), [243, 0]),
        ("add", "s8", ([127, -128], [1, -1]), [-128, 127]),
        ("multiply", "pred", ([0, 1, 1], [1, 1, 0]), [False, True, False]),
        ("add", "pred", ([0, 1, 1], [0, 1, 0]), [False, True, True]),
        ("abs", "s32", ([LOW, -3],), [LOW, 3]),
        ("negate", "u8", ([1, 0],), [255, 0]),
        ("not", "pred", ([0, 1],), [True, False]),
        ("not", "u8", ([0b10101010],), [0b01010101]),
        ("shift_left", "s32", ([1, 1, 1, 3], [31, 32, -1, 1]), [LOW, 0, 0, 6]),
        ("shift_right_logical", "s32", ([-1, -1, -1], [31, 32, 0]), [1, 0, -1]),
        ("shift_right_arithmetic", "s32", ([-8, -8, 8, 8], [1, 40, 40, -1]), [-4, -1, 0, 0]),
        ("popcnt", "s16", ([-1, 0, 5],), [16, 0, 2]),
        ("count_leading_zeros", "u16", ([0, 1, 0x8000, 0x0F00],), [16, 15, 0, 4]),
        ("round_nearest_even", "f32", ([0.5, 1.5, 2.5, -2.5],), [0, 2, 2, -2]),
        ("round_nearest_afz", "f32", ([0.5, 1.5, 2.5, -2.5, 0.49999997],), [1, 2, 3, -3, 0]),
        ("is_finite", "f32", ([1, INF, NAN],), [True, False, False]),
        ("rsqrt", "f32", ([4, 0, INF],), [0.5, INF, 0]),
        ("logistic", "f32", ([0, INF, -INF],), [0.5, 1, 0]),
        ("erf", "f32", ([0, INF, -INF],), [0, 1, -1]),
        ("clamp", "s32", ([0, 0, 0], [-5, 3, 9], [5, 5, 5]), [0, 3, 5]),
        ("copy", "bf16", ([1.5, -2],), [1.5, -2]),
    ],
)  # fmt: skip
def test_values(opcode: str, dtype: str, operands: tuple[Any, ...], expected: list[Any]) -> None:
    assert run(opcode, dtype, *operands, gives="pred" if opcode == "is_finite" else dtype) == expected


def test_the_cube_root_is_within_one_unit_of_the_last_place() -> None:
    """It is the C library's, which rounds as the machine does."""
    assert np.allclose(run("cbrt", "f64", [27, -8]), [3, -2], rtol=np.finfo(np.float64).eps, atol=0)


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_extrema_propagate_nan_from_either_side(opcode: str) -> None:
    assert np.isnan(run(opcode, "f32", [NAN, 1, NAN], [1, NAN, NAN])).all()


def test_clamp_propagates_nan() -> None:
    assert np.isnan(run("clamp", "f32", [0, NAN, 0], [NAN, 1, 1], [2, 2, NAN])).all()


def test_sign_keeps_zeros_and_nan() -> None:
    found = run("sign", "f32", [-0.0, 0.0, NAN, -7, INF])
    assert [np.signbit(found[0]), np.signbit(found[1])] == [True, False]
    assert np.isnan(found[2])
    assert found[3:] == [-1, 1]


@pytest.mark.parametrize(("direction", "expected"), [("EQ", False), ("NE", True), ("LT", False), ("GE", False)])
def test_compare_with_nan(direction: str, expected: bool) -> None:
    assert run("compare", "f32", [NAN, 1], [1, NAN], gives="pred", direction=direction) == [expected] * 2


@pytest.mark.parametrize(
    ("source", "target", "operand", "expected"),
    [
        ("f32", "s32", [3e9, -3e9, NAN, 2.9, -2.9], [2**31 - 1, LOW, 0, 2, -2]),
        ("f32", "u8", [-1, 255.9, 256, NAN], [0, 255, 255, 0]),
        ("f64", "s64", [1e300, -1e300, 2.0**62], [2**63 - 1, -(2**63), 2**62]),
        ("f32", "u64", [2.0**63, 2.0**64, -5], [2**63, 2**64 - 1, 0]),
        ("bf16", "s8", [200, -200, 1.5], [127, -128, 1]),
        ("f32", "pred", [0, -0.0, NAN, 0.1], [False, False, True, True]),
        ("s32", "pred", [0, 2, -1], [False, True, True]),
        ("pred", "f32", [1, 0], [1.0, 0.0]),
        ("s32", "u8", [257, -1], [1, 255]),
        ("f32", "bf16", [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], [1.0, 1 + 2**-6, 1 + 2**-7]),
        ("f32", "f16", [65519, 65520], [65504, INF]),
        ("f32", "f8e4m3", [1.0625, 230.0, 1e9], [1.0, 224.0, INF]),
        ("f32", "f8e5m2", [1.125, 1.375, 1e9], [1.0, 1.5, INF]),
    ],
)
def test_convert(source: str, target: str, operand: list[float], expected: list[Any]) -> None:
    assert run("convert", source, operand, gives=target) == expected


def test_narrow_floats_are_rounded_once() -> None:
    """256 + 1 + 1: rounded after each step it stays at 256, which an operation of one step cannot show; a sum can."""
    parts = [np.array([value], NUMPY["bf16"]) for value in (256, 1, 1)]
    output = TensorType(NUMPY["bf16"], (1,))
    assert evaluate("combine", {"op": "add"}, parts, [output])[0].tolist() == [258]
    # 1.0078125 * 1.0078125 = 1.01568603515625 lies between 1.015625 and 1.0234375.
    assert run("multiply", "bf16", [1.0078125], [1.0078125]) == [1.015625]


def test_one_element_predicates_and_bounds_broadcast() -> None:
    pair = [np.array([1, 2, 3], np.int32), np.array([7, 8, 9], np.int32)]
    output = [TensorType(NUMPY["s32"], (3,))]
    assert evaluate("select", {}, [np.array(False), *pair], output)[0].tolist() == [7, 8, 9]
    bounds = [np.array(2, np.int32), pair[0], np.array([2], np.int32)]
    assert evaluate("clamp", {}, bounds, output)[0].tolist() == [2, 2, 2]


def test_bitcast_convert_reads_the_same_bytes() -> None:
    assert run("bitcast_convert", "f32", [1.0, -2.0], gives="s32") == [0x3F800000, -0x40000000]
    halves = evaluate("bitcast_convert", {}, [np.array([0x00020001], np.int32)], [TensorType(NUMPY["u16"], (1, 2))])
    assert halves[0].tolist() == [[1, 2]]


FRESH = [
    ("add", 2, "f32 bf16 s32"), ("copy", 1, "f32 pred"), ("divide", 2, "s32 u8"), ("shift_left", 2, "s32"),
    ("popcnt", 1, "u8"), ("count_leading_zeros", 1, "s64"), ("sign", 1, "f32 s8"), ("round_nearest_afz", 1, "f16"),
    ("power", 2, "s16"), ("logistic", 1, "f32"), ("rsqrt", 1, "f32"), ("clamp", 3, "s32"),
]  # fmt: skip


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_results_are_fresh_contiguous_and_exactly_typed(shape: tuple[int, ...]) -> None:
    for opcode, arity, dtypes in FRESH:
        for dtype in dtypes.split():
            operands = [np.ones(shape, NUMPY[dtype])] * arity
            (result,) = evaluate(opcode, {}, operands, [TensorType(NUMPY[dtype], shape)])
            assert isinstance(result, np.ndarray)
            assert (result.dtype, result.shape) == (NUMPY[dtype], shape)
            assert result.flags.c_contiguous and result.flags.writeable
            assert not np.shares_memory(result, operands[0])


def test_no_warning_escapes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("divide", "f32", [1.0, 0.0], [0.0, 0.0])
        run("divide", "s32", [1, LOW], [0, -1])
        run("log", "f32", [-1.0, 0.0])
        run("exponential", "bf16", [1000.0])
        run("multiply", "s32", [2**30, 3], [8, 5])
        run("convert", "f32", [NAN, 1e30], gives="s32")
        run("convert", "f64", [1e300], gives="bf16")


@pytest.mark.parametrize(
    ("opcode", "dtype", "operands", "attrs", "says"),
    [
        ("frobnicate", "f32", ([1],), {}, "no such operation"),
        ("add", "f32", ([1],), {}, "expected operands x, y -> z, found 1 -> 1"),
        ("add", "f32", ([1, 2], [1]), {}, "has shape [1]"),
        ("sine", "s32", ([1],), {}, "not defined on s32"),
        ("and", "f32", ([1], [2]), {}, "not defined on f32"),
        ("subtract", "pred", ([1], [1]), {}, "not defined on pred"),
        ("compare", "f32", ([1], [2]), {}, "`direction` is missing"),
        ("compare", "f32", ([1], [2]), {"direction": "UP"}, "found 'UP'"),
        ("compare", "f32", ([1], [2]), {"direction": "EQ"}, "gives pred"),
        ("select", "f32", ([1], [2], [3]), {}, "not pred"),
    ],
)
def test_what_cannot_be_executed_is_said(opcode: str, dtype: str, operands: Any, attrs: Any, says: str) -> None:
    with pytest.raises(HauloutError) as caught:
        run(opcode, dtype, *operands, **attrs)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "bad-input"
    assert says in diagnostic.message
    assert opcode in diagnostic.message


def test_mixed_element_types_are_refused() -> None:
    with pytest.raises(HauloutError, match="differ in element type: f32, s32"):
        evaluate("add", {}, [np.ones(2, np.float32), np.ones(2, np.int32)], [TensorType(NUMPY["f32"], (2,))])


def test_each_opcode_that_a_core_executes_has_a_function() -> None:
    executed = [row.name for row in OPCODES.values() if row.operands is not None and not row.collective]
    assert sorted(KERNELS) == sorted(executed)
    assert {row.name for row in OPCODES.values() if row.types and row.flow is Flow.ELEMENTS} <= set(KERNELS)


@pytest.mark.parametrize("dtype", ["pred", "u8", "bf16", "s16", "f32", "s32", "f64", "s64"])
@pytest.mark.parametrize("shape", [(), (1,), (7, 9)])
def test_select_takes_the_bits_of_one_or_the_other(dtype: str, shape: tuple[int, ...]) -> None:
    """Payloads of NaN are kept, and a predicate that is not zero is true, whatever its byte is."""
    random = np.random.default_rng(1)
    itemsize, count = NUMPY[dtype].itemsize, int(np.prod(shape))
    pair = [
        np.frombuffer(random.bytes(count * itemsize), NUMPY[dtype]).reshape(shape)
        if dtype != "pred"
        else random.integers(0, 2, shape).astype(np.bool_)
        for _ in range(2)
    ]
    predicate = np.frombuffer(random.choice([b"\0", b"\1", b"\2", b"\xff"], count).tobytes(), np.bool_).reshape(shape)
    (found,) = evaluate("select", {}, [predicate, *pair], [TensorType(NUMPY[dtype], shape)])
    chosen = predicate.view(np.uint8) != 0
    assert found.tobytes() == np.where(chosen, *pair).astype(NUMPY[dtype]).tobytes()
