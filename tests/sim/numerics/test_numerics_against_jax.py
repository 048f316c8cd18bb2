"""Every kernel against `jax.lax` on the CPU, on small inputs with the awkward values in them."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from haulout.ir.dtypes import name_of
from haulout.sim.numerics import TensorType, evaluate
from haulout.sim.numerics.dtypes import computes_in

jax = pytest.importorskip("jax")
from jax import lax  # noqa: E402

pytestmark = pytest.mark.jax

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.float32, np.float64, np.float16, BF16]
SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]

TOLERANCE = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-13, np.dtype(np.float16): 1e-3, BF16: 8e-3}
TOLERANCE |= {np.dtype(ml_dtypes.float8_e4m3fn): 1e-9, np.dtype(ml_dtypes.float8_e5m2): 1e-9}


@pytest.fixture(autouse=True, scope="module")
def _wide_types() -> Any:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def by_jax(function: Any, *operands: Any) -> list[np.ndarray]:
    results = jax.jit(function)(*operands)
    return [np.asarray(result) for result in (results if isinstance(results, tuple | list) else [results])]


def agree(
    opcode: str,
    attrs: dict[str, Any],
    operands: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    sums: bool = False,
) -> None:
    """Equal up to rounding: of each element, or, where terms of either sign were summed, of the largest element.

    XLA rounds the narrow floats after every step of a sum and we do it once, hence the factor 4.
    """
    outputs = [TensorType(result.dtype, result.shape) for result in expected]
    for found, wanted in zip(evaluate(opcode, attrs, operands, outputs), expected, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        tolerance = TOLERANCE.get(wanted.dtype, 0.0)
        left, right = (x.astype(np.float64) if tolerance else x for x in (found, wanted))
        scale = 4 * np.abs(right).max(initial=0, where=np.isfinite(right)) if sums and tolerance else 1e-2
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance * scale)


def floats(dtype: Any, seed: int = 0) -> np.ndarray:
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 100.0, -100.0, 3e-5]
    return np.concatenate([special, np.random.default_rng(seed).normal(0, 3, 49)]).astype(dtype)


def whole(dtype: Any, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    special = [0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min + 1]
    drawn = np.random.default_rng(seed).integers(limits.min, limits.max, 55, dtype, endpoint=True)
    return np.concatenate([np.array(special, dtype), drawn])


def pairs(make: Any, dtype: Any) -> list[np.ndarray]:
    left, right = make(dtype), make(dtype, 1)[:24]
    return [np.repeat(left, right.size), np.tile(right, left.size)]


UNARY_FLOAT = {
    "negate": lax.neg, "abs": lax.abs, "sign": lax.sign, "floor": lax.floor, "ceil": lax.ceil,
    "round_nearest_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round_nearest_afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "exponential": lax.exp, "exponential_minus_one": lax.expm1, "log": lax.log, "log_plus_one": lax.log1p,
    "logistic": lax.logistic, "tanh": lax.tanh, "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "cbrt": lax.cbrt,
    "sine": lax.sin, "cosine": lax.cos, "tan": lax.tan, "erf": lax.erf, "is_finite": lax.is_finite,
}  # fmt: skip
BINARY_FLOAT = {
    "add": lax.add, "subtract": lax.sub, "multiply": lax.mul, "divide": lax.div, "remainder": lax.rem,
    "maximum": lax.max, "minimum": lax.min, "power": lax.pow, "atan2": lax.atan2,
}  # fmt: skip
UNARY_INT = {
    "negate": lax.neg, "abs": lax.abs, "sign": lax.sign, "not": lax.bitwise_not,
    "popcnt": lax.population_count, "count_leading_zeros": lax.clz,
}  # fmt: skip
BINARY_INT = {
    "add": lax.add, "subtract": lax.sub, "multiply": lax.mul, "divide": lax.div, "remainder": lax.rem,
    "maximum": lax.max, "minimum": lax.min, "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
}  # fmt: skip
SHIFTS = {
    "shift_left": lax.shift_left,
    "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
}


def each_agrees(functions: dict[str, Any], operands: Sequence[np.ndarray]) -> None:
    """All the opcodes of a table on the same operands, compiled together."""
    expected = by_jax(lambda *x: [function(*x) for function in functions.values()], *operands)
    for opcode, result in zip(functions, expected, strict=True):
        agree(opcode, {}, operands, [result])


@pytest.mark.parametrize("dtype", FLOATS)
def test_unary_on_floats(dtype: Any) -> None:
    each_agrees(UNARY_FLOAT, [floats(dtype)])


@pytest.mark.parametrize("dtype", FLOATS)
def test_binary_on_floats(dtype: Any) -> None:
    each_agrees(BINARY_FLOAT, pairs(floats, dtype))


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_unary_on_integers(dtype: Any) -> None:
    skipped = () if np.dtype(dtype).kind == "i" else ("abs",)  # jax.lax has no abs of unsigned integers
    each_agrees({name: f for name, f in UNARY_INT.items() if name not in skipped}, [whole(dtype)])


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_binary_on_integers(dtype: Any) -> None:
    each_agrees(BINARY_INT, pairs(whole, dtype))


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_shifts(dtype: Any) -> None:
    width = np.dtype(dtype).itemsize * 8
    amounts = np.array([0, 1, 3, width - 1, width, width + 1, np.iinfo(dtype).max], dtype)
    if np.dtype(dtype).kind == "i":
        amounts = np.append(amounts, np.array([-1], dtype))
    each_agrees(SHIFTS, [np.repeat(whole(dtype), amounts.size), np.tile(amounts, whole(dtype).size)])


@pytest.mark.parametrize("source", [*FLOATS, *SIGNED, *UNSIGNED, np.bool_])
def test_convert(source: Any) -> None:
    if np.dtype(source).kind in "iu":
        operand = whole(source)
    elif source is np.bool_:
        operand = np.array([True, False])
    else:
        edges = [s * 2.0**bits + d for s in (-1, 1) for bits in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, 0, 0.9)]
        with np.errstate(over="ignore"):
            operand = np.concatenate([floats(source), np.array(edges).astype(source)])
    targets = [*FLOATS, *SIGNED, *UNSIGNED, np.bool_]
    for expected in by_jax(lambda x: [lax.convert_element_type(x, target) for target in targets], operand):
        agree("convert", {}, [operand], [expected])


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_convert_to_eight_bits(name: str) -> None:
    operand = np.concatenate([floats(np.float32), np.array([447, 448, 463, 464, 465, 480, 57344, 61439, 61440, 7e4])])
    operand = operand.astype(np.float32)
    expected = by_jax(lambda x: lax.convert_element_type(x, name), operand)
    agree("convert", {}, [operand], expected)
    agree("convert", {}, expected, by_jax(lambda x: lax.convert_element_type(x, np.float32), *expected))


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32, np.uint8, np.bool_])
def test_compare(dtype: Any) -> None:
    if dtype is np.bool_:
        operands = [np.array([0, 0, 1, 1], np.bool_), np.array([0, 1, 0, 1], np.bool_)]
    else:
        operands = pairs(whole if np.dtype(dtype).kind in "iu" else floats, dtype)
    directions = {"EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge}
    expected = by_jax(lambda x, y: [function(x, y) for function in directions.values()], *operands)
    for direction, result in zip(directions, expected, strict=True):
        agree("compare", {"direction": direction}, operands, [result])


def test_select_and_clamp() -> None:
    value = floats(np.float32)
    predicate = value > 0
    agree("select", {}, [predicate, value, -value], by_jax(lax.select, predicate, value, -value))
    one = np.array(True)
    agree("select", {}, [one, value, -value], by_jax(lax.select, one, value, -value))
    for low, high in [(-1.0, 1.0), (2.0, 1.0), (np.nan, 1.0)]:
        bounds = np.float32(low), np.float32(high)
        operands = [np.array(bounds[0]), value, np.array(bounds[1])]
        agree("clamp", {}, operands, by_jax(lambda v, b=bounds: lax.clamp(b[0], v, b[1]), value))


@pytest.mark.parametrize(("source", "target"), [("float32", "int32"), ("uint32", "uint16"), ("int16", "float32")])
def test_bitcast_convert(source: str, target: str) -> None:
    operand = np.arange(24, dtype=np.int64).astype(source).reshape(3, 4, 2)
    agree("bitcast_convert", {}, [operand], by_jax(lambda x: lax.bitcast_convert_type(x, target), operand))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, BF16, np.float16, np.int32, np.int8])
@pytest.mark.parametrize(
    ("left", "right", "batch", "contracted"),
    [
        ((3, 4), (4, 5), ([], []), ([1], [0])),
        ((4, 3), (5, 4), ([], []), ([0], [1])),
        ((2, 3, 4), (5, 4, 2), ([0], [2]), ([2], [1])),
        ((2, 3, 4, 6), (6, 2, 7, 3), ([1, 0], [3, 1]), ([3], [0])),
        ((2, 3, 4), (4, 3, 5), ([], []), ([1, 2], [1, 0])),
        ((4,), (4,), ([], []), ([0], [0])),
        ((3,), (4,), ([], []), ([], [])),
        ((3, 0), (0, 2), ([], []), ([1], [0])),
    ],
)
def test_dot(left: Any, right: Any, batch: Any, contracted: Any, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    operands = [rng.normal(0, 3, shape).astype(dtype) for shape in (left, right)]
    attrs = {
        "lhs_batch": batch[0], "rhs_batch": batch[1],
        "lhs_contracting": contracted[0], "rhs_contracting": contracted[1],
    }  # fmt: skip
    expected = by_jax(lambda x, y: lax.dot_general(x, y, (contracted, batch)), *operands)
    agree("dot", attrs, operands, expected, sums=True)


def test_dot_into_a_wider_type() -> None:
    operands = [np.full((2, 300), 100, np.int8), np.full((300, 2), -90, np.int8)]
    expected = by_jax(lambda x, y: lax.dot(x, y, preferred_element_type=np.int32), *operands)
    agree("dot", {"lhs_contracting": [1], "rhs_contracting": [0]}, operands, expected)


CONVOLUTIONS = [
    ("b01f_01io->b01f", (2, 9, 8, 4), (3, 2, 4, 6), {}),
    ("b01f_01io->b01f", (2, 9, 8, 4), (3, 2, 4, 6), {"stride": (2, 3), "pad": ((1, 2), (0, 3))}),
    ("bf01_oi01->bf01", (2, 4, 9, 8), (6, 4, 3, 3), {"pad": ((-1, 2), (2, -2)), "rhs_dilate": (2, 1)}),
    (
        "bf01_oi01->bf01",
        (2, 4, 5, 6),
        (6, 4, 3, 3),
        {"lhs_dilate": (2, 3), "pad": ((1, 0), (2, 2)), "stride": (2, 1)},
    ),
    ("f01b_i01o->01bf", (3, 9, 8, 4), (3, 7, 8, 5), {"pad": ((0, 0), (1, 1))}),
    ("b01f_01io->b01f", (2, 6, 6, 6), (3, 3, 2, 9), {"feature_groups": 3}),
    ("b01f_01io->b01f", (2, 6, 6, 4), (3, 3, 1, 8), {"feature_groups": 4, "rhs_dilate": (2, 2)}),
    ("b01f_01io->b01f", (6, 6, 6, 4), (3, 3, 4, 9), {"batch_groups": 3}),
    ("b01f_01io->b01f", (4, 5, 5, 3), (5, 5, 3, 8), {"batch_groups": 2, "pad": ((1, 1), (1, 0))}),
    ("b0f_0io->b0f", (2, 11, 3), (4, 3, 5), {"stride": (3,)}),
    ("bf_io->bf", (2, 3), (3, 5), {}),
    ("b012f_012io->b012f", (1, 4, 5, 6, 2), (2, 3, 2, 2, 3), {"stride": (1, 2, 2)}),
]


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
@pytest.mark.parametrize(("labels", "left", "right", "options"), CONVOLUTIONS)
def test_convolution(labels: str, left: Any, right: Any, options: dict[str, Any], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    operands = [rng.normal(0, 4, shape).astype(dtype) for shape in (left, right)]
    rank = len(left) - 2
    padding = options.get("pad", ((0, 0),) * rank)
    specs = [part.upper().replace("B", "N").replace("F", "C") for part in labels.replace("->", "_").split("_")]
    expected = by_jax(
        lambda x, y: lax.conv_general_dilated(
            x,
            y,
            window_strides=options.get("stride", (1,) * rank),
            padding=padding,
            lhs_dilation=options.get("lhs_dilate"),
            rhs_dilation=options.get("rhs_dilate"),
            dimension_numbers=tuple(specs),
            feature_group_count=options.get("feature_groups", 1),
            batch_group_count=options.get("batch_groups", 1),
            precision=lax.Precision.HIGHEST,
        ),
        *operands,
    )
    attrs = {
        key: list(value) if isinstance(value, tuple) else value for key, value in options.items() if key != "pad"
    }
    attrs |= {
        "dim_labels": labels,
        "pad_low": [low for low, _ in padding],
        "pad_high": [high for _, high in padding],
        "size": [right[part] for part in _spatial(labels)],
    }
    agree("convolution", attrs, operands, expected, sums=True)


def _spatial(labels: str) -> list[int]:
    kernel = labels.split("_")[1].split("-")[0]
    return [kernel.index(digit) for digit in sorted(set(kernel) - {"i", "o"})]


REDUCERS = {"add": lax.add, "multiply": lax.mul, "maximum": lax.max, "minimum": lax.min}


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16, np.int32, np.int8])
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_reduce(dims: tuple[int, ...], dtype: Any) -> None:
    operand = np.random.default_rng(0).normal(1, 1, (4, 3, 5)).astype(dtype)
    initial = np.array(2, dtype)
    wide = operand.astype(computes_in(operand.dtype)), initial.astype(computes_in(operand.dtype))
    expected = by_jax(lambda x, i: [lax.reduce(x, i, f, dims).astype(dtype) for f in REDUCERS.values()], *wide)
    for op, result in zip(REDUCERS, expected, strict=True):
        agree("reduce", {"dims": list(dims), "op": op}, [operand, initial], [result], sums=True)


@pytest.mark.parametrize("op", ["and", "or"])
def test_reduce_predicates(op: str) -> None:
    operand = np.random.default_rng(0).integers(0, 2, (5, 3, 2)).astype(np.bool_)
    initial = np.array(op == "and")
    function = {"and": lax.bitwise_and, "or": lax.bitwise_or}[op]
    expected = by_jax(lambda x, i: lax.reduce(x, i, function, (2,)), operand, initial)
    agree("reduce", {"dims": [2], "op": op}, [operand, initial], expected)


def test_reduce_propagates_nan() -> None:
    operand = np.array([[1, np.nan, 3], [np.inf, 2, 1]], np.float32)
    for op, initial in (("maximum", -np.inf), ("minimum", np.inf), ("add", 0)):
        start = np.array(initial, np.float32)
        expected = by_jax(lambda x, i, op=op: lax.reduce(x, i, REDUCERS[op], (1,)), operand, start)
        agree("reduce", {"dims": [1], "op": op}, [operand, start], expected)


# Parameters 0..3: best so far, its place, candidate, its place.
ARGMAX = [
    ["compare", "pred", [0, 2], "GT"],
    ["compare", "pred", [0, 2], "EQ"],
    ["compare", "pred", [1, 3], "LT"],
    ["and", "pred", [5, 6]],
    ["or", "pred", [4, 7]],
    ["select", "f32", [8, 0, 2]],
    ["select", "s32", [8, 1, 3]],
]


@pytest.mark.parametrize("extent", [1, 2, 7, 64])
@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_by_body(axis: int, extent: int) -> None:
    shape = (extent, 5) if axis == 0 else (5, extent)
    operand = np.random.default_rng(0).integers(0, 9, shape).astype(np.float32)
    places = np.moveaxis(np.broadcast_to(np.arange(extent, dtype=np.int32), (5, extent)), 1, axis)
    initial = [np.array(-np.inf, np.float32), np.array(0, np.int32)]
    index = by_jax(lambda x: lax.argmax(x, axis, np.int32), operand)[0]
    expected = [operand.max(axis=axis), index]
    agree("reduce", {"dims": [axis], "body": ARGMAX, "results": [9, 10]}, [operand, places, *initial], expected)


WINDOWS = [
    {"size": (1, 2, 2), "stride": (1, 2, 2)},
    {"size": (1, 3, 2), "stride": (1, 2, 1), "pad": ((0, 0), (1, 1), (0, 1))},
    {"size": (2, 3, 2), "pad": ((1, 0), (2, 0), (0, 3)), "window_dilate": (1, 2, 3)},
    {"size": (1, 5, 1), "pad": ((0, 0), (4, 0), (0, 0))},
    {"size": (1, 7, 1), "base_dilate": (1, 2, 3), "stride": (1, 3, 2)},
    {"size": (1, 2, 2), "pad": ((0, 0), (-1, -1), (2, -2))},
    {"size": (3, 7, 8)},
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
@pytest.mark.parametrize("window", WINDOWS)
def test_reduce_window(window: dict[str, Any], dtype: Any) -> None:
    operand = np.random.default_rng(0).normal(0, 2, (3, 7, 8)).astype(dtype)
    initial = {"add": 0, "multiply": 1, "maximum": -5, "minimum": 5}
    starts = [np.array(initial[op], dtype) for op in REDUCERS]
    expected = by_jax(
        lambda *x: [
            _reduce_window(window, f)(x[0], s).astype(dtype) for f, s in zip(REDUCERS.values(), x[1:], strict=True)
        ],
        *(x.astype(computes_in(x.dtype)) for x in (operand, *starts)),
    )
    attrs = _window_attrs(window)
    for op, start, result in zip(REDUCERS, starts, expected, strict=True):
        agree("reduce_window", attrs | {"op": op}, [operand, start], [result], sums=True)
        if dtype is BF16:  # a body rounds after every step
            continue
        body = [[op, name_of(np.dtype(dtype)), [0, 1]]]
        agree("reduce_window", attrs | {"body": body, "results": [2]}, [operand, start], [result], sums=True)


def _reduce_window(window: dict[str, Any], function: Any) -> Any:
    ones = (1,) * 3

    def run(operand: Any, initial: Any) -> Any:
        return lax.reduce_window(
            operand,
            initial,
            function,
            window["size"],
            window.get("stride", ones),
            window.get("pad", ((0, 0),) * 3),
            window.get("base_dilate", ones),
            window.get("window_dilate", ones),
        )

    return run


def _window_attrs(window: dict[str, Any]) -> dict[str, Any]:
    attrs = {key: list(value) for key, value in window.items() if key != "pad"}
    for index, name in enumerate(("pad_low", "pad_high")):
        attrs[name] = [pad[index] for pad in window.get("pad", ((0, 0),) * len(window["size"]))]
    return attrs


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("select", ["GE", "LE"])
@pytest.mark.parametrize(
    "window",
    [
        {"size": (1, 2, 2), "stride": (1, 2, 2)},
        {"size": (1, 3, 2), "stride": (1, 2, 1), "pad": ((0, 0), (1, 1), (0, 1))},
        {"size": (2, 3, 3), "stride": (1, 1, 2), "pad": ((1, 0), (1, 1), (0, 1))},
    ],
)
def test_select_and_scatter(window: dict[str, Any], select: str, dtype: Any) -> None:
    """It is what JAX differentiates a pooling to."""
    rng = np.random.default_rng(0)
    # Few distinct values, so that windows hold ties.
    operand = rng.integers(0, 4, (3, 7, 8)).astype(dtype)
    combine, start = (lax.max, -np.inf) if select == "GE" else (lax.min, np.inf)
    pool = _reduce_window(window, combine)
    initial = np.array(start, dtype)
    source = rng.integers(-8, 8, by_jax(pool, operand, initial)[0].shape).astype(dtype)
    expected = by_jax(lambda o, s: jax.vjp(lambda x: pool(x, initial), o)[1](s), operand, source)
    operands = [operand, source, np.array(0, dtype)]
    agree("select_and_scatter", _window_attrs(window) | {"select": select, "op": "add"}, operands, expected)


def test_broadcast_iota_pad() -> None:
    operand = np.arange(6, dtype=np.float32).reshape(2, 3)
    for shape, dims in [((4, 2, 3), (1, 2)), ((2, 5, 3), (0, 2)), ((2, 3, 4), (0, 1))]:
        expected = by_jax(lambda x, s=shape, d=dims: lax.broadcast_in_dim(x, s, d), operand)
        agree("broadcast", {"dims": list(dims)}, [operand], expected)
    for dtype, dim in product([np.int32, np.float32, BF16, np.uint8], range(2)):
        expected = by_jax(lambda dtype=dtype, dim=dim: lax.broadcasted_iota(dtype, (3, 300), dim))
        agree("iota", {"dim": dim}, [], expected)
    value = np.array(9, np.float32)
    extents = [(low, high, interior) for low in range(-3, 3) for high in range(-3, 3) for interior in range(3)]
    for first, second in zip(extents, reversed(extents), strict=True):
        config = [first, second]
        spread = [size + (size - 1) * gap + low + high for size, (low, high, gap) in zip((2, 3), config, strict=True)]
        if min(spread) < 0:
            continue
        low, high, interior = (list(column) for column in zip(*config, strict=True))
        expected = by_jax(lambda x, v, c=config: lax.pad(x, v, c), operand, value)
        agree("pad", {"low": low, "high": high, "interior": interior}, [operand, value], expected)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64, np.uint64])
def test_dynamic_slices(dtype: Any) -> None:
    operand = np.arange(42, dtype=np.float32).reshape(6, 7)
    update = -np.ones((2, 3), np.float32)
    for row, column in product((-5, 0, 3, 5, 100), repeat=2):
        if np.dtype(dtype).kind == "u" and min(row, column) < 0:
            continue
        starts = [np.array(row, dtype), np.array(column, dtype)]
        # jax.lax normalises negative starts before HLO sees them; HLO clamps.
        clamped = [max(row, 0), max(column, 0)]
        expected = by_jax(lambda x, c=clamped: lax.dynamic_slice(x, c, (2, 3)), operand)
        agree("dynamic_slice", {"sizes": [2, 3]}, [operand, *starts], expected)
        expected = by_jax(lambda x, u, c=clamped: lax.dynamic_update_slice(x, u, c), operand, update)
        agree("dynamic_update_slice", {}, [operand, update, *starts], expected)


# operand, indices, slice sizes, then the dimension numbers
GATHERS = [
    ((10, 4), (1, 5, 1), (1, 4), {"offset_dims": (2,), "collapsed_slice_dims": (0,), "start_index_map": (0,)}),
    ((8, 5, 6), (7, 2), (1, 1, 6), {"offset_dims": (1,), "collapsed_slice_dims": (0, 1), "start_index_map": (0, 1)}),
    ((8, 5, 6), (7, 2), (3, 2, 1), {"offset_dims": (0, 2), "collapsed_slice_dims": (2,), "start_index_map": (2, 0)}),
    (
        (4, 9),
        (4, 3, 1),
        (1, 1),
        {"offset_dims": (), "collapsed_slice_dims": (1,), "start_index_map": (1,), "operand_batching_dims": (0,),
             "start_indices_batching_dims": (0,)},
    ),
    (
        (3, 5, 4),
        (4, 2, 3, 1),
        (1, 2, 1),
        {"offset_dims": (1,), "collapsed_slice_dims": (), "start_index_map": (1,), "operand_batching_dims": (0, 2),
             "start_indices_batching_dims": (2, 0)},
    ),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
@pytest.mark.parametrize(("shape", "indices", "sizes", "numbers"), GATHERS)
def test_gather(shape: Any, indices: Any, sizes: Any, numbers: dict[str, Any], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    operand = rng.normal(0, 1, shape).astype(dtype)
    at = rng.integers(-3, 12, indices).astype(np.int32)
    dims = lax.GatherDimensionNumbers(**numbers)
    expected = by_jax(lambda x, i: lax.gather(x, i, dims, sizes, mode="clip"), operand, at)
    attrs = {key: list(value) for key, value in numbers.items()}
    attrs |= {"slice_sizes": list(sizes), "index_vector_dim": len(indices) - 1}
    agree("gather", attrs, [operand, at], expected)


# operand, indices, updates; then update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims and, for both
# the operand and the indices, batching dims
SCATTERS = [
    ((10, 4), (6, 1), (6, 4), [(1,), (0,), (0,), ()]),
    ((8, 5, 6), (9, 2), (9, 6), [(1,), (0, 1), (0, 1), ()]),
    ((8, 5, 6), (9, 2), (2, 9, 3), [(0, 2), (1,), (1, 2), ()]),
    ((9,), (12, 1), (12, 2), [(1,), (), (0,), ()]),
    ((4, 9), (4, 5, 1), (4, 5), [(), (1,), (1,), (0,)]),
]
SCATTER_OPS = {
    "add": lax.scatter_add, "multiply": lax.scatter_mul, "minimum": lax.scatter_min, "maximum": lax.scatter_max,
    "assign": lax.scatter,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(("shape", "indices", "updates", "numbers"), SCATTERS)
def test_scatter(shape: Any, indices: Any, updates: Any, numbers: Any, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    operand = rng.integers(-9, 9, shape).astype(dtype)
    at = rng.integers(-2, 10, indices).astype(np.int32)
    values = rng.integers(-9, 9, updates).astype(dtype)
    dims = lax.ScatterDimensionNumbers(*numbers, numbers[3])
    # With mode=fill, jax.lax hands the indices to HLO as they are.
    expected = by_jax(
        lambda x, i, u: [function(x, i, u, dims, mode="fill") for function in SCATTER_OPS.values()],
        operand,
        at,
        values,
    )
    names = ["update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims"]
    attrs: dict[str, Any] = {name: list(dims) for name, dims in zip(names, numbers, strict=True)}
    attrs |= {"scatter_indices_batching_dims": list(numbers[3]), "index_vector_dim": len(indices) - 1}
    for op, result in zip(SCATTER_OPS, expected, strict=True):
        agree("scatter", attrs | {"op": op}, [operand, at, values], [result])
        body = [[op, name_of(np.dtype(dtype)), [0, 1]]] if op != "assign" else []
        chosen = [2] if op != "assign" else [1]
        agree("scatter", attrs | {"body": body, "results": chosen}, [operand, at, values], [result])


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
def test_topk(dtype: Any) -> None:
    operand = np.random.default_rng(0).integers(-3, 4, (3, 4, 9)).astype(dtype)
    agree("topk", {"k": 4, "largest": True}, [operand], by_jax(lambda x: lax.top_k(x, 4), operand))
    if dtype is np.float32:
        special = np.array([0.0, -0.0, np.nan, -np.nan, 1, 1, -np.inf, np.inf, 0.0], dtype)
        agree("topk", {"k": 9}, [special], by_jax(lambda x: lax.top_k(x, 9), special))


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
def test_sort(dtype: Any) -> None:
    operand = np.random.default_rng(0).integers(-3, 4, (3, 7, 5)).astype(dtype)
    direction = "LT" if dtype is np.int32 else "LT_TOTAL"
    body = [["compare", "pred", [0, 1], direction]]
    places = np.broadcast_to(np.arange(7, dtype=np.int32)[:, None], operand.shape).copy()
    expected = by_jax(lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), operand, places)
    agree("sort", {"dim": 1, "body": body, "results": [4]}, [operand, places], expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_reduce_precision(dtype: Any) -> None:
    width, mantissa = np.dtype(dtype).itemsize, {2: 10, 4: 23, 8: 52}[np.dtype(dtype).itemsize]
    bits = np.random.default_rng(0).integers(0, 2 ** (8 * width), 4000, np.uint64, endpoint=width < 8)
    operand = np.concatenate([floats(dtype), bits.astype(f"u{width}").view(dtype)])
    operand = operand[operand == operand]  # which NaN it is does not count
    for exponent_bits, mantissa_bits in product((1, 2, 5, 8, 11), (0, 1, 7, mantissa)):
        if exponent_bits > (11 if width == 8 else 8 if width == 4 or dtype == BF16 else 5):
            continue
        (expected,) = by_jax(lambda x, e=exponent_bits, m=mantissa_bits: lax.reduce_precision(x, e, m), operand)
        attrs = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
        (found,) = evaluate("reduce_precision", attrs, [operand], [TensorType(operand.dtype, operand.shape)])
        assert found.tobytes() == expected.tobytes(), (exponent_bits, mantissa_bits)
