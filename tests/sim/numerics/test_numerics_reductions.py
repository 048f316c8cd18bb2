"""Reductions, sliding windows and their bodies against plain loops and values written out by hand."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from haulout.ir.dtypes import NUMPY
from haulout.sim.numerics import TensorType, evaluate
from haulout.support.diagnostics import HauloutError

S64 = NUMPY["s64"]
IDENTITY = {"add": 0, "multiply": 1, "maximum": -(2**63), "minimum": 2**63 - 1}
FUNCTION: dict[str, Any] = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape)


@pytest.mark.parametrize("op", IDENTITY)
@pytest.mark.parametrize("dims", [[0], [1], [0, 2], [2, 0, 1], []])
def test_reduce_counts_the_initial_value_once(op: str, dims: list[int]) -> None:
    operand = numbers((3, 4, 2))
    kept = tuple(size for dim, size in enumerate(operand.shape) if dim not in dims)
    expected = np.full(kept, 5)
    for index in np.ndindex(*operand.shape):
        at = tuple(i for dim, i in enumerate(index) if dim not in dims)
        expected[at] = FUNCTION[op](expected[at], operand[index])
    (found,) = evaluate("reduce", {"dims": dims, "op": op}, [operand, np.array(5)], [TensorType(S64, kept)])
    np.testing.assert_array_equal(found, expected)


def test_reduce_of_nothing_is_the_initial_value() -> None:
    operand, initial = np.zeros((3, 0), np.float32), np.array(-np.inf, np.float32)
    output = TensorType(NUMPY["f32"], (3,))
    for attrs in ({"op": "maximum"}, {"body": [["maximum", "f32", [0, 1]]], "results": [2]}):
        assert evaluate("reduce", {"dims": [1], **attrs}, [operand, initial], [output])[0].tolist() == [-np.inf] * 3


def test_long_sums_of_f32_are_exact() -> None:
    operand = np.full((1, 2**24 + 8), 1, np.float32).T
    output = TensorType(NUMPY["f32"], (1,))
    (found,) = evaluate("reduce", {"dims": [0], "op": "add"}, [operand, np.array(0, np.float32)], [output])
    assert found.tolist() == [2**24 + 8]


def test_reduce_wraps_integers() -> None:
    operand, output = np.full(4, 100, np.int8), TensorType(NUMPY["s8"], ())
    (found,) = evaluate("reduce", {"dims": [0], "op": "add"}, [operand, np.array(0, np.int8)], [output])
    assert found == (400 + 128) % 256 - 128


@pytest.mark.parametrize("extent", [1, 2, 3, 8, 13])
def test_body_is_folded_in_the_order_of_the_elements(extent: int) -> None:
    """Composition of affine maps is associative but not commutative: x -> a x + b, then x -> c x + d."""
    slopes, offsets = numbers((extent, 3)), numbers((extent, 3), 1)
    body = [["multiply", "s64", [0, 2]], ["multiply", "s64", [2, 1]], ["add", "s64", [5, 3]]]
    outputs = [TensorType(S64, (3,))] * 2
    operands = [slopes, offsets, np.array(1), np.array(0)]
    found = evaluate("reduce", {"dims": [0], "body": body, "results": [4, 6]}, operands, outputs)
    slope, offset = np.ones(3, int), np.zeros(3, int)
    for a, b in zip(slopes, offsets, strict=True):
        slope, offset = slope * a, a * offset + b
    np.testing.assert_array_equal(found[0], slope)
    np.testing.assert_array_equal(found[1], offset)


def test_several_dims_are_folded_in_row_major_order_however_they_are_listed() -> None:
    slopes, offsets = numbers((3, 4)), numbers((3, 4), 1)
    body = [["multiply", "s64", [0, 2]], ["multiply", "s64", [2, 1]], ["add", "s64", [5, 3]]]
    attrs = {"dims": [1, 0], "body": body, "results": [4, 6]}
    operands = [slopes, offsets, np.array(1), np.array(0)]
    found = evaluate("reduce", attrs, operands, [TensorType(S64, ())] * 2)
    offset = 0
    for a, b in zip(slopes.ravel().tolist(), offsets.ravel().tolist(), strict=True):
        offset = a * offset + b
    assert found[1] == offset


def test_body_with_a_constant_and_a_comparison() -> None:
    """Counts the elements above 2: parameters are the count so far and the element."""
    body = [
        ["constant", "s32", [], 2],
        ["compare", "pred", [1, 2], "GT"],
        ["convert", "s32", [3]],
        ["add", "s32", [0, 4]],
    ]
    operand, output = np.array([[1, 3, 5], [2, 2, 9]], np.int32), TensorType(NUMPY["s32"], (2,))
    attrs = {"dims": [1], "size": [1, 3], "body": body, "results": [5]}
    (found,) = evaluate("reduce_window", attrs, [operand, np.array(0, np.int32)], [TensorType(NUMPY["s32"], (2, 1))])
    assert found.tolist() == [[2], [1]]
    with pytest.raises(HauloutError, match="`reduce` cannot be executed: attribute `results`"):
        evaluate("reduce", attrs | {"results": [6]}, [operand, np.array(0, np.int32)], [output])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (["add", "s64"], "expected [OPCODE"),
        ("add", "expected [OPCODE"),
        (["add", "s64", [0, 2]], "not all earlier numbers"),
        (["add", "s64", [0, True]], "not all earlier numbers"),
        (["add", "int", [0, 1]], "unknown element type 'int'"),
        (["dot", "s64", [0, 1]], "`dot` is not an element-wise operation"),
        (["constant", "s64", [], "x"], "a constant has"),
        (["add", "s64", [0]], "takes 2 operands, found 1"),
    ],
)
def test_malformed_bodies_are_refused(row: Any, says: str) -> None:
    with pytest.raises(HauloutError) as caught:
        attrs = {"dims": [0], "body": [row], "results": [2]}
        evaluate("reduce", attrs, [numbers((3,)), np.array(0)], [TensorType(S64, ())])
    assert says in str(caught.value)


def test_combine_goes_from_left_to_right() -> None:
    """In f32, (2**24 + 1) + 1 loses both ones; 1 + 1 + 2**24 keeps them."""
    parts = [np.array([value], np.float32) for value in (2**24, 1, 1)]
    output = [TensorType(NUMPY["f32"], (1,))]
    assert evaluate("combine", {"op": "add"}, parts, output)[0].tolist() == [2**24]
    assert evaluate("combine", {"op": "add"}, parts[::-1], output)[0].tolist() == [2**24 + 2]


@pytest.mark.parametrize("op", ["and", "or"])
def test_combine_predicates(op: str) -> None:
    parts = [np.array(bits, np.bool_) for bits in ([0, 0, 1], [0, 1, 1], [0, 0, 1])]
    (found,) = evaluate("combine", {"op": op}, parts, [TensorType(NUMPY["pred"], (3,))])
    assert found.tolist() == [False, op == "or", True]


def windows_by_definition(operand: np.ndarray, initial: int, function: Any, attrs: dict[str, Any]) -> np.ndarray:
    """One window and one tap at a time."""
    rank = operand.ndim
    size = attrs["size"]
    stride, spread, dilation = (attrs.get(key, [1] * rank) for key in ("stride", "base_dilate", "window_dilate"))
    low, high = (attrs.get(key, [0] * rank) for key in ("pad_low", "pad_high"))
    extent = [(operand.shape[d] - 1) * spread[d] + 1 + low[d] + high[d] for d in range(rank)]
    places = [max(0, (extent[d] - (size[d] - 1) * dilation[d] - 1) // stride[d] + 1) for d in range(rank)]
    result = np.full(places, initial)
    for place in np.ndindex(*places):
        for tap in np.ndindex(*size):
            at = [place[d] * stride[d] + tap[d] * dilation[d] - low[d] for d in range(rank)]
            if all(at[d] % spread[d] == 0 and 0 <= at[d] // spread[d] < operand.shape[d] for d in range(rank)):
                value = operand[tuple(at[d] // spread[d] for d in range(rank))]
                result[place] = function(result[place], value)
    return result


WINDOWS: list[dict[str, Any]] = [
    {"size": [2, 3]},
    {"size": [1, 6], "pad_low": [0, 5]},
    {"size": [5, 7], "pad_low": [2, 0]},
    {"size": [3, 2], "stride": [2, 3], "pad_low": [1, 2], "pad_high": [1, 0]},
    {"size": [2, 2], "base_dilate": [2, 3], "window_dilate": [3, 2]},
    {"size": [2, 1], "pad_low": [-1, 2], "pad_high": [0, -3]},
]


@pytest.mark.parametrize("attrs", WINDOWS)
@pytest.mark.parametrize("op", IDENTITY)
def test_reduce_window(op: str, attrs: dict[str, Any]) -> None:
    operand = numbers((5, 6))
    expected = windows_by_definition(operand, 3, FUNCTION[op], attrs)
    output = TensorType(S64, expected.shape)
    by_op = evaluate("reduce_window", attrs | {"op": op}, [operand, np.array(3)], [output])[0]
    np.testing.assert_array_equal(by_op, expected)
    body = {"body": [[op, "s64", [0, 1]]], "results": [2]}
    by_body = evaluate("reduce_window", attrs | body, [operand, np.array(3)], [output])[0]
    np.testing.assert_array_equal(by_body, expected)


def test_a_window_longer_than_the_array_gives_nothing() -> None:
    (found,) = evaluate(
        "reduce_window", {"size": [4], "op": "add"}, [numbers((3,)), np.array(0)], [TensorType(S64, (0,))]
    )
    assert found.shape == (0,)


@pytest.mark.parametrize(
    ("select", "picked"),
    [("GE", [0, 4]), ("GT", [1, 5]), ("LE", [2, 7]), ("LT", [3, 7])],
)
def test_select_and_scatter_resolves_ties_as_the_comparison_says(select: str, picked: list[int]) -> None:
    """GE keeps the first of two equal elements, GT moves on to the later one."""
    operand = np.array([9, 9, 1, 1, 6, 6, 5, 3])
    source = np.array([10, 20])
    attrs = {"select": select, "op": "add", "size": [4], "stride": [4]}
    (found,) = evaluate("select_and_scatter", attrs, [operand, source, np.array(1)], [TensorType(S64, (8,))])
    expected = np.ones(8, int)
    expected[picked] += source
    assert found.tolist() == expected.tolist()


def test_select_and_scatter_adds_where_windows_overlap_and_ignores_padding() -> None:
    operand, source = np.array([-5, -1, -7]), np.array([1, 10, 100, 1000])
    attrs = {"select": "GE", "op": "add", "size": [2], "pad_low": [1], "pad_high": [1]}
    (found,) = evaluate("select_and_scatter", attrs, [operand, source, np.array(0)], [TensorType(S64, (3,))])
    assert found.tolist() == [1, 110, 1000]


def test_a_window_on_padding_alone_is_refused() -> None:
    attrs = {"select": "GE", "op": "add", "size": [1], "pad_low": [1]}
    with pytest.raises(HauloutError, match="covers only padding"):
        evaluate("select_and_scatter", attrs, [np.array([1]), np.array([1, 1]), np.array(0)], [TensorType(S64, (1,))])


@pytest.mark.parametrize(
    ("opcode", "attrs", "count"),
    [
        ("reduce", {"dims": [2], "op": "add"}, 2),
        ("reduce", {"dims": [0, 0], "op": "add"}, 2),
        ("reduce", {"dims": [0], "op": "xor"}, 2),
        ("reduce", {"dims": [0]}, 2),
        ("reduce", {"dims": [0], "op": "add"}, 1),
        ("reduce_window", {"op": "add"}, 2),
        ("reduce_window", {"op": "add", "size": [0, 1]}, 2),
        ("reduce_window", {"op": "add", "size": [10**12, 1], "pad_low": [10**12, 0]}, 2),
        ("reduce_window", {"op": "add", "size": [10**12, 1], "pad_low": [10**12 - 1, 0]}, 2),
        ("reduce_window", {"op": "add", "size": [2, 2, 2]}, 2),
    ],
)
def test_what_does_not_fit_is_refused(opcode: str, attrs: dict[str, Any], count: int) -> None:
    operands = [numbers((3, 4)), np.array(0)][:count]
    with pytest.raises(HauloutError, match=f"`{opcode}` cannot be executed"):
        evaluate(opcode, attrs, operands, [TensorType(S64, (2, 2))])


@pytest.mark.parametrize(("largest", "expected"), [(True, [3, 0, 5]), (False, [1, 4, 2])])
def test_topk_takes_the_lower_index_of_ties(largest: bool, expected: list[int]) -> None:
    operand = np.array([[5, 1, 3, 7, 1, 5, 3]], np.float32)
    outputs = [TensorType(NUMPY["f32"], (1, 3)), TensorType(NUMPY["s32"], (1, 3))]
    values, indices = evaluate("topk", {"k": 3, "largest": largest}, [operand], outputs)
    assert indices.tolist() == [expected]
    assert values.tolist() == operand[:, expected].tolist()


def test_topk_orders_specials_totally() -> None:
    operand = np.array([0.0, -0.0, np.nan, -np.nan, -np.inf, np.inf], np.float32)
    outputs = [TensorType(NUMPY["f32"], (6,)), TensorType(NUMPY["s32"], (6,))]
    assert evaluate("topk", {"k": 6}, [operand], outputs)[1].tolist() == [2, 5, 0, 1, 4, 3]


def test_topk_of_unsigned_and_boundary_integers() -> None:
    for dtype in ("u8", "s8", "s64"):
        limits = np.iinfo(NUMPY[dtype])
        operand = np.array([limits.max, limits.min, 1], NUMPY[dtype])
        outputs = [TensorType(NUMPY[dtype], (3,)), TensorType(NUMPY["s32"], (3,))]
        falling = [0, 2, 1]
        assert evaluate("topk", {"k": 3}, [operand], outputs)[1].tolist() == falling


def test_all_pairs_of_window_numbers_agree_with_the_definition() -> None:
    """One dimension, every small window: positions, holes and cuts."""
    operand = numbers((4,))
    for size, stride, spread, dilation, low, high in product((1, 3), (1, 2), (1, 2), (1, 2), (-1, 0, 2), (-1, 1)):
        attrs = {"size": [size], "stride": [stride], "base_dilate": [spread], "window_dilate": [dilation],
                 "pad_low": [low], "pad_high": [high]}  # fmt: skip
        expected = windows_by_definition(operand, 0, np.add, attrs)
        (found,) = evaluate(
            "reduce_window", attrs | {"op": "add"}, [operand, np.array(0)], [TensorType(S64, expected.shape)]
        )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8])
@pytest.mark.parametrize("stride", [2, 3, 6])
def test_windows_far_apart_have_the_bits_of_all_windows(size: int, stride: int) -> None:
    """Each position alone combines its elements in the order of doubling, also in blocks of the first dimension."""
    operand = np.random.default_rng(2).standard_normal((5, 300, 200, 2)).astype(np.float32)
    attrs: dict[str, Any] = {"size": [1, size, size, 1], "op": "add"}
    results = []
    for step in (1, stride):
        shape = (5, (300 - size) // step + 1, (200 - size) // step + 1, 2)
        given = attrs | {"stride": [1, step, step, 1]}
        results += evaluate(
            "reduce_window", given, [operand, np.array(0, np.float32)], [TensorType(operand.dtype, shape)]
        )
    assert results[1].tobytes() == results[0][:, ::stride, ::stride].tobytes()
