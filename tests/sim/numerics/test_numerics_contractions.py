"""Dot products and convolutions against the sum that defines them, written as plain loops."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from haulout.ir.dtypes import NUMPY
from haulout.sim.numerics import TensorType, evaluate
from haulout.support.diagnostics import HauloutError

S64 = NUMPY["s64"]


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape)


def test_dot_orders_batch_then_left_then_right() -> None:
    left, right = numbers((2, 3, 4)), numbers((4, 5, 2), 1)
    attrs = {"lhs_batch": [0], "rhs_batch": [2], "lhs_contracting": [2], "rhs_contracting": [0]}
    (found,) = evaluate("dot", attrs, [left, right], [TensorType(S64, (2, 3, 5))])
    for b, i, j in product(range(2), range(3), range(5)):
        assert found[b, i, j] == sum(left[b, i, k] * right[k, j, b] for k in range(4))


def test_dot_accumulates_bf16_in_f32() -> None:
    """256 ones after a 256: each addition alone would be lost."""
    left = np.array([[256] + [1] * 256], NUMPY["bf16"])
    right = np.ones((257, 1), NUMPY["bf16"])
    attrs = {"lhs_contracting": [1], "rhs_contracting": [0]}
    (found,) = evaluate("dot", attrs, [left, right], [TensorType(NUMPY["bf16"], (1, 1))])
    assert found.tolist() == [[512]]


def test_dot_of_integers_wraps_in_the_type_of_the_result() -> None:
    left, right = np.full((1, 300), 100, np.int8), np.full((300, 1), 100, np.int8)
    attrs = {"lhs_contracting": [1], "rhs_contracting": [0]}
    assert evaluate("dot", attrs, [left, right], [TensorType(NUMPY["s32"], (1, 1))])[0].tolist() == [[3_000_000]]
    wrapped = (3_000_000 + 128) % 256 - 128
    assert evaluate("dot", attrs, [left, right], [TensorType(NUMPY["s8"], (1, 1))])[0].tolist() == [[wrapped]]


@pytest.mark.parametrize(
    "attrs",
    [
        {"lhs_contracting": [2], "rhs_contracting": [0]},
        {"lhs_contracting": [0], "rhs_contracting": [0]},
        {"lhs_contracting": [1, 1], "rhs_contracting": [0, 0]},
        {"lhs_contracting": [1], "rhs_contracting": [0, 1]},
        {"lhs_contracting": "1", "rhs_contracting": [0]},
    ],
)
def test_dot_that_does_not_fit_is_refused(attrs: dict[str, Any]) -> None:
    with pytest.raises(HauloutError, match="`dot` cannot be executed"):
        evaluate("dot", attrs, [numbers((2, 3)), numbers((3, 5))], [TensorType(S64, (2, 5))])


def by_definition(left: np.ndarray, right: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """The convolution b01f_01io->b01f, one output element and one tap at a time."""
    groups, batch_groups = attrs.get("feature_groups", 1), attrs.get("batch_groups", 1)
    stride, low, high = (attrs.get(key, [d, d]) for key, d in (("stride", 1), ("pad_low", 0), ("pad_high", 0)))
    spread, dilation = attrs.get("lhs_dilate", [1, 1]), attrs.get("rhs_dilate", [1, 1])
    reverse = attrs.get("reverse", [False, False])
    extent = [(left.shape[1 + d] - 1) * spread[d] + 1 + low[d] + high[d] for d in range(2)]
    places = [(extent[d] - (right.shape[d] - 1) * dilation[d] - 1) // stride[d] + 1 for d in range(2)]
    batches, outputs, taken = left.shape[0] // batch_groups, right.shape[3], right.shape[2]
    result = np.zeros((batches, *places, outputs), np.int64)
    for n, y, x, o in np.ndindex(*result.shape):
        group = o // (outputs // (groups * batch_groups))
        batch = n + batches * group if batch_groups > 1 else n
        first = 0 if batch_groups > 1 else group * taken
        for ky, kx, c in np.ndindex(*right.shape[:3]):
            at = [
                p * stride[d] + k * dilation[d] - low[d]
                for d, (p, k) in enumerate(zip((y, x), (ky, kx), strict=True))
            ]
            if any(a % s or not 0 <= a // s < size for a, s, size in zip(at, spread, left.shape[1:3], strict=True)):
                continue
            tap = [right.shape[d] - 1 - k if reverse[d] else k for d, k in enumerate((ky, kx))]
            value = left[batch, at[0] // spread[0], at[1] // spread[1], first + c]
            result[n, y, x, o] += value * right[tap[0], tap[1], c, o]
    return result


@pytest.mark.parametrize(
    ("left", "right", "attrs"),
    [
        ((2, 5, 6, 3), (3, 2, 3, 4), {}),
        ((1, 5, 6, 2), (3, 3, 2, 2), {"stride": [2, 3], "pad_low": [1, 2], "pad_high": [2, 1]}),
        ((1, 4, 5, 2), (3, 3, 2, 2), {"lhs_dilate": [2, 3], "rhs_dilate": [1, 2], "pad_low": [1, 0],
                                       "pad_high": [0, 3]}),
        ((1, 6, 7, 2), (2, 2, 2, 1), {"pad_low": [-1, 1], "pad_high": [0, -2], "reverse": [True, False]}),
        ((2, 4, 4, 6), (2, 2, 2, 9), {"feature_groups": 3}),
        ((6, 4, 4, 2), (3, 3, 2, 3), {"batch_groups": 3}),
        ((1, 5, 6, 2), (5, 4, 2, 3), {"pad_high": [0, 1]}),  # fewer positions than taps
    ],
)  # fmt: skip
def test_convolution(left: Any, right: Any, attrs: dict[str, Any]) -> None:
    operands = [numbers(left), numbers(right, 1)]
    expected = by_definition(*operands, attrs)
    output = TensorType(S64, expected.shape)
    (found,) = evaluate("convolution", attrs | {"dim_labels": "b01f_01io->b01f"}, operands, [output])
    np.testing.assert_array_equal(found, expected)


def test_convolution_labels_are_only_a_transposition() -> None:
    operands = [numbers((2, 5, 6, 3)), numbers((3, 2, 3, 4), 1)]
    plain = by_definition(*operands, {})
    moved = [operands[0].transpose(3, 1, 2, 0).copy(), operands[1].transpose(2, 0, 1, 3).copy()]
    expected = plain.transpose(1, 2, 0, 3)
    attrs = {"dim_labels": "f01b_i01o->01bf"}
    (found,) = evaluate("convolution", attrs, moved, [TensorType(S64, expected.shape)])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("attrs", "says"),
    [
        ({"dim_labels": "b01f_01io"}, "expected the form"),
        ({"dim_labels": "b01f_01io->b02f"}, "does not name"),
        ({"dim_labels": "b0f_0io->b0f"}, "describes 3 dimensions"),
        ({"dim_labels": "b01f_01io->b01f", "stride": [0, 1]}, "at least 1"),
        ({"dim_labels": "b01f_01io->b01f", "stride": [1]}, "one a dimension"),
        ({"dim_labels": "b01f_01io->b01f", "size": [2, 2]}, "the kernel has"),
        ({"dim_labels": "b01f_01io->b01f", "feature_groups": 2}, "2 groups"),
        ({"dim_labels": "b01f_01io->b01f", "feature_groups": 0}, "at least 1"),
        ({"dim_labels": "b01f_01io->b01f", "pad_low": [5, 0]}, "the convolution gives"),
    ],
)
def test_convolution_that_does_not_fit_is_refused(attrs: dict[str, Any], says: str) -> None:
    with pytest.raises(HauloutError, match="`convolution` cannot be executed") as caught:
        evaluate(
            "convolution", attrs, [numbers((2, 5, 6, 3)), numbers((3, 2, 3, 4))], [TensorType(S64, (2, 3, 5, 4))]
        )
    assert says in str(caught.value)


@pytest.mark.parametrize("cut", [1, 3, 4])
def test_a_part_of_a_convolution_has_the_bits_of_the_whole(cut: int) -> None:
    """Long chains of products are cut where the weights say, not where the number of rows does."""
    random = np.random.default_rng(5)
    left = random.standard_normal((8, 9, 9, 64)).astype(np.float32)
    right = random.standard_normal((3, 3, 64, 32)).astype(np.float32)
    attrs = {"dim_labels": "b01f_01io->b01f", "size": [3, 3]}
    (whole,) = evaluate("convolution", attrs, [left, right], [TensorType(left.dtype, (8, 7, 7, 32))])
    (part,) = evaluate("convolution", attrs, [left[:cut], right], [TensorType(left.dtype, (cut, 7, 7, 32))])
    if _rows_have_the_bits_of_the_whole(cut * 49):
        assert part.tobytes() == whole[:cut].tobytes()
    else:  # BLAS has other kernels on this machine
        np.testing.assert_allclose(part, whole[:cut], rtol=1e-4, atol=1e-3)


def _rows_have_the_bits_of_the_whole(rows: int) -> bool:
    """Whether BLAS itself gives some rows of a large product the bits that they have in the whole of it."""
    random = np.random.default_rng(7)
    left, right = (random.standard_normal(shape).astype(np.float32) for shape in ((392, 576), (576, 32)))
    return bool(np.array_equal((left @ right)[:rows], left[:rows] @ right))
