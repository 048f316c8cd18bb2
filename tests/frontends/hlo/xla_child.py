"""Run by tests in a process of its own: execute a partitioned HLO file with XLA itself.

    python -P xla_child.py FILE INPUTS.npz OUTPUTS.npz DEVICES     # arrays are named <parameter or result>_<device>

XLA partitions what it compiles, and this text is partitioned already: every instruction is marked as manual. Meshes
are written out as groups, because the way through StableHLO knows only one mesh a module; input_output_alias is
dropped, because it has no meaning for the values. The marking is done line by line on the text, without the front
end under test.
"""

import os
import re
import sys
from pathlib import Path

SHARDING = re.compile(r", sharding=\{(?:[^{}]|\{[^{}]*\})*\}")
METADATA = re.compile(r", metadata=\{[^}]*\}")
MESH = re.compile(r"mesh\['x'=2,'y'=2\] \{'x','y'\}")
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%\S+ = (?P<shape>\((?:[^()]|\([^()]*\))*\)|\S+) [a-z][a-z0-9-]*\(")
ALIAS = re.compile(r"input_output_alias=\{.*?\) \}, ")


def marked(text: str) -> str:
    """The text with `sharding={manual}` on every instruction that is not inside a scalar computation."""
    lines = []
    inside = False
    for line in text.splitlines():
        if line.startswith(("%", "ENTRY")):
            inside = line.startswith("ENTRY") or "[" in line.replace("[]", "")
        match = INSTRUCTION.match(line)
        if match and inside:
            line = MESH.sub("{{0,1,2,3}}", METADATA.sub("", SHARDING.sub("", line)))
            leaves = len(re.findall(r"\b[a-z]+[0-9]*\[", match["shape"]))
            manual = "{" + ", ".join(["{manual}"] * leaves) + "}" if match["shape"].startswith("(") else "{manual}"
            line += f", sharding={manual}"
        lines.append(line)
    return ALIAS.sub("", "\n".join(lines))


def main(file: str, inputs: str, outputs: str, devices: int) -> None:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy as np
    from jax.extend.mlir import ir
    from jax.interpreters.mlir import make_ir_context
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from jaxlib import _hlo, _jax, xla_client

    proto = _hlo.hlo_module_from_text(marked(Path(file).read_text())).as_serialized_hlo_module_proto()
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    options.num_partitions = build.num_partitions = devices
    build.num_replicas = 1
    build.use_spmd_partitioning = True
    build.device_assignment = _jax.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    with make_ir_context():
        module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(proto))
        client = jax.devices()[0].client
        executable = client.compile_and_load(module, _jax.DeviceList(tuple(jax.devices())), options)
    mesh = Mesh(np.array(jax.devices()), ("x",))
    arguments = []
    data = np.load(inputs)
    for parameter in range(len(data.files) // devices):
        parts = [data[f"{parameter}_{device}"] for device in range(devices)]
        shape = (parts[0].shape[0] * devices, *parts[0].shape[1:])
        placed = [jax.device_put(part, device) for part, device in zip(parts, jax.devices(), strict=True)]
        sharding = NamedSharding(mesh, PartitionSpec("x"))
        arguments.append(jax.make_array_from_single_device_arrays(shape, sharding, placed))
    results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
    found = {
        f"{number}_{device}": np.asarray(value).astype("f4") if value.dtype.name == "bfloat16" else np.asarray(value)
        for number, values in enumerate(results)
        for device, value in enumerate(values)
    }
    np.savez(outputs, **found)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
