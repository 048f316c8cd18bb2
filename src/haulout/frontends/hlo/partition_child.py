"""What the child process of `haulout.jax` runs: compile a StableHLO module, so that XLA dumps it after partitioning.

    python -P partition_child.py MODULE DEVICES SIZES        # under the environment that `environment` gives

XLA reads its flags once in the life of a process and has as many CPU devices as they say: hence a process of its
own. Nothing is run; of the code that XLA makes only the sizes of its buffers are kept, in the file SIZES: bytes of
arguments, results, results that are stored where an argument is, temporaries. Optimizations after partitioning are
switched off where they can be. Only the standard library is imported at the top: the parent uses `environment`, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def environment(devices: int, dump: Path) -> dict[str, str]:
    """Variables for the child: CPU only, so many devices, and a dump of the module after partitioning."""
    flags = [
        f"--xla_force_host_platform_device_count={devices}",
        f"--xla_dump_to={dump}",
        "--xla_dump_hlo_as_text",
        "--xla_dump_large_constants",
        "--xla_dump_hlo_pass_re=^spmd-partitioning$",
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
    ]
    return {"XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"}


def compile_module(bytecode: bytes, devices: int) -> list[int] | None:
    """Compile for the devices of this process, as `jax.jit` would: SPMD, Shardy, free shardings for XLA to choose.

    Returns the sizes of the buffers on each device, None if XLA does not know them.
    """
    import jax
    import numpy as np
    from jax.extend.mlir import ir
    from jax.interpreters.mlir import make_ir_context
    from jaxlib import _jax, xla_client

    options = xla_client.CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = 1
    options.num_partitions = build.num_partitions = devices
    build.use_spmd_partitioning = True
    build.allow_spmd_sharding_propagation_to_parameters = [True]
    build.allow_spmd_sharding_propagation_to_output = [True]
    build.device_assignment = _jax.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    with make_ir_context():
        module = ir.Module.parse(bytecode)
        build.use_shardy_partitioner = any(op.operation.name == "sdy.mesh" for op in module.body.operations)
        made = jax.devices()[0].client.compile_and_load(module, _jax.DeviceList(tuple(jax.devices())), options)
    try:
        found = made.get_compiled_memory_stats()
        return [int(getattr(found, f"{kind}_size_in_bytes")) for kind in ("argument", "output", "alias", "temp")]
    except (AttributeError, RuntimeError):
        return None


if __name__ == "__main__":
    sizes = compile_module(Path(sys.argv[1]).read_bytes(), int(sys.argv[2]))
    if sizes is not None:
        Path(sys.argv[3]).write_text(json.dumps(sizes))
