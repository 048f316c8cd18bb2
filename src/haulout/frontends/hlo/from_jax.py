"""JAX programs: traced here, partitioned by XLA in a child process, read by the HLO front end. Needs the extra `jax`.

    program = haulout.jax.lower(step, params, batch, mesh={"data": 2, "model": 2}, in_shardings=(P(), P("data")))

`lower` traces the function for an abstract mesh, which takes no devices, and writes the result as StableHLO: so
closures and lambdas work, and nothing of the user's has to be imported a second time. The child
(`partition_child.py`) has as many CPU devices as the mesh, compiles the module with XLA's dump on, and exits.
The module after the pass `spmd-partitioning` is what `partition` returns and `lower` parses, with shardings of
parameters from the one before it where they are lost (`lost_shardings.py`). A program for one device is never
partitioned: there the module before any pass is taken.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from haulout.frontends.hlo import lower as lower_hlo
from haulout.frontends.hlo import parse_hlo
from haulout.frontends.hlo import partition_child as child
from haulout.frontends.hlo.donation import donated_names, with_donors
from haulout.frontends.hlo.jitted import jit_options
from haulout.frontends.hlo.lost_shardings import with_shardings
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.opcodes import COLLECTIVES
from haulout.frontends.hlo.shardings import classes
from haulout.ir.origin import XlaMemory, with_origin
from haulout.ir.program import Program
from haulout.support.diagnostics import HauloutError, bad_input, fail

_AFTER_PARTITIONING = "*.after_spmd-partitioning.*.txt"
_BEFORE_PARTITIONING = "*.before_spmd-partitioning.txt"
_BEFORE_ANY_PASS = "*.before_optimizations.txt"
_AXIS_SIZE = re.compile(r"=(\d+)")
MAX_LINES = 12
"""Of the child's complaint that are shown."""


class JitOptions(TypedDict, total=False):
    """What `partition` takes besides the function and its arguments; None is not given."""

    mesh: Any
    in_shardings: Any
    out_shardings: Any
    donate_argnums: int | Sequence[int] | None
    static_argnums: int | Sequence[int] | None


class Names(NamedTuple):
    """What the author calls the arrays, in their order."""

    arguments: Sequence[str]
    results: Sequence[str]


def lower(
    fn: Callable[..., Any],
    *specs: Any,
    divide: bool = False,
    names: Names | None = None,
    how: str = "in_shardings=",
    **options: Unpack[JitOptions],
) -> Program:
    """The program of a JAX function on as many cores as its mesh has devices.

    With `divide` XLA partitions nothing: it is the program of one core, and its shardings ask for cuts. `names` are
    those of the arrays, where they are not the paths in the function's arguments and results. `how` is what a caller
    gives shardings by.

    Arguments and errors are those of `partition`, and those of the HLO front end. Warns if no argument is sharded:
    XLA then gives all of the work to every core.
    """
    traced = _partition(fn, specs, not divide, options)
    module = with_donors(parse_hlo(traced.text, f"<jax:{_name(fn)}>"))
    if not divide and _is_undivided(module):
        warnings.warn(
            f"no argument of {_name(fn)} has a sharding, so XLA gives all of the work to each of the "
            f"{module.num_partitions} cores; pass {how}, or lower it without a mesh",
            stacklevel=3,  # the caller of `haulout.jax.lower`
        )
    program = lower_hlo(module, whole=divide)
    donated = donated_names(module, program, traced.donated)
    arguments, results = names or Names((), traced.results)
    return with_origin(program, donated=donated, arguments=arguments, results=results, memory=traced.memory)


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
    donate_argnums: int | Sequence[int] | None = None,
    static_argnums: int | Sequence[int] | None = None,
    partitioned: bool = True,
) -> str:
    """The HLO text of a JAX function after SPMD partitioning.

    `specs` are the function's arguments: arrays, or pytrees of `jax.ShapeDtypeStruct`; their shardings count. `mesh`
    is a mapping from axis names to sizes, a `jax.sharding.AbstractMesh` or a `Mesh`; it is the context mesh while
    tracing, and gives a meaning to the `PartitionSpec`s in the shardings, which may also be shardings of JAX. If `fn`
    is a `jax.jit`, what is None is as it is there: donation, static arguments, shardings. Other shardings that are
    None are left to XLA. No argument is dropped, used or not. Where `partitioned` is false it is the text before any
    pass. Raises `HauloutError`: JAX is not installed, the function cannot be traced, or XLA fails.
    """
    options = JitOptions(
        mesh=mesh,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        donate_argnums=donate_argnums,
        static_argnums=static_argnums,
    )
    return _partition(fn, specs, partitioned, options).text


@dataclass(frozen=True, slots=True)
class _Partitioned:
    """A module as text, and what the text does not have."""

    text: str
    results: tuple[str, ...]
    """Paths of the results: `result['loss']`."""
    donated: tuple[bool, ...]
    """Of each array of the arguments."""
    memory: XlaMemory | None


