"""JAX programs: traced here, partitioned by XLA in a child process, read by the HLO front end. Needs the extra `jax`.

    program = haulout.jax.lower(step, params, batch, mesh={"data": 2, "model": 2}, in_shardings=(P(), P("data")))

`lower` traces the function for an abstract mesh, which takes no devices, and writes the result as StableHLO: so
closures and lambdas work, and nothing of the user's has to be imported a second time. The child
(`partition_child.py`) has as many CPU devices as the mesh, compiles the module with XLA's dump
switched on, and exits; the module after the pass `spmd-partitioning` is what `partition` returns and `lower`
parses. A program for one device is never partitioned: there the module before any pass is taken.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from haulout.frontends.hlo import lower as lower_hlo
from haulout.frontends.hlo import parse_hlo
from haulout.frontends.hlo import partition_child as child
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.opcodes import COLLECTIVES
from haulout.frontends.hlo.shardings import classes
from haulout.ir.program import Program
from haulout.support.diagnostics import HauloutError, bad_input, fail

_AFTER_PARTITIONING = "*.after_spmd-partitioning.*.txt"
_BEFORE_ANY_PASS = "*.before_optimizations.txt"
_AXIS_SIZE = re.compile(r"=(\d+)")
MAX_LINES = 12
"""Of the child's complaint that are shown."""


def lower(fn: Callable[..., Any], *specs: Any, divide: bool = False, **options: Any) -> Program:
    """The program of a JAX function on as many cores as its mesh has devices.

    With `divide` XLA partitions nothing: it is the program of one core, and its shardings ask for cuts.

    Arguments and errors are those of `partition`, and those of the HLO front end. Warns if no argument is sharded:
    XLA then gives all of the work to every core.
    """
    if divide:
        text = partition(fn, *specs, partitioned=False, **options)
        return lower_hlo(parse_hlo(text, f"<jax:{_name(fn)}>"), whole=True)
    module = parse_hlo(partition(fn, *specs, **options), f"<jax:{_name(fn)}>")
    if _is_undivided(module):
        warnings.warn(
            f"no argument of {_name(fn)} has a sharding, so XLA gives all of the work to each of the "
            f"{module.num_partitions} cores; pass in_shardings=, or lower it without a mesh",
            stacklevel=3,  # the caller of `haulout.jax.lower`
        )
    return lower_hlo(module)


def _is_undivided(module: HloModule) -> bool:
    """Whether every core of a partitioned module does the same: equal arguments, no core's number, no collective."""
    sources = {instruction.opcode for each in module.computations.values() for instruction in each.instructions}
    cores = module.num_partitions
    shardings = [parameter.attributes.get("sharding") for parameter in module.entry.parameters]
    whole = all(each is not None and len(classes(each.text, cores)) == 1 for each in shardings)
    return cores > 1 and whole and not sources & {*COLLECTIVES, "partition-id"}


def partition(
    fn: Callable[..., Any],
    *specs: Any,
    mesh: Any = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] = (),
    partitioned: bool = True,
) -> str:
    """The HLO text of a JAX function after SPMD partitioning.

    `specs` are the function's arguments: arrays, or pytrees of `jax.ShapeDtypeStruct`. `mesh` is a mapping from axis
    names to sizes, a `jax.sharding.AbstractMesh` or a `Mesh`; it is the context mesh while tracing, and gives a
    meaning to the `PartitionSpec`s in the shardings, which may also be shardings of JAX. What is None is left to XLA.
    No argument is dropped, used or not. Where `partitioned` is false it is the text before any pass. Raises
    `HauloutError`: JAX is not installed, the function cannot be traced, or XLA fails.
    """
    jax = _import_jax()
    try:
        mesh = _abstract_mesh(mesh, jax)
        jit_options: dict[str, Any] = {
            key: _named(shardings, mesh, jax)
            for key, shardings in (("in_shardings", in_shardings), ("out_shardings", out_shardings))
            if shardings is not None
        }
        with jax.sharding.use_abstract_mesh(mesh) if mesh is not None else contextlib.nullcontext():
            traced = jax.jit(
                fn, keep_unused=True, donate_argnums=donate_argnums, static_argnums=static_argnums, **jit_options
            ).trace(*specs)
            lowered = traced.lower(lowering_platforms=("cpu",))
            module = lowered.compiler_ir(dialect="stablehlo")
            devices = max(_devices(module), mesh.size if mesh is not None else 1)
            bytecode = io.BytesIO()
            module.operation.write_bytecode(bytecode)
    except HauloutError:
        raise
    except Exception as error:
        # Whatever the user's function raises while it is traced; the cause keeps the traceback for a debugger.
        first, *rest = str(error).strip().splitlines() or [type(error).__name__]
        bad_input(f"JAX cannot trace {_name(fn)}: {type(error).__name__}: {first}", notes=rest[:MAX_LINES])
    return _compile(bytecode.getvalue(), devices, Path(jax.__file__).parents[1], partitioned)


