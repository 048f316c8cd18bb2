"""Run the text of a partitioned HLO module on N cores with XLA itself: the judge of what haulout computes.

    python tools/hlo_judge.py FILE.hlo [--inputs IN.npz | --seed 0] -o expected.npz
    python tools/hlo_judge.py FILE.hlo --memory

With `--memory` it compiles the module alone, and prints what XLA needs for one device: the bytes of arguments,
results, results in the place of arguments, and temporaries.

`run_hlo` is the first from Python. Keys of the arrays are those of `example_arrays`; the result holds the inputs
beside the outputs. Inputs that no file gives are drawn from the seed: normal floats scaled by the largest dimension,
integers from 0 to 7 (they may be indices), each core its own unless the text says `sharding={replicated}`.

The work is done in a child process (`jax_child`), on the module that `hlo_text.as_replicas` makes.  XLA's parser
reads every form of replica groups, so nothing of haulout is trusted here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import example_arrays
import jax_child
import numpy as np
from example_arrays import Array
from hlo_text import Parameter, as_replicas, entry_parameters, partition_count

__all__ = ["MEMORY", "drawn", "execute", "main", "run_hlo"]

MEMORY = ("argument", "output", "alias", "temp")
"""Kinds of memory as XLA counts them."""


def run_hlo(path: Path, inputs: Mapping[str, Array] | None = None, seed: int = 0) -> dict[str, Array]:
    """Run the module at `path` in a child process; `inputs` has `in/nc<core>/<parameter>`, or is drawn.

    Raises RuntimeError when XLA cannot run it (its message is on stderr).
    """
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch, "out.npz")
        arguments = [str(path), "--seed", str(seed), "-o", str(result)]
        if inputs is not None:
            example_arrays.save(Path(scratch, "in.npz"), inputs, compress=False)
            arguments += ["--inputs", str(Path(scratch, "in.npz"))]
        if main(arguments):
            raise RuntimeError(f"XLA did not run {path}")
        return example_arrays.load(result)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; without `--child` it only starts the child."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description="Run partitioned HLO text with XLA, core by core.")
    parser.add_argument("file", type=Path, help="HLO text after the spmd-partitioning pass")
    parser.add_argument("--inputs", type=Path, help=".npz with in/nc<core>/<parameter>; default: drawn from the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help=".npz to write")
    parser.add_argument("--memory", action="store_true", help="print XLA's memory for one device instead")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.output is None and not options.memory:
        parser.error("one of -o and --memory is needed")

    text = options.file.read_text()
    cores = partition_count(text)
    if not options.child:
        return jax_child.run_again(Path(__file__), ["--child", *given], cores)

    if options.memory:
        stats = _compiled(text, donate=True)[0].get_compiled_memory_stats()
        print(*(getattr(stats, f"{kind}_size_in_bytes") for kind in MEMORY))
        return 0
    parameters = entry_parameters(text)
    if options.inputs:
        inputs = {k: v for k, v in example_arrays.load(options.inputs).items() if k.startswith("in/")}
    else:
        inputs = drawn(parameters, cores, options.seed)
    example_arrays.save(options.output, inputs | execute(text, inputs), compress=False)
    return 0


def _compiled(text: str, *, donate: bool = False) -> tuple[Any, Sequence[Any]]:
    """A partitioned module as an executable of this process, and its devices."""
    jax: Any = import_module("jax")
    hlo: Any = import_module("jaxlib._hlo")
    native: Any = import_module("jaxlib._jax")
    client: Any = import_module("jaxlib.xla_client")

    cores = partition_count(text)
    devices = jax.devices()[:cores]
    module = hlo.hlo_module_from_text(as_replicas(text, donate=donate)).as_serialized_hlo_module_proto()
    options = client.CompileOptions()
    options.num_replicas, options.num_partitions = cores, 1
    options.executable_build_options.num_replicas = cores
    options.executable_build_options.use_spmd_partitioning = False
    options.device_assignment = client.DeviceAssignment.create(np.arange(cores).reshape(cores, 1))
    executable = devices[0].client.compile_and_load(
        native.mlir.hlo_to_stablehlo(module), native.DeviceList(tuple(devices)), options
    )
    return executable, devices


def execute(text: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compile and run a partitioned module in this process, which has as many devices as the module has cores."""
    jax: Any = import_module("jax")
    executable, devices = _compiled(text)
    parameters, cores = entry_parameters(text), len(devices)
    mesh = jax.sharding.Mesh(np.array(devices), ("core",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("core"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    operands = []
    for parameter in parameters:
        shards = [
            jax.device_put(_checked(inputs, f"in/nc{core}/{parameter.name}", parameter), device)
            for core, device in enumerate(devices)
        ]
        shape = tuple(parameter.shape)
        if shape:
            stacked = (shape[0] * cores, *shape[1:])
            operands.append(jax.make_array_from_single_device_arrays(stacked, split, shards))
        else:
            operands.append(jax.make_array_from_single_device_arrays((), whole, shards))
    results = executable.execute_sharded(operands).disassemble_into_single_device_arrays()
    return {
        f"out/nc{core}/{index}": np.asarray(result[core])
        for core in range(cores)
        for index, result in enumerate(results)
    }


def drawn(parameters: Sequence[Parameter], cores: int, seed: int) -> dict[str, Array]:
    """Inputs for every parameter on every core, each from the seed and its own key; replicated ones are all alike."""
    inputs: dict[str, Array] = {}
    for core in range(cores):
        for parameter in parameters:
            key = f"nc{0 if parameter.replicated else core}/{parameter.name}"
            dtype = example_arrays.dtype_named(parameter.dtype)
            drawing = example_arrays.draw(seed, key, parameter.shape, dtype)
            inputs[f"in/nc{core}/{parameter.name}"] = drawing
    return inputs


def _checked(inputs: Mapping[str, Array], key: str, parameter: Parameter) -> Array:
    array = inputs[key]
    dtype = example_arrays.dtype_named(parameter.dtype)
    if array.shape != parameter.shape or array.dtype != dtype:
        raise ValueError(f"{key} is {array.dtype}{array.shape}, the module wants {dtype}{parameter.shape}")
    return array


if __name__ == "__main__":
    raise SystemExit(main())
