"""Complex numbers and Fourier transforms, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.support.diagnostics import HauloutError

Array = np.ndarray
SUM = "sum {\n  p = c64[] parameter(0)\n  q = c64[] parameter(1)\n  ROOT r = c64[] add(p, q)\n}\n"
GENERATOR = np.random.default_rng(11)


def drawn(*shape: int) -> Array:
    return (GENERATOR.standard_normal(shape) + 1j * GENERATOR.standard_normal(shape)).astype(np.complex64)


def run(body: str, *values: Array) -> list[Array]:
    """The results on core 0 of two."""
    text = f"HloModule m, num_partitions=2\n{SUM}ENTRY e {{\n{body}\n}}\n"
    result = haulout.compile(lower(parse_hlo(text, "m.hlo")))
    assert result.ok and result.proved
    named = {f"x{number}": value for number, value in enumerate(values)}
    found, again = (execute(result.program, named).outputs for execute in (haulout.simulate, haulout.run))
    assert all(np.array_equal(found[key], again[key], equal_nan=True) for key in found)
    return [found[f"nc0/{key}"] for key in result.program.output_names]


X, Y = drawn(3, 4), drawn(3, 4)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("c64[3,4] add(x0, x1)", X + Y),
        ("c64[3,4] subtract(x0, x1)", X - Y),
        ("c64[3,4] multiply(x0, x1)", X * Y),
        ("c64[3,4] divide(x0, x1)", X / Y),
        ("c64[3,4] power(x0, x1)", X**Y),
        ("c64[3,4] negate(x0)", -X),
        ("f32[3,4] abs(x0)", np.abs(X)),
        ("f32[3,4] real(x0)", X.real),
        ("f32[3,4] imag(x0)", X.imag),
        ("c64[3,4] exponential(x0)", np.exp(X)),
        ("c64[3,4] log(x0)", np.log(X)),
        ("c64[3,4] sqrt(x0)", np.sqrt(X)),
        ("c64[3,4] rsqrt(x0)", 1 / np.sqrt(X)),
        ("c64[3,4] tanh(x0)", np.tanh(X)),
        ("c64[3,4] cosine(x0)", np.cos(X)),
        ("pred[3,4] compare(x0, x0), direction=EQ", X == X),
        ("c128[3,4] convert(x0)", X.astype(np.complex128)),
        ("c64[4,3] transpose(x0), dimensions={1,0}", X.T),
        ("c64[3,3] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={1}", X @ Y.T),
        ("c64[2,4] slice(x0), slice={[1:3],[0:4]}", X[1:]),
    ],
)
def test_operations(instruction: str, expected: Array) -> None:
    (found,) = run(f"x0 = c64[3,4] parameter(0)\nx1 = c64[3,4] parameter(1)\nROOT r = {instruction}", X, Y)
    assert found.dtype == expected.dtype
    assert np.allclose(found, expected, 1e-5, 1e-6)


def test_parts_constants_choices_and_sums() -> None:
    body = (
        "x0 = f32[3,4] parameter(0)\nx1 = f32[3,4] parameter(1)\nz = c64[3,4] complex(x0, x1)\n"
        "c = c64[2,2] constant({ { (1, 2), (-3.5, 0) }, { (0, -1), (nan, inf) } })\nk = c64[] constant((0.5, -2))\n"
        "s = c64[4] reduce(z, k), dimensions={0}, to_apply=sum\np = pred[3,4] compare(x0, x1), direction=LT\n"
        "b = c64[3,4] broadcast(k), dimensions={}\nw = c64[3,4] select(p, z, b)\n"
        "ROOT r = (c64[3,4], c64[2,2], c64[4], c64[3,4]) tuple(z, c, s, w)"
    )
    z, c, s, w = run(body, X.real.copy(), X.imag.copy())
    assert np.array_equal(z, X)
    assert c[:, 0].tolist() == [1 + 2j, -1j] and c[0, 1] == -3.5
    assert np.isnan(c[1, 1].real) and c[1, 1].imag == np.inf
    assert np.allclose(s, X.sum(0) + (0.5 - 2j), 1e-5)
    assert np.array_equal(w, np.where(X.real < X.imag, X, np.complex64(0.5 - 2j)))


def test_double_precision() -> None:
    wide = drawn(3).astype(np.complex128)
    body = (
        "x0 = c128[3] parameter(0)\np = pred[3] parameter(1)\nn = c128[3] negate(x0)\n"
        "s = c128[3] select(p, n, x0)\nROOT r = (f64[3], c128[3]) tuple(a, s)"
    ).replace("ROOT", "a = f64[3] abs(x0)\nROOT")
    text = f"HloModule m\nENTRY e {{\n{body}\n}}\n"
    program = haulout.compile(lower(parse_hlo(text, "m.hlo"))).program
    chosen = np.array([True, False, True])
    outputs = haulout.simulate(program, {"x0": wide, "p": chosen}).outputs
    size, one = (outputs[f"nc0/{name}"] for name in program.output_names)
    assert np.allclose(size, np.abs(wide)) and np.array_equal(one, np.where(chosen, -wide, wide))


REAL = GENERATOR.standard_normal((3, 4, 7)).astype(np.float32)


@pytest.mark.parametrize(
    ("instruction", "value", "expected"),
    [
        ("c64[3,4] fft(x0), fft_type=FFT, fft_length={4}", X, np.fft.fft(X)),
        ("c64[3,4] fft(x0), fft_type=IFFT, fft_length={3,4}", X, np.fft.ifft2(X)),
        ("c64[3,4,4] fft(x0), fft_type=RFFT, fft_length={7}", REAL, np.fft.rfft(REAL)),
        ("c64[3,4,4] fft(x0), fft_type=RFFT, fft_length={4,7}", REAL, np.fft.rfft2(REAL)),
        ("f32[3,6] fft(x0), fft_type=IRFFT, fft_length={6}", X, np.fft.irfft(X)),
        ("f32[3,7] fft(x0), fft_type=IRFFT, fft_length={7}", X, np.fft.irfft(X, 7)),
    ],
)
def test_transforms(instruction: str, value: Array, expected: Array) -> None:
    kind = "f32" if value.dtype == np.float32 else "c64"
    dims = ",".join(map(str, value.shape))
    (found,) = run(f"x0 = {kind}[{dims}] parameter(0)\nROOT r = {instruction}", value)
    assert np.allclose(found, expected, 1e-4, 1e-5)
    assert found.dtype == (np.float32 if "IRFFT" in instruction else np.complex64)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("c64[3,4] fft(x0), fft_type=RFFT, fft_length={4}", "RFFT is not defined on c64"),
        ("c64[3,4] fft(x0), fft_type=FFT, fft_length={5}", "the last dimensions must be [5]"),
        ("c64[3,4] fft(x0), fft_type=FFT, fft_length={}", "one to three extents"),
        ("c64[3,4] fft(x0), fft_type=DCT, fft_length={4}", "expected FFT or IFFT"),
        ("c64[3,4] maximum(x0, x0)", "not defined on c64"),
        ("pred[3,4] compare(x0, x0), direction=LT", "complex numbers have no order"),
        ("f32[3,4] convert(x0)", "c64 cannot be converted to f32"),
        ("c64[3,4] abs(x0)", "the result is f32[3,4]"),
        ("f32[3,4] floor(x0)", "not defined on c64"),
    ],
)
def test_what_is_not_defined(instruction: str, message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        lower(parse_hlo(f"HloModule m\nENTRY e {{\nx0 = c64[3,4] parameter(0)\nROOT r = {instruction}\n}}\n"))
    assert message in str(caught.value)
