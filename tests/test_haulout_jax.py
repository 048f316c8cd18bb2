"""`haulout.jax`: functions traced here, partitioned in a child process, lowered, and executed against JAX."""

from __future__ import annotations

import builtins
import importlib.util
import warnings
from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.executor import Executor, parameter_names

import haulout.jax
from haulout.support.diagnostics import HauloutError

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs the extra `jax`")


@pytest.mark.jax
@needs_jax
def test_a_closure_over_a_mesh() -> None:
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    shift = jnp.arange(16, dtype=jnp.float32)

    def layer(parameters: dict[str, Any], x: Any) -> Any:
        return jnp.tanh(x @ parameters["w"]) + shift, (x * x).sum()

    w, x = (np.random.default_rng(1).standard_normal(shape).astype("f4") for shape in ((8, 16), (4, 8)))
    specs = (
        {"unused": jax.ShapeDtypeStruct((3,), jnp.float32), "w": jax.ShapeDtypeStruct((8, 16), jnp.float32)},
        jax.ShapeDtypeStruct((4, 8), jnp.float32),
    )
    shardings = ({"unused": PartitionSpec(), "w": PartitionSpec(None, "m")}, PartitionSpec("d"))
    program = haulout.jax.lower(
        layer, *specs, mesh={"d": 2, "m": 2}, in_shardings=shardings, out_shardings=PartitionSpec()
    )
    assert program.lnc == 4
    assert len(parameter_names(program)) == 3
    inputs = [
        [np.zeros(3, "f4"), w[:, 8 * column : 8 * column + 8], x[2 * row : 2 * row + 2]]
        for row in range(2)
        for column in range(2)
    ]
    expected = [np.tanh(x @ w) + np.asarray(shift), (x * x).sum()]
    for values in Executor(program).run(inputs):
        for value, wanted in zip(values, expected, strict=True):
            assert np.max(np.abs(value - wanted)) <= 1e-5 * np.max(np.abs(wanted))


@pytest.mark.jax
@needs_jax
def test_one_device_a_shard_map_and_a_donated_argument() -> None:
    import jax
    import jax.numpy as jnp
    from jax.sharding import AbstractMesh, AxisType, PartitionSpec

    vector = jax.ShapeDtypeStruct((4,), jnp.float32)
    assert haulout.jax.lower(lambda x: x + 1, vector).lnc == 1

    # Since 0.11 axes are explicit by default, and the array would have to be split by its type.
    mesh = AbstractMesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def total(x: Any) -> Any:
        summed = jax.shard_map(
            lambda b: jax.lax.psum(b, "x"), mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec()
        )
        return summed(x)

    assert haulout.jax.lower(total, vector).lnc == 4
    text = haulout.jax.partition(
        lambda x: x * 2,
        vector,
        mesh={"x": 2},
        in_shardings=PartitionSpec("x"),
        out_shardings=PartitionSpec("x"),
        donate_argnums=0,
    )
    assert "input_output_alias" in text.splitlines()[0]
    assert "num_partitions=2" in text.splitlines()[0]


@pytest.mark.jax
@needs_jax
def test_what_the_user_did_wrong_is_said() -> None:
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    matrix = jax.ShapeDtypeStruct((4, 3), jnp.float32)
    with pytest.raises(HauloutError, match="JAX cannot trace <lambda>: TypeError: dot_general"):
        haulout.jax.lower(lambda x: x @ x, matrix)
    with pytest.raises(HauloutError, match="needs a mesh"):
        haulout.jax.lower(lambda x: x, matrix, in_shardings=PartitionSpec("x"))
    with pytest.raises(HauloutError, match="element type `s4` is not supported"):
        haulout.jax.lower(lambda x: x.astype(jnp.int4), matrix)


def test_without_jax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "jax":
            raise ImportError("No module named 'jax'")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(HauloutError) as caught:
        haulout.jax.lower(lambda x: x, 1.0)
    assert caught.value.diagnostics[0].help == ("pip install 'haulout[jax]'",)