def named_scope(name: str) -> contextlib.AbstractContextManager[None]:
    """`jax.named_scope`; `bad-input` if JAX is not installed."""
    scope: contextlib.AbstractContextManager[None] = _import_jax().named_scope(name)
    return scope


def _import_jax() -> Any:
    try:
        import jax
    except ImportError as error:
        bad_input(f"haulout.jax needs JAX, which cannot be imported: {error}", help=["pip install 'haulout[jax]'"])
    return jax


def _name(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))


def _abstract_mesh(mesh: Any, jax: Any) -> Any:
    """A mapping from names to sizes as a mesh; a mesh of devices without its devices."""
    if isinstance(mesh, Mapping):
        automatic = (jax.sharding.AxisType.Auto,) * len(mesh)
        return jax.sharding.AbstractMesh(tuple(mesh.values()), tuple(mesh), axis_types=automatic)
    return mesh.abstract_mesh if isinstance(mesh, jax.sharding.Mesh) else mesh


def _named(shardings: Any, mesh: Any, jax: Any) -> Any:
    """The tree with every `PartitionSpec` as a sharding over the mesh."""
    spec = jax.sharding.PartitionSpec

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, spec):
            return leaf
        if mesh is None:
            bad_input(f"a sharding {leaf} needs a mesh", help=["pass mesh={'x': 4}, or a NamedSharding"])
        return jax.sharding.NamedSharding(mesh, leaf)

    return jax.tree.map(convert, shardings, is_leaf=lambda leaf: isinstance(leaf, spec))


def _devices(module: Any) -> int:
    """How many devices a StableHLO module is for: what JAX wrote down, or the largest mesh that it names."""
    attributes = module.operation.attributes
    found = [int(attributes["mhlo.num_partitions"].value)] if "mhlo.num_partitions" in attributes else [1]
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":  # <["x"=2, "y"=2]>
            found.append(math.prod(int(size) for size in _AXIS_SIZE.findall(str(op.operation.attributes["mesh"]))))
    return max(found)


def _compile(bytecode: bytes, devices: int, packages: Path, partitioned: bool) -> str:
    """Compile in a child process; the text of the module that XLA dumped."""
    with tempfile.TemporaryDirectory(prefix="haulout-") as name:
        directory = Path(name)
        module, dump = directory / "module.mlirbc", directory / "dump"
        module.write_bytes(bytecode)
        environment = os.environ | child.environment(devices, dump)
        search = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(search)
        # -P: the script's own directory must not hide modules of the standard library.
        command = [sys.executable, "-P", child.__file__, str(module), str(devices)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found = sorted(dump.glob(_AFTER_PARTITIONING if partitioned and devices > 1 else _BEFORE_ANY_PASS))
        if done.returncode != 0 or len(found) != 1:
            lines = done.stderr.strip().splitlines()[-MAX_LINES:]
            fail(
                "bad-input",
                f"XLA cannot compile the module for {devices} devices (exit status {done.returncode})",
                notes=lines,
            )
        return found[0].read_text(encoding="utf-8")
