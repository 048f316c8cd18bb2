"""Parts of products and convolutions have the bits of the whole, on machines whose OpenBLAS `products.py` knows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from haulout.ir.attributes import AttrValue
from haulout.sim.numerics import TensorType, evaluate
from haulout.sim.numerics.products import _chains, multiply
from haulout.support.blas import one_thread

LARGE = (129, 97, 128)
"""Rows, products, columns: too large for a kernel for small matrices."""


def summed(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The product as `products.py` defines it: chains of fused additions, then their sum."""
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for begin, end in _chains(left.shape[1]):
        part = np.zeros_like(total)
        for at in range(begin, end):
            exact = np.outer(left[:, at].astype(np.float64), right[at].astype(np.float64))
            part = (exact + part).astype(np.float32)
        total += part
    return total


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def knows_this_machine() -> bool:
    """NumPy's own products: large ones, and small ones of columns, sum in chains."""
    rng = np.random.default_rng(0)
    with one_thread():
        for rows, inner, columns in (LARGE, (7, 33, 5), (12, 33, 16), (16, 33, 40)):
            left, right = drawn(rng, rows, inner), drawn(rng, inner, columns)
            if not np.array_equal(np.asfortranarray(left) @ right, summed(left, right)):
                return False
        return True


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """As in `simulate` and `run`."""
    with one_thread():
        yield


pytestmark = pytest.mark.skipif(not knows_this_machine(), reason="OpenBLAS has other kernels on this machine")


def laid_out(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The same matrices, row by row or column by column."""
    turned = np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    return turned if rng.random() < 0.5 else np.ascontiguousarray(array)


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    out = np.empty((*left.shape[:-1], right.shape[-1]), np.float32)
    multiply(left, right, out)
    return out


@pytest.mark.parametrize(
    "shape",
    [(1, 600, 40), (40, 600, 1), (1, 500, 1), (2, 900, 7), (100, 100, 100), (101, 100, 100), (65, 1345, 17), LARGE],
)
def test_sums_are_chains(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    left, right = drawn(rng, *shape[:2]), drawn(rng, *shape[1:])
    for _ in range(4):
        found = product(laid_out(rng, left), laid_out(rng, right))
        np.testing.assert_array_equal(found, summed(left, right))


@settings(max_examples=examples(1000), deadline=None)
@given(
    seed=st.integers(0, 2**32), most=st.sampled_from([4, 40, 300]), inner=st.integers(1, 1500), stack=st.booleans()
)
def test_parts_of_products(seed: int, most: int, inner: int, stack: bool) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = (int(each) for each in rng.integers(1, most + 1, 2))
    batch = (2,) if stack else ()
    left, right = drawn(rng, *batch, rows, inner), drawn(rng, *batch, inner, columns)
    whole = product(laid_out(rng, left), laid_out(rng, right))
    up, down = sorted(rng.choice(rows + 1, 2, replace=False).tolist())
    low, high = sorted(rng.choice(columns + 1, 2, replace=False).tolist())
    part = product(laid_out(rng, left[..., up:down, :]), laid_out(rng, right[..., low:high]))
    assert part.tobytes() == whole[..., up:down, low:high].tobytes()


@settings(max_examples=examples(200), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_parts_of_convolutions(seed: int) -> None:
    """Parts of the batch, of the output features, and of the positions, whose windows overlap."""
    rng = np.random.default_rng(seed)
    batch, side, taken, made, taps = (int(rng.integers(1, most + 1)) for most in (6, 14, 70, 40, 5))
    labels = str(rng.choice(["b01f_01io->b01f", "f01b_i01o->01bf"]))
    attrs: dict[str, AttrValue] = {"dim_labels": labels, "size": [taps, taps]}
    left, right = drawn(rng, batch, side + taps - 1, side + taps - 1, taken), drawn(rng, taps, taps, taken, made)

    def convolved(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        shape = (len(left), left.shape[1] - taps + 1, left.shape[2] - taps + 1, right.shape[3])
        if labels[0] == "b":
            return evaluate("convolution", attrs, [left, right], [TensorType(left.dtype, shape)])[0]
        moved = [left.transpose(3, 1, 2, 0).copy(), right.transpose(2, 0, 1, 3).copy()]
        kind = TensorType(left.dtype, (*shape[1:3], shape[0], shape[3]))
        return evaluate("convolution", attrs, moved, [kind])[0].transpose(2, 0, 1, 3)

    whole = convolved(left, right)
    extents = (batch, side, made)
    begin = [int(rng.integers(0, extent)) for extent in extents]
    end = [int(rng.integers(low + 1, extent + 1)) for low, extent in zip(begin, extents, strict=True)]
    (b, s, f), (bb, ss, ff) = begin, end
    part = convolved(left[b:bb, s : ss + taps - 1], right[..., f:ff])
    assert part.tobytes() == whole[b:bb, s:ss, :, f:ff].tobytes()
