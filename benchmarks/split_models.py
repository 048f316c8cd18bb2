"""Make what `benchmarks/split.py` reads: large programs of one device, and what XLA needs for them.

    python benchmarks/split_models.py OUT [NAMES] [--devices 1,2,4,8]
    python benchmarks/split.py OUT OUT/xla-memory.csv

Needs the extra `jax`. OUT gets `NAME.hlo`, unpartitioned, for every model that `tools/make_split_examples.py --list`
names, and `xla-memory.csv` with a row a program and number of devices: `total` bytes of all devices together, those
of one device (`args`, `out`, `alias`, `temp`; `total = devices * (args + out - alias + temp)`), and `way`, the
sharding that was best among those that `Model.ways` (`tools/split_program.py`) tries. Of one device there is one way.

XLA compiles for CPU devices with FLAGS below: without them the scratch of library calls is not in `temp`.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parents[1] / "tools"
FLAGS = (
    "--xla_cpu_experimental_ynn_fusion_type=",
    "--xla_cpu_experimental_xnn_fusion_type=",
    "--xla_cpu_experimental_onednn_fusion_type=",
)
COLUMNS = ("program", "devices", "total", "args", "out", "alias", "temp", "way")
FILE = "xla-memory.csv"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; without `--child` it starts a child a number of devices, and puts their rows into one file."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("names", nargs="*", help="models to make; default: all")
    parser.add_argument("--devices", default="1,2,4,8")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    sys.path.insert(0, str(TOOLS))
    if options.child:
        return make(options.child, options)

    options.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, str]] = []
    for devices in map(int, options.devices.split(",")):
        environment = import_module("jax_child").environment(devices)
        environment["XLA_FLAGS"] = " ".join([environment["XLA_FLAGS"], *FLAGS])
        command = [sys.executable, __file__, *given, "--child", str(devices)]
        child = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=False)
        if child.returncode:
            return child.returncode
        rows += csv.DictReader(io.StringIO(child.stdout), COLUMNS)
    with (options.output / FILE).open("w", encoding="utf-8", newline="") as file:
        written = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        written.writeheader()
        written.writerows(rows)
    return 0


def make(devices: int, options: argparse.Namespace) -> int:
    """In the child: the rows of so many devices, to stdout; for one device the programs, too."""
    tool = import_module("make_split_examples")
    known = tool.models()
    if unknown := [name for name in options.names if name not in known]:
        print(f"no such model: {', '.join(unknown)}", file=sys.stderr)
        return 2
    rows = csv.writer(sys.stdout, lineterminator="\n")
    for name in options.names or known:
        model = known[name](large=True)
        if devices == 1:
            (options.output / f"{name}.hlo").write_text(tool.hlo(model, name)[0])
        ways = [("one device", {"core": 1}, None)] if devices == 1 else model.ways(devices)
        found = [(*memory(model, devices, mesh, specs), way) for way, mesh, specs in ways]
        if found:
            rows.writerow([name, devices, *min(found)])
        print(name, devices, *found, sep="\n    ", file=sys.stderr, flush=True)
    return 0


def memory(model: Any, devices: int, mesh: dict[str, int], specs: Any) -> tuple[int, int, int, int, int]:
    """Bytes of all devices, then arguments, results, results in place of arguments, and temporaries of one."""
    jax: Any = import_module("jax")
    program = import_module("split_program")
    shardings: dict[str, Any] = {}
    if specs is not None:
        grid = import_module("numpy").array(jax.devices()).reshape(tuple(mesh.values()))
        placed = jax.tree.map(
            lambda spec: jax.sharding.NamedSharding(jax.sharding.Mesh(grid, tuple(mesh)), spec),
            specs,
            is_leaf=lambda node: isinstance(node, jax.sharding.PartitionSpec),
        )
        shardings["in_shardings"] = placed
        if model.donate:  # results that take the places of arguments are cut as these; the rest is left to XLA
            shardings["out_shardings"] = (*(placed[at] for at in model.donate), None)
    jitted = jax.jit(model.fn, keep_unused=True, donate_argnums=model.donate, **shardings)
    stats = jitted.lower(*program.specs_of(model)).compile().memory_analysis()
    args, out = stats.argument_size_in_bytes, stats.output_size_in_bytes
    alias, temp = stats.alias_size_in_bytes, stats.temp_size_in_bytes
    return devices * (args + out - alias + temp), args, out, alias, temp


if __name__ == "__main__":
    raise SystemExit(main())