def _partition(fn: Callable[..., Any], specs: Sequence[Any], partitioned: bool, options: JitOptions) -> _Partitioned:
    jax, given = _import_jax(), dict(options)
    mesh = given.pop("mesh", None)
    try:
        inner, known = jit_options(fn, given)
        contexts = _contexts(mesh, jax)
        lowered = _lowered(inner, specs, next(contexts), known, jax, contexts)
        results = [path for path, _ in jax.tree_util.tree_leaves_with_path(lowered.out_info)]
        donated = [bool(each.donated) for each in jax.tree.leaves(lowered.args_info)]
        module = lowered.compiler_ir(dialect="stablehlo")
        devices = max(_devices(module), math.prod(_sizes(mesh)))
        bytecode = io.BytesIO()
        module.operation.write_bytecode(bytecode)
    except HauloutError:
        raise
    except Exception as error:
        # Whatever the user's function raises while it is traced; the cause keeps the traceback for a debugger.
        first, *rest = str(error).strip().splitlines() or [type(error).__name__]
        bad_input(f"JAX cannot trace {_name(fn)}: {type(error).__name__}: {first}", notes=rest[:MAX_LINES])
    text, memory = _compile(bytecode.getvalue(), devices, Path(jax.__file__).parents[1], partitioned)
    paths = tuple("result" + str(jax.tree_util.keystr(path)) for path in results)
    return _Partitioned(text, paths, tuple(donated), memory)


def _lowered(
    fn: Callable[..., Any],
    specs: Sequence[Any],
    mesh: Any,
    options: Mapping[str, Any],
    jax: Any,
    others: Iterator[Any],
) -> Any:
    """The function as JAX lowers it; in the next context if it has a mesh of its own that this one does not match."""
    known = {key: _named(value, mesh, jax) if "shardings" in key else value for key, value in options.items()}
    try:
        with jax.sharding.use_abstract_mesh(mesh) if mesh is not None else contextlib.nullcontext():
            return jax.jit(fn, keep_unused=True, **known).trace(*specs).lower(lowering_platforms=("cpu",))
    except ValueError as error:
        other = next(others, None)
        if other is None or "mesh" not in str(error).lower():
            raise
        try:
            return _lowered(fn, specs, other, options, jax, others)
        except Exception:
            raise error from None


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


def _contexts(mesh: Any, jax: Any) -> Iterator[Any]:
    """Abstract meshes to trace in, the best first: a mapping has no devices, or those of a `Mesh` in the function."""
    if not isinstance(mesh, Mapping):
        yield mesh.abstract_mesh if isinstance(mesh, jax.sharding.Mesh) else mesh
        return
    automatic = (jax.sharding.AxisType.Auto,) * len(mesh)
    yield jax.sharding.AbstractMesh(tuple(mesh.values()), tuple(mesh), axis_types=automatic)
    here = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("one",)).abstract_mesh
    device = getattr(here, "abstract_device", None)
    if device is not None:
        yield jax.sharding.AbstractMesh(
            tuple(mesh.values()), tuple(mesh), axis_types=automatic, abstract_device=device
        )


def _sizes(mesh: Any) -> Sequence[int]:
    """The sizes of the axes of a mesh in any of its forms."""
    if mesh is None:
        return ()
    return tuple(mesh.values()) if isinstance(mesh, Mapping) else (mesh.size,)


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


def _compile(bytecode: bytes, devices: int, packages: Path, partitioned: bool) -> tuple[str, XlaMemory | None]:
    """Compile in a child process; the text of the module that XLA dumped, and the memory that it plans."""
    with tempfile.TemporaryDirectory(prefix="haulout-") as name:
        directory = Path(name)
        module, dump, sizes = directory / "module.mlirbc", directory / "dump", directory / "sizes.json"
        module.write_bytes(bytecode)
        environment = os.environ | child.environment(devices, dump)
        search = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(search)
        # -P: the script's own directory must not hide modules of the standard library.
        command = [sys.executable, "-P", child.__file__, str(module), str(devices), str(sizes)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found = sorted(dump.glob(_AFTER_PARTITIONING if partitioned and devices > 1 else _BEFORE_ANY_PASS))
        if done.returncode != 0 or len(found) != 1:
            lines = done.stderr.strip().splitlines()[-MAX_LINES:]
            fail(
                "bad-input",
                f"XLA cannot compile the module for {devices} devices (exit status {done.returncode})",
                notes=lines,
            )
        memory = json.loads(sizes.read_text()) if sizes.exists() else None
        text = found[0].read_text(encoding="utf-8")
        before = sorted(dump.glob(_BEFORE_PARTITIONING))
        if partitioned and len(before) == 1:
            text = with_shardings(text, before[0].read_text(encoding="utf-8"))
    return text, None if memory is None else XlaMemory(devices, *memory)
