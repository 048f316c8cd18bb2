"""What a step of `haulout simulate` costs beside a step of JAX: CPU time, program by program.

    python benchmarks/simulate.py FILE_OR_FOLDER [...] [--only GLOB] [--cores 1,2,4] [--repeat 5] [--jax PYTHON]

The programs are HLO text: of one device, compiled for each number of cores, or partitioned for several, compiled as
they are. `NAME.tiny.hlo` files are left out. `--jax` is a Python that has JAX, this one by default. The columns, in
milliseconds of user and system time of all threads, the least of `--repeat` times:

    jax        one step after compilation, inputs on the device
    step       the simulator from given inputs to outputs: memory, kernels, checks of bytes never written
    ratio      step over jax
    inputs     drawing the inputs
    prepare    layout and atoms, before the step
    load       reading the program

JAX and the simulator take turns, so that both see the same machine. The last line is the geometric mean of the
ratios.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

TOOLS = Path(__file__).parents[1] / "tools"


def jax_step(path: Path, repeat: int) -> float:
    """The least CPU seconds of a step, in this process."""
    jax: Any = import_module("jax")
    judge, hlo_text = import_module("hlo_judge"), import_module("hlo_text")
    text = path.read_text(encoding="utf-8")
    executable, devices = judge._compiled(text)
    parameters = hlo_text.entry_parameters(text)
    drawn = judge.drawn(parameters, len(devices), 0)
    mesh = jax.sharding.Mesh(np.array(devices), ("core",))
    operands = []
    for parameter in parameters:
        shards = [
            jax.device_put(drawn[f"in/nc{core}/{parameter.name}"], device) for core, device in enumerate(devices)
        ]
        axes = ("core",) if parameter.shape else ()
        shape = (parameter.shape[0] * len(devices), *parameter.shape[1:]) if axes else ()
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
        operands.append(jax.make_array_from_single_device_arrays(shape, sharding, shards))
    times = []
    for _ in range(repeat + 1):
        begin = time.process_time()
        for result in executable.execute_sharded(operands).disassemble_into_single_device_arrays():
            for each in result:
                each.block_until_ready()
        times.append(time.process_time() - begin)
    return min(times)


def jax_child(python: str, path: Path, cores: int, repeat: int) -> float:
    """The same, in a process whose XLA has as many devices as the program has cores."""
    flags = f"--xla_force_host_platform_device_count={cores}"
    child = subprocess.run(
        [python, __file__, str(path), "--child", "--repeat", str(repeat)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(json.loads(child.stdout.splitlines()[-1]))


@contextmanager
def timed(times: dict[str, float], name: str) -> Iterator[None]:
    """Keep the least CPU seconds of what is inside."""
    begin = time.process_time()
    yield
    times[name] = min(times.get(name, math.inf), time.process_time() - begin)


def simulated(file: Path, repeat: int, times: dict[str, float]) -> None:
    """The simulator's times on a compiled program."""
    import haulout
    from haulout.ir.enums import Kind
    from haulout.sim.inputs import element_type, input_bytes, locations_of_kind, qualified_name
    from haulout.sim.plan import prepare
    from haulout.sim.run import run_reference

    for _ in range(repeat):
        with timed(times, "load"):
            program = haulout.load(file)
        with timed(times, "prepare"):
            prepared = prepare(program)
        with timed(times, "inputs"):
            drawn = input_bytes(program, prepared.functions, None, 0)
        given = {}
        for row in locations_of_kind(program, prepared.functions, Kind.INPUT, Kind.INOUT):
            dtype, shape = element_type(program, row)
            given[qualified_name(program, row)] = drawn[row].view(dtype).reshape(shape)
        with timed(times, "step"):
            run_reference(prepared, given)


def compare(path: Path, cores: int | None, options: argparse.Namespace, folder: Path) -> float:
    """Print a row; the ratio."""
    import haulout
    from haulout.ir.text import print_bir

    compiled = haulout.compile(path, lnc=cores).program
    file = folder / "program.bir"
    file.write_text(print_bir(compiled), encoding="utf-8")
    times: dict[str, float] = {}
    devices = compiled.lnc if cores is None else 1
    jax = math.inf
    for _ in range(2):
        jax = min(jax, jax_child(options.jax, path, devices, options.repeat))
        simulated(file, options.repeat, times)
    ratio = times["step"] / jax
    shown = [jax, times["step"]], [times[name] for name in ("inputs", "prepare", "load")]
    before, after = ("".join(f"{1e3 * each:>10.1f}" for each in part) for part in shown)
    print(f"{path.stem:<28}{compiled.lnc:>6}{before}{ratio:>8.2f}{after}", flush=True)
    return ratio


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of programs, without .hlo")
    parser.add_argument("--cores", default="1,2,4", help="for programs of one device")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--jax", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(TOOLS))
    if options.child:
        print(jax_step(options.sources[0], options.repeat))
        return
    partition_count = import_module("hlo_text").partition_count
    folders = [sorted(source.glob("*.hlo")) if source.is_dir() else [source] for source in options.sources]
    print(f"{'CPU ms':<28}{'cores':>6}{'jax':>10}{'step':>10}{'ratio':>8}{'inputs':>10}{'prepare':>10}{'load':>10}")
    ratios = []
    with tempfile.TemporaryDirectory(prefix="haulout-") as name:
        for path in chain(*folders):
            if path.stem.endswith(".tiny") or not fnmatch.fnmatch(path.stem, options.only):
                continue
            is_partitioned = partition_count(path.read_text(encoding="utf-8")) > 1
            for cores in [None] if is_partitioned else map(int, options.cores.split(",")):
                ratios.append(compare(path, cores, options, Path(name)))
    if ratios:
        print(f"geometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
