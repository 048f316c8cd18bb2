"""Growth curve: a generated program through orders 79 to 84 and the checker, 10k to 1M instructions a core.

    python benchmarks/growth.py [--sizes 10000,100000,1000000] [--cores 2]

Each size runs in a process of its own, after one small program that loads the kernels, so that the peak memory is
that size's alone. The last column is the growth: seconds for ten times the instructions, divided by ten.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from time import perf_counter


def measure(size: int, cores: int) -> dict[str, float]:
    from haulout.checker import check_program
    from haulout.passes.base import PassContext
    from haulout.passes.manager import PassManager
    from haulout.passes.pipeline import standard_pipeline
    from haulout_generators.large import large_program

    def run(instructions: int) -> dict[str, float]:
        program = large_program(instructions, cores)
        began = perf_counter()
        manager = PassManager(standard_pipeline())
        program = manager.run(program, PassContext())
        compiled = perf_counter()
        findings = check_program(program)
        checked = perf_counter()
        assert not findings, findings[0]
        figures = {f"{record.order or ''} {record.name}".strip(): record.seconds for record in manager.records}
        return {**figures, "passes": compiled - began, "check": checked - compiled, "total": checked - began}

    run(2000)
    return {**run(size), "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one, options.cores)))
        return
    sizes = [int(size) for size in options.sizes.split(",")]
    columns = []
    for size in sizes:
        command = [sys.executable, __file__, "--one", str(size), "--cores", str(options.cores)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        columns.append(json.loads(done.stdout))
    print(f"{options.cores} cores; seconds")
    print(f"{'instructions a core':<50}" + "".join(f"{size:>12,}" for size in sizes) + "      growth")
    for name in columns[-1]:
        cells = "".join(f"{column[name]:>12.2f}" for column in columns)
        growth = ""
        if len(sizes) > 1 and name != "MiB" and columns[-2][name] > 0.05:
            ratio = columns[-1][name] / columns[-2][name] / (sizes[-1] / sizes[-2])
            growth = f"{ratio:>12.2f}"
        print(f"{name:<50}{cells}{growth}")


if __name__ == "__main__":
    main()
