"""`haulout.jax.lower`: names of arrays, options of a jitted function, shardings of arrays, and the memory of XLA."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import haulout.jax
from haulout.ir.enums import Kind
from haulout.ir.paths import location_paths, result_paths
from haulout.ir.program import Program
from haulout.sim.expect import compare_outputs, expected_outputs
from haulout.support.diagnostics import HauloutError

pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs the extra `jax`"),
]


def kinds(program: Program) -> dict[str, Kind]:
    """Kind of the inputs and outputs of the first core by path."""
    rows = [row for row, path in enumerate(location_paths(program)) if path and program.location_core[row] == 0]
    return {str(location_paths(program)[row]): Kind(int(program.locations.kind[row])) for row in rows}


def step(params: Any, batch: Any) -> Any:
    import jax
    import jax.numpy as jnp

    hidden = batch["x"]
    for layer in params["h"]:
        hidden = jnp.tanh(hidden @ layer["w"])
    return {"loss": (hidden**2).sum(), "params": jax.tree.map(lambda w: w - hidden.sum(), params)}


def specs() -> tuple[Any, Any]:
    import jax

    w = jax.ShapeDtypeStruct((8, 8), np.float32)
    return {"h": [{"w": w}, {"w": w}]}, {"unused": w, "x": jax.ShapeDtypeStruct((4, 8), np.float32)}


def values() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    w = [rng.standard_normal((8, 8)).astype("f4") for _ in range(3)]
    return {"h": [{"w": w[0]}, {"w": w[1]}]}, {"unused": w[2], "x": rng.standard_normal((4, 8)).astype("f4")}


def flat(tree: Any, root: str) -> dict[str, Any]:
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {root + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


@pytest.mark.parametrize("cores", [1, 2])
def test_a_run_by_paths_gives_what_jax_computes(cores: int) -> None:
    from jax.sharding import PartitionSpec

    shardings = (PartitionSpec(), {"unused": PartitionSpec(), "x": PartitionSpec("d")})
    options = {"mesh": {"d": 2}, "in_shardings": shardings, "out_shardings": PartitionSpec()} if cores == 2 else {}
    program = haulout.jax.lower(step, *specs(), donate_argnums=0, **options)
    assert program.lnc == cores
    params, batch = values()
    given = flat(params, "params") | flat(batch, "batch")
    if cores == 2:
        whole = given.pop("batch['x']")
        given |= {f"nc{core}/batch['x']": whole[2 * core : 2 * core + 2] for core in range(2)}
    result = haulout.compile(program)
    assert result.proved
    outputs = haulout.simulate(result.program, given).outputs
    expected = flat(step(params, batch), "result")
    assert set(expected) == set(result_paths(program))
    findings, worst = compare_outputs(outputs, expected_outputs(result.program, expected))
    assert not findings
    assert worst < 1e-5
    assert result.report.donation is not None
    assert result.report.donation.used == ["params['h'][0]['w']", "params['h'][1]['w']"]
    assert result.report.xla_memory is not None
    assert result.report.xla_memory.devices == cores
    assert result.report.xla_memory.aliased_bytes == 2 * 256
    assert "params['h'][0]['w']" in {each.path for each in result.report.peak_arrays}


@pytest.mark.parametrize("sharded", [False, True])
def test_a_jitted_function_is_donated_as_its_function_is(sharded: bool) -> None:
    import jax
    from jax.sharding import PartitionSpec

    mesh = jax.sharding.AbstractMesh((2,), ("d",))
    spec = jax.sharding.NamedSharding(mesh, PartitionSpec("d"))
    shardings: dict[str, Any] = {"in_shardings": (spec, None), "out_shardings": None} if sharded else {}
    jitted = jax.jit(step, donate_argnums=0, **shardings)
    found = [
        haulout.jax.lower(jitted, *specs()),
        haulout.jax.lower(step, *specs(), donate_argnums=0, **shardings),
        haulout.jax.lower(jitted, *specs(), donate_argnums=0),
    ]
    plain = kinds(haulout.jax.lower(jitted, *specs(), donate_argnums=()))
    for program in found:
        assert program.lnc == (2 if sharded else 1)
        assert kinds(program)["params['h'][0]['w']"] == kinds(program)["params['h'][1]['w']"] == Kind.INOUT
        assert kinds(program)["batch['x']"] == Kind.INPUT
        assert [program.shape(row) for row in range(2)] == [(4, 8) if sharded else (8, 8)] * 2
    assert Kind.INOUT not in plain.values()


def test_static_arguments_of_a_jitted_function() -> None:
    import jax

    def power(x: Any, n: int) -> Any:
        assert isinstance(n, int)
        return x**n

    x = specs()[1]["x"]
    for jitted in (jax.jit(power, static_argnums=1), jax.jit(power, static_argnames="n")):
        program = haulout.jax.lower(jitted, x, 3)
        given = values()[1]["x"]
        (output,) = haulout.simulate(program, {"x": given}).outputs.values()
        np.testing.assert_allclose(output, given**3, rtol=1e-5)


def test_a_jit_whose_options_cannot_be_read_is_refused() -> None:
    class Opaque:
        __wrapped__ = staticmethod(step)
        trace = lower = None

        def __call__(self, *arguments: Any) -> Any:
            return step(*arguments)

    with pytest.raises(HauloutError, match=r"options of this jax\.jit cannot be read"):
        haulout.jax.lower(Opaque(), *specs())


ON_FOUR_DEVICES = """
import jax, numpy as np, haulout.jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

devices = np.array(jax.devices())
assert len(devices) == 4
grid, line = Mesh(devices.reshape(2, 2), ("d", "m")), Mesh(devices[:2], ("d",))

def shapes(program):
    return program.lnc, [program.shape(row) for row in range(2)]

def moved(w, x):
    return w - x.sum()

# Arrays that are spread over devices, and a donated one among them.
w = jax.device_put(np.zeros((8, 16), "f4"), NamedSharding(grid, P("d", "m")))
x = jax.device_put(np.zeros((4, 8), "f4"), NamedSharding(grid, P("d")))
assert shapes(haulout.jax.lower(moved, w, x)) == (4, [(4, 8), (2, 8)])
assert shapes(haulout.jax.lower(moved, w, np.zeros((4, 8), "f4"))) == (4, [(4, 8), (4, 8)])
assert shapes(haulout.jax.lower(jax.jit(moved), w, x, mesh={"d": 2, "m": 2})) == (4, [(4, 8), (2, 8)])
program = haulout.jax.lower(jax.jit(moved, donate_argnums=0), w, x)
assert haulout.compile(program).report.donation.used == ["w"]

# A mesh of devices inside of the function, and one without devices around it.
def total(x):
    return jax.shard_map(lambda b: jax.lax.psum(b, "d"), mesh=line, in_specs=P("d"), out_specs=P())(x)

for options in ({}, {"mesh": line}, {"mesh": {"d": 2}}, {"mesh": {"d": 2}, "in_shardings": P("d")}):
    program = haulout.jax.lower(total, jax.ShapeDtypeStruct((4, 8), np.float32), **options)
    assert program.lnc == 2 and program.shape(0) == (2, 8), options
print("all of it")
"""


def test_arrays_and_meshes_of_several_devices() -> None:
    # JAX reads the number of devices once in the life of a process.
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", ON_FOUR_DEVICES], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "all of it\n", done.stderr
