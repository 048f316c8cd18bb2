"""`haulout run` of a one-device program on N cores against one core: paired runs, wall time and CPU time.

    python benchmarks/run_cores.py FILE.hlo ... [--cores 2] [--runs 15]

The two programs run in turn. `wall` and `CPU` are the medians of the ratios of neighbouring runs, `least` compares
the shortest ones. Wall times mean something on a quiet machine only, so the load is printed.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import median

import haulout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    print(f"{'program':<20}{'N':>3}{'one ms':>9}{'N ms':>9}{'least':>7}{'wall':>7}{'CPU':>7}{'load':>7}")
    for path in options.files:
        programs = [haulout.compile(path, lnc=cores).program for cores in (1, options.cores)]
        wall: list[list[float]] = [[], []]
        cpu: list[list[float]] = [[], []]
        for _ in range(options.runs + 1):
            for each, program in enumerate(programs):
                result = haulout.run(program)
                wall[each] += result.seconds
                cpu[each] += result.cpu_seconds
        one, many = (min(each[1:]) for each in wall)  # the first run of each warms up
        ratios = [median(b / a for a, b in zip(times[0][1:], times[1][1:], strict=True)) for times in (wall, cpu)]
        print(
            f"{path.stem:<20}{options.cores:>3}{one * 1e3:>9.1f}{many * 1e3:>9.1f}{many / one:>7.2f}{ratios[0]:>7.2f}"
            f"{ratios[1]:>7.2f}{os.getloadavg()[0]:>7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
