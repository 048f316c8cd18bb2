"""Where the time of `compile` goes: the share of each pass for one HLO program.

    python benchmarks/compile_hlo.py PROGRAM.hlo [--fences bracket|minimal]

The program is compiled twice in one process; the second run, with every kernel loaded, is the one printed.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import haulout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--fences", default="minimal", choices=["bracket", "minimal"])
    options = parser.parse_args()
    for _ in range(2):
        began = perf_counter()
        program = haulout.load(options.program)
        parse = perf_counter() - began
        result = haulout.compile(program, fences=options.fences)
        total = perf_counter() - began
    per_core = len(result.program.instructions) // result.program.lnc
    print(f"{result.report.program}: {result.program.lnc} cores, {per_core} instructions a core, proved: {result.ok}")
    rows = [("parse and lower", parse), *((each.name, each.seconds) for each in result.report.timings)]
    for name, seconds in [*rows, ("total", total)]:
        print(f"{name:<45} {seconds:8.3f} s {seconds / total:6.1%}")


if __name__ == "__main__":
    main()
