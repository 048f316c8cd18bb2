"""DRAM of all cores together against what XLA holds in its N copies, file by file.

    python benchmarks/memory.py FOLDER [CSV] [--fences bracket|minimal] [--only GLOB]

FOLDER has HLO files of N cores, `NAME.nN.hlo`. CSV has a row a file: `program,arg,out,alias,temp`, bytes of one
device as XLA's `memory_analysis` gives them; without it the installed JAX compiles each file and says so. XLA needs
`N * (arg + out - alias + temp)`. Ours is the peak of all cores. The last lines are geometric means by group and by
number of cores.
"""

from __future__ import annotations

import argparse
import csv
import math
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

import haulout

TRANSFORMERS = ("gpt2s", "decoder", "scan_layers", "hf_gpt2")


JUDGE = Path(__file__).parents[1] / "tools" / "hlo_judge.py"


def installed_xla_bytes(path: Path) -> int:
    """Bytes that one device needs for a file, as the installed JAX compiles it."""
    command = [sys.executable, str(JUDGE), str(path), "--memory"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    argument, output, alias, temporary = map(int, done.stdout.split())
    return argument + output - alias + temporary


def xla_bytes(path: Path) -> dict[str, int]:
    """Bytes that one device needs, by program."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["program"]: sum(int(row[key]) for key in ("arg", "out", "temp")) - int(row["alias"]) for row in rows}


def groups(name: str, program: haulout.Program) -> list[str]:
    """The groups of a program."""
    loops = bool(np.any(program.blocks.cond >= 0))
    return ["loops" if loops else "straight", *(["transformers"] if name.startswith(TRANSFORMERS) else [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("csv", type=Path, nargs="?")
    parser.add_argument("--fences", default="minimal", choices=("bracket", "minimal"))
    parser.add_argument("--only", default="*")
    options = parser.parse_args()
    device = xla_bytes(options.csv) if options.csv else {}
    ratios: dict[tuple[str, int], list[float]] = defaultdict(list)
    print(f"{'program':<26}{'ours':>16}{'XLA, N times':>16}{'ratio':>8}{'fences':>8}{'makespan us':>14}  proved")
    for path in sorted(options.folder.glob(f"{options.only}.hlo")):
        if options.csv is None:
            device[path.stem] = installed_xla_bytes(path)
        if path.stem not in device:
            continue
        result = haulout.compile(path, fences=options.fences)
        report = result.report
        theirs = report.lnc * device[path.stem]
        ratio = report.total_peak_bytes / theirs
        for group in groups(path.stem, result.program):
            ratios[group, report.lnc].append(ratio)
        print(
            f"{path.stem:<26}{report.total_peak_bytes:>16,}{theirs:>16,}{ratio:>8.2f}{report.barriers:>8}"
            f"{report.estimated_makespan_us:>14,.1f}  {'yes' if result.proved else 'NO'}",
            flush=True,
        )
    print()
    for (group, cores), found in sorted(ratios.items()):
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{group:<14} N={cores}  {mean:.3f} of XLA's, geometric mean of {len(found)}; worst {max(found):.2f}")


if __name__ == "__main__":
    main()
