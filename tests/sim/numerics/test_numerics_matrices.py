"""Factorizations, transforms and complex numbers: numbers by their definitions, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from haulout.sim.numerics import TensorType, evaluate
from haulout.support.diagnostics import HauloutError

GENERATOR = np.random.default_rng(2)
SQUARE = GENERATOR.standard_normal((2, 3, 3))
TALL = GENERATOR.standard_normal((4, 3))
S32 = np.dtype(np.int32)


def run(
    opcode: str, inputs: list[np.ndarray], *outputs: tuple[Any, tuple[int, ...]], **attrs: Any
) -> list[np.ndarray]:
    return evaluate(opcode, attrs, inputs, [TensorType(np.dtype(dtype), shape) for dtype, shape in outputs])


def test_cholesky() -> None:
    given = SQUARE @ SQUARE.swapaxes(1, 2) + np.eye(3)
    (found,) = run("cholesky", [given], ("f8", (2, 3, 3)), lower=True)
    assert np.allclose(found, np.linalg.cholesky(given))


def test_triangular_solve() -> None:
    b = GENERATOR.standard_normal((2, 3, 2))
    (found,) = run("triangular_solve", [SQUARE, b], ("f8", (2, 3, 2)), left=True, lower=False)
    assert np.allclose(np.triu(SQUARE) @ found, b)


def test_lu() -> None:
    packed, pivots, info = run("lu", [TALL], ("f8", (4, 3)), (S32, (3,)), (S32, ()))
    rows = np.arange(4)
    for row, other in enumerate(pivots.tolist()):
        rows[[row, other]] = rows[[other, row]]
    assert info == 0 and np.allclose((np.tril(packed, -1) + np.eye(4, 3)) @ np.triu(packed[:3]), TALL[rows])


def test_qr_and_householder_product() -> None:
    packed, factors = run("qr", [TALL], ("f8", (4, 3)), ("f8", (3,)))
    (q,) = run("householder_product", [packed, factors], ("f8", (4, 3)))
    assert np.allclose(q @ np.triu(packed[:3]), TALL) and np.allclose(q.T @ q, np.eye(3))


def test_eigh() -> None:
    given = SQUARE + SQUARE.swapaxes(1, 2)
    vectors, values, info = run("eigh", [np.triu(given)], ("f8", (2, 3, 3)), ("f8", (2, 3)), (S32, (2,)), lower=False)
    assert not info.any() and np.allclose(given @ vectors, vectors * values[:, None])


@pytest.mark.parametrize("full", [True, False])
def test_svd(full: bool) -> None:
    columns = 4 if full else 3
    results = ("f8", (3,)), ("f8", (4, columns)), ("f8", (3, 3)), (S32, ())
    values, left, right, info = run("svd", [TALL], *results, full=full)
    assert info == 0 and np.allclose(left[:, :3] * values @ right, TALL)


def test_fft() -> None:
    given = SQUARE + 1j * SQUARE[::-1]
    (found,) = run("fft", [given], ("c16", (2, 3, 3)), type="FFT", length=[3, 3])
    assert np.allclose(found, np.fft.fft2(given))


def test_parts_of_complex_numbers() -> None:
    (made,) = run("complex", [TALL, -TALL], ("c16", (4, 3)))
    assert np.array_equal(made, TALL - 1j * TALL)
    for opcode, expected in (("real", TALL), ("imag", -TALL), ("abs", np.hypot(TALL, TALL))):
        assert np.allclose(run(opcode, [made], ("f8", (4, 3)))[0], expected)


@pytest.mark.parametrize(
    ("opcode", "inputs", "outputs", "attrs"),
    [
        ("cholesky", [TALL], [("f8", (4, 3))], {}),
        ("cholesky", [SQUARE.astype(np.int32)], [(S32, (2, 3, 3))], {}),
        ("triangular_solve", [SQUARE, TALL], [("f8", (4, 3))], {}),
        ("householder_product", [TALL.T.copy(), TALL[0]], [("f8", (3, 4))], {}),
        ("lu", [TALL[0]], [("f8", (3,)), (S32, (1,)), (S32, ())], {}),
        ("fft", [TALL], [("c16", (4, 3))], {"type": "FFT", "length": [3]}),
        ("fft", [TALL + 0j], [("c16", (4, 3))], {"type": "FFT", "length": [4]}),
        ("complex", [TALL.astype(np.float16)] * 2, [("c8", (4, 3))], {}),
        ("compare", [TALL + 0j] * 2, [("?", (4, 3))], {"direction": "LT"}),
        ("convert", [TALL + 0j], [("f8", (4, 3))], {}),
        ("reduce", [TALL + 0j, np.zeros((), "c16")], [("c16", (3,))], {"op": "maximum", "dims": [0]}),
    ],
)
def test_what_is_not_defined(
    opcode: str, inputs: list[np.ndarray], outputs: list[Any], attrs: dict[str, Any]
) -> None:
    with pytest.raises(HauloutError, match="cannot be executed"):
        run(opcode, inputs, *outputs, **attrs)
