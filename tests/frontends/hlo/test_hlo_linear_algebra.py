"""Factorizations: what they give multiplies to what they got, in HLO's form and in that of LAPACK's custom-calls."""

from __future__ import annotations

import numpy as np
import pytest

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.support.diagnostics import HauloutError

Array = np.ndarray
GENERATOR = np.random.default_rng(7)
SQUARE = GENERATOR.standard_normal((2, 4, 4)).astype(np.float32)
TALL = GENERATOR.standard_normal((2, 5, 3)).astype(np.float32)
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) + np.eye(4, dtype=np.float32)


def run(body: str, *values: Array) -> list[Array]:
    """The results on core 1 of two; the compiled program is proved."""
    result = haulout.compile(lower(parse_hlo(f"HloModule m, num_partitions=2\nENTRY e {{\n{body}\n}}\n", "m.hlo")))
    assert result.ok and result.proved
    found = haulout.simulate(result.program, {f"x{number}": value for number, value in enumerate(values)}).outputs
    again = haulout.run(result.program, {f"x{number}": value for number, value in enumerate(values)}).outputs
    assert all(np.array_equal(found[key], again[key], equal_nan=True) for key in found)
    return [found[f"nc1/{key}"] for key in result.program.output_names]


def call(routine: str, result: str, operands: str, config: str = "") -> str:
    return (
        f'{result} custom-call({operands}), custom_call_target="lapack_s{routine}_ffi", backend_config={{{config}}}'
    )


def transposed(x: Array) -> Array:
    return x.swapaxes(-1, -2)


@pytest.mark.parametrize("lower_one", [True, False])
def test_cholesky(lower_one: bool) -> None:
    given = POSITIVE.copy()
    given[1] = -given[1]
    letter = ord("L" if lower_one else "U")
    body = (
        f"x0 = f32[2,4,4] parameter(0)\na = f32[2,4,4] cholesky(x0), lower={str(lower_one).lower()}\n"
        f"b = {call('potrf', '(f32[2,4,4], s32[2])', 'x0', f'uplo = {letter} : ui8')}\n"
        "ROOT r = (f32[2,4,4], (f32[2,4,4], s32[2])) tuple(a, b)"
    )
    plain, packed, info = run(body, given)
    factor = plain[0] if lower_one else plain[0].T
    assert np.allclose(factor @ factor.T, given[0], 1e-5, 1e-5)
    assert np.array_equal(factor, np.tril(factor))
    assert np.isnan(plain[1]).all()
    assert np.array_equal(packed[0], plain[0])
    assert info[0] == 0 and info[1] != 0


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower_one", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_triangular_solve(left: bool, lower_one: bool, unit: bool, transpose: bool) -> None:
    dims = "2,4,3" if left else "2,3,4"
    b = GENERATOR.standard_normal((2, 4, 3) if left else (2, 3, 4)).astype(np.float32)
    letters = {
        "diag": "U" if unit else "N",
        "side": "L" if left else "R",
        "trans_x": "T" if transpose else "N",
        "uplo": "L" if lower_one else "U",
    }
    config = ", ".join(f"{key} = {ord(letter)} : ui8" for key, letter in letters.items())
    flags = ", ".join(
        f"{key}={str(value).lower()}"
        for key, value in (("left_side", left), ("lower", lower_one), ("unit_diagonal", unit))
    )
    how = "TRANSPOSE" if transpose else "NO_TRANSPOSE"
    body = (
        f"x0 = f32[2,4,4] parameter(0)\nx1 = f32[{dims}] parameter(1)\n"
        f"s = f32[{dims}] triangular-solve(x0, x1), {flags}, transpose_a={how}\n"
        f"c = {call('trsm', f'f32[{dims}]', 'x0, x1', config)}\nROOT r = (f32[{dims}], f32[{dims}]) tuple(s, c)"
    )
    a = SQUARE + 3 * np.eye(4, dtype=np.float32)
    solved, called = run(body, a, b)
    assert np.array_equal(solved, called)
    triangle = np.tril(a) if lower_one else np.triu(a)
    if unit:
        triangle[:, range(4), range(4)] = 1
    matrix = transposed(triangle) if transpose else triangle
    assert np.allclose(matrix @ solved if left else solved @ matrix, b, 1e-4, 1e-4)