@pytest.mark.jax
@needs_jax
def test_a_mesh_without_a_sharded_argument_is_warned_of() -> None:
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    x = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    with pytest.warns(UserWarning, match=r"no argument of tanh has a sharding.* each of the 4 cores"):
        haulout.jax.lower(jnp.tanh, x, mesh={"d": 4})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        haulout.jax.lower(jnp.tanh, x, mesh={"d": 4}, in_shardings=PartitionSpec("d"))
        haulout.jax.lower(jnp.tanh, x)


@pytest.mark.jax
@needs_jax
def test_a_function_without_a_mesh_is_divided_over_cores() -> None:
    import jax
    import jax.numpy as jnp

    def layer(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ w).sum(axis=1)

    w, x = (np.random.default_rng(1).standard_normal(shape).astype("f4") for shape in ((16, 16), (8, 16)))
    specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in (w, x)]
    program = haulout.jax.lower(layer, *specs, lnc=4)
    result = haulout.compile(program)
    assert result.proved
    assert result.report.counters["split_uniform"]["operations"] > 0
    outputs = haulout.simulate(result.program, dict(zip(("w.1", "x.1"), (w, x), strict=True))).outputs
    assert len(outputs) == 4
    for value in outputs.values():
        np.testing.assert_allclose(value, np.tanh(x @ w).sum(axis=1), rtol=1e-5)
    # Shardings only ask for cuts then: XLA partitions nothing.
    asked = haulout.jax.lower(layer, *specs, mesh={"d": 4}, in_shardings=jax.sharding.PartitionSpec(), lnc=2)
    assert asked.lnc == 2


@pytest.mark.jax
@needs_jax
@pytest.mark.parametrize("devices", [1, 2, 8])
def test_annotations_override_the_choice(devices: int) -> None:
    import jax
    from jax.sharding import PartitionSpec

    def scoped(x: Any, w: Any) -> Any:
        with haulout.jax.split_axis(-1):
            hidden = jax.nn.silu(x @ w)
        return hidden.sum(axis=1)

    def constrained(x: Any, w: Any) -> Any:
        hidden = jax.lax.with_sharding_constraint(jax.nn.silu(x @ w), PartitionSpec(None, "d"))
        return hidden.sum(axis=1)

    x, w = (np.random.default_rng(1).standard_normal(shape).astype("f4") for shape in ((8, 16), (16, 32)))
    specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in (x, w)]
    plain = np.asarray(jax.jit(lambda x, w: jax.nn.silu(x @ w).sum(axis=1))(x, w))
    mesh = {"mesh": {"d": devices}}
    for fn, options in ((scoped, {}), (constrained, mesh)):
        program = haulout.jax.lower(fn, *specs, lnc=4, **options)
        result = haulout.compile(program)
        assert result.proved and result.ok
        assert result.report.split is not None
        dims = {each.name: (each.dim, each.asked) for each in result.report.split.divided}
        assert (1, 1) in dims.values()
        assert all(asked in (None, dim) for dim, asked in dims.values())
        for value in haulout.simulate(result.program, {"x.1": x, "w.1": w}).outputs.values():
            np.testing.assert_allclose(value, plain, rtol=1e-4, atol=1e-5)
        other = haulout.compile(program, split=["axis=0"]).report.split
        assert other is not None and all(each.dim == 0 for each in other.divided)
    free = haulout.compile(haulout.jax.lower(lambda x, w: jax.nn.silu(x @ w).sum(axis=1), *specs, lnc=4)).report
    assert free.split is not None and all(each.dim == 0 for each in free.split.divided)
    # The gradient of a scope is free: its results have other shapes.
    grad = haulout.jax.lower(jax.grad(lambda w, x: scoped(x, w).sum()), specs[1], specs[0], lnc=4)
    assert haulout.compile(grad).ok
