"""Functions that JAX lowers to custom-calls, random bits, callbacks: lowered, compiled and simulated, against JAX."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import haulout
from haulout.ir.enums import Kind

pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs the extra `jax`"),
]


def functions() -> dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]]:
    import jax
    import jax.numpy as jnp

    def key(implementation: str) -> Any:
        return jax.random.key(3, impl=implementation)

    return {
        "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.mT + jnp.eye(4)), [(3, 4, 4)]),
        "qr": (lambda x: jnp.linalg.qr(x), [(5, 3)]),
        "complete qr": (lambda x: jnp.linalg.qr(x, mode="complete"), [(2, 5, 3)]),
        "lu": (lambda x: jax.scipy.linalg.lu(x), [(4, 4)]),
        "solve": (lambda x, b: jnp.linalg.solve(x, b), [(4, 4), (4, 2)]),
        "inverse": (lambda x: jnp.linalg.inv(x), [(4, 4)]),
        "eigh": (lambda x: jnp.linalg.eigh(x), [(4, 4)]),
        "svd": (lambda x: jnp.linalg.svd(x, full_matrices=False), [(5, 3)]),
        "full svd": (lambda x: jnp.linalg.svd(x, full_matrices=True), [(3, 5)]),
        "singular values": (lambda x: jnp.linalg.svd(x, compute_uv=False), [(3, 5)]),
        "triangular": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=1), [(4, 4), (4, 2)]),
        "top k": (lambda x: jax.lax.top_k(x, 2), [(4, 6)]),
        "dropout": (lambda x: jax.random.bernoulli(key("threefry2x32"), 0.5, x.shape) * x, [(4, 6)]),
        "normal of rbg": (lambda x: jax.random.normal(key("rbg"), x.shape) * x, [(4, 6)]),
        "unsafe rbg": (lambda x: jax.random.uniform(key("unsafe_rbg"), x.shape) * x, [(4, 6)]),
        "fft": (lambda x: jnp.fft.fft(x), [(4, 12)]),
        "real fft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 1j), [(4, 7)]),
        "fft of two dimensions": (lambda x: jnp.fft.ifft2(jnp.fft.fft2(x) ** 2), [(3, 4, 6)]),
        "complex": (lambda x: jnp.sqrt(x + 1j * x[::-1]) / jnp.exp(1j * x) * jnp.conj(x + 2j), [(4, 6)]),
        "complex product": (lambda x: jnp.abs((x + 1j) @ (x - 1j).T), [(4, 6)]),
        "ragged dot": (
            lambda x, w: jax.lax.ragged_dot(x, w, jnp.array([2, 3, 1], jnp.int32)),
            [(6, 4), (3, 4, 5)],
        ),
    }


NAMES = (
    *("cholesky", "qr", "complete qr", "lu", "solve", "inverse", "eigh", "svd", "full svd", "singular values"),
    *("triangular", "top k", "dropout", "normal of rbg", "unsafe rbg", "ragged dot"),
    *("fft", "real fft", "fft of two dimensions", "complex", "complex product"),
)


@pytest.mark.parametrize("name", NAMES)
def test_numbers(name: str) -> None:
    import jax

    from haulout.jax import lower

    function, shapes = functions()[name]
    generator = np.random.default_rng(1)
    values = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    specs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    result = haulout.compile(lower(function, *specs))
    assert result.ok and result.proved
    inputs = [
        result.program.strings[int(name)]
        for name, kind in zip(result.program.locations.name, result.program.locations.kind, strict=True)
        if kind == Kind.INPUT
    ]
    outputs = haulout.simulate(result.program, dict(zip(inputs, values, strict=True))).outputs
    expected = jax.tree.leaves(jax.jit(function)(*values))
    for output, wanted in zip(result.program.output_names, expected, strict=True):
        found, theirs = outputs[f"nc0/{output}"], np.asarray(wanted)
        if theirs.dtype.kind in "biu":
            assert np.array_equal(found, theirs)
        else:
            assert np.allclose(found, theirs, 1e-5, 1e-5)


def test_names_are_those_of_the_functions() -> None:
    assert sorted(functions()) == sorted(NAMES)


def test_a_callback_is_opaque() -> None:
    import jax

    from haulout.jax import lower

    def function(x: Any) -> Any:
        jax.debug.print("{x}", x=x)
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((4,), "float32"), x) * 2

    result = haulout.compile(lower(function, jax.ShapeDtypeStruct((4,), "float32")))
    assert result.proved
    assert [each.code for each in result.diagnostics] == ["opaque-instruction"]
    assert any("side effects" in note for note in result.diagnostics[0].notes)