def test_lu() -> None:
    body = f"x0 = f32[2,5,3] parameter(0)\nROOT r = {call('getrf', '(f32[2,5,3], s32[2,3], s32[2])', 'x0')}"
    packed, pivots, info = run(body, TALL)
    assert info.tolist() == [0, 0] and pivots.min() >= 1
    for x, both, rows in zip(TALL, packed, pivots - 1, strict=True):
        exchanged = x.copy()
        for row, other in enumerate(rows):
            exchanged[[row, other]] = exchanged[[other, row]]
        lower_one = np.tril(both, -1) + np.eye(5, 3, dtype=np.float32)
        assert np.allclose(lower_one @ np.triu(both[:3]), exchanged, 1e-5, 1e-5)


def test_a_singular_matrix_is_reported() -> None:
    body = f"x0 = f32[2,2] parameter(0)\nROOT r = {call('getrf', '(f32[2,2], s32[2], s32[])', 'x0')}"
    assert int(run(body, np.ones((2, 2), np.float32))[2]) == 2


def test_qr() -> None:
    body = (
        f"x0 = f32[2,5,3] parameter(0)\na = {call('geqrf', '(f32[2,5,3], f32[2,3])', 'x0')}\n"
        "v = f32[2,5,3] get-tuple-element(a), index=0\nt = f32[2,3] get-tuple-element(a), index=1\n"
        f"q = {call('orgqr', 'f32[2,5,3]', 'v, t')}\nROOT r = (f32[2,5,3], f32[2,5,3]) tuple(q, v)"
    )
    q, packed = run(body, TALL)
    assert np.allclose(transposed(q) @ q, np.eye(3), atol=1e-5)
    assert np.allclose(q @ np.triu(packed[:, :3]), TALL, 1e-5, 1e-5)


@pytest.mark.parametrize("letter", ["L", "U"])
def test_eigh_reads_one_triangle(letter: str) -> None:
    given = np.tril(POSITIVE) if letter == "L" else np.triu(POSITIVE)
    config = f"mode = 86 : ui8, uplo = {ord(letter)} : ui8"
    body = f"x0 = f32[2,4,4] parameter(0)\nROOT r = {call('syevd', '(f32[2,4,4], f32[2,4], s32[2])', 'x0', config)}"
    vectors, values, info = run(body, given)
    assert info.tolist() == [0, 0]
    assert np.allclose(values, np.linalg.eigvalsh(POSITIVE), 1e-4, 1e-4)
    assert np.allclose(vectors * values[:, None] @ transposed(vectors), POSITIVE, 1e-4, 1e-4)


@pytest.mark.parametrize("full", [True, False])
def test_svd(full: bool) -> None:
    left = 5 if full else 3
    result = f"(f32[2,5,3], f32[2,3], f32[2,5,{left}], f32[2,3,3], s32[2])"
    body = (
        f"x0 = f32[2,5,3] parameter(0)\nROOT r = {call('gesdd', result, 'x0', f'mode = {65 if full else 83} : ui8')}"
    )
    _, values, u, v, info = run(body, TALL)
    assert info.tolist() == [0, 0]
    assert np.allclose(transposed(u) @ u, np.eye(left), atol=1e-5)
    assert np.allclose(u[..., :3] * values[:, None] @ v, TALL, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("r = f32[2,5,3] cholesky(x0), lower=true", "expected square matrices"),
        ("r = f32[2,5,3] triangular-solve(x0, x0), lower=true", "expected square matrices"),
        ("r = f32[5,3] cholesky(v), lower=true", "expected matrices"),
        ("r = f32[2,3] triangular-solve(s, x0), left_side=true", "does not fit"),
    ],
)
def test_what_does_not_fit(instruction: str, message: str) -> None:
    body = f"x0 = f32[2,5,3] parameter(0)\nv = f32[3] parameter(1)\ns = f32[4,4] parameter(2)\nROOT {instruction}"
    with pytest.raises(HauloutError) as caught:
        lower(parse_hlo(f"HloModule m\nENTRY e {{\n{body}\n}}\n"))
    assert message in str(caught.value)


@pytest.mark.parametrize("result", ["(f32[2,5,3], s32[2])", "f32[2,5,3]"])
def test_another_form_stays_a_custom_call(result: str) -> None:
    body = f"x0 = f32[2,5,3] parameter(0)\nROOT r = {call('getrf', result, 'x0')}"
    found = lower(parse_hlo(f"HloModule m\nENTRY e {{\n{body}\n}}\n"))
    assert "hlo.custom_call" in list(found.strings)
