"""What several cores gain on programs of one device: memory, time and fences, model by model.

    python benchmarks/split.py FOLDER [CSV] [--only GLOB] [--cores 2,4,8] [--why]

FOLDER has unpartitioned HLO files of one device, as `split_models.py` makes them; those named `NAME.tiny.hlo` are
left out. Each is compiled for one core and for each number of cores. CSV has a row a program and number of devices,
`program,devices,total`: bytes that XLA holds in all its devices together, with the best sharding for that many; the
row of one device is what one copy takes. The columns:

    DRAM         peak of all cores together
    XLA1         the same over XLA's total on one device
    XLAN         the same over XLA's total on N devices
    speed-up     makespan of one core over that of N, both estimated on the same target
    fences       in the lists of a core; then those in the loop that has most of them, so often an iteration
    cut          operations that the cores divide, of all but barriers

`--why` adds the bytes that cores still hold or compute more than once, by reason. The last lines are geometric means.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import haulout
from haulout.ir.enums import NONE


def xla_bytes(path: Path) -> dict[tuple[str, int], int]:
    """Bytes of all devices together, by program and number of devices."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["program"], int(row["devices"])): int(row["total"]) for row in csv.DictReader(file)}


def fences_an_iteration(program: haulout.Program, source: haulout.Program) -> float:
    """Barriers of the first core in one loop, without the loops inside it; of the loop that has most.

    A body may do the work of several iterations of the `source`: its loop runs less often.
    """
    structure, barriers = program.structure, program.barriers.instruction
    trips = dict(zip(source.blocks.name.tolist(), source.blocks.trip.tolist(), strict=True))
    trips = {source.strings[name]: trip for name, trip in trips.items()}
    blocks = program.instructions.block[barriers[program.instruction_core[barriers] == 0]].tolist()
    inner: Counter[int] = Counter()
    for block in blocks:
        around = [loop for loop in structure.loops.values() if loop.begin <= block < loop.end]
        if around:
            inner[max(loop.begin for loop in around)] += 1
    found = [0.0]
    for header, fences in inner.items():
        trip = trips.get(program.strings[int(program.blocks.name[header])], NONE)
        runs = int(program.blocks.trip[header])
        found.append(fences / (trip // runs if runs > 0 and trip > 0 else 1))
    return max(found)


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    found = list(values)
    return math.exp(sum(map(math.log, found)) / len(found)) if found else math.nan


def ratio(ours: float, theirs: float | None, width: int = 7) -> str:
    """A quotient in a column; `-` without a divisor."""
    return f"{'-':>{width}}" if not theirs else f"{ours / theirs:>{width}.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("csv", type=Path, nargs="?")
    parser.add_argument("--only", default="*")
    parser.add_argument("--cores", default="2,4,8")
    parser.add_argument("--why", action="store_true")
    options = parser.parse_args()
    xla = xla_bytes(options.csv) if options.csv else {}
    counts = [1, *map(int, options.cores.split(","))]
    found: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    print(
        f"{'program':<16}{'N':>2}{'DRAM':>14}{'XLA1':>7}{'XLAN':>7}{'makespan us':>13}{'speed-up':>10}{'fences':>9}"
        f"{'cut':>10}{'seconds':>9}  proved"
    )
    for path in sorted(options.folder.glob(f"{options.only}.hlo")):
        if path.stem.endswith(".tiny"):
            continue
        peak: dict[int, int] = {}
        alone = 0.0
        source: haulout.Program | None = None
        for cores in counts:
            begin = time.perf_counter()
            result = haulout.compile(path, lnc=cores)
            seconds = time.perf_counter() - begin
            report, program = result.report, result.program
            source = source or program
            span = report.estimated_makespan_us
            peak[cores] = report.total_peak_bytes
            alone = alone or span
            one, many = xla.get((path.stem, 1)), xla.get((path.stem, cores))
            counters = report.counters.get("split_uniform", {})
            operations = (len(program.instructions) - len(program.barriers)) // cores
            fences = f"{report.barriers}/{fences_an_iteration(program, source):g}"
            print(
                f"{path.stem:<16}{cores:>2}{peak[cores]:>14,}{ratio(peak[cores], one)}{ratio(peak[cores], many)}"
                f"{span:>13,.1f}{alone / span:>10.2f}{fences:>9}{counters.get('operations', 0):>5}/{operations:<4}"
                f"{seconds:>9.1f}  {'yes' if result.proved else 'NO'}",
                flush=True,
            )
            if options.why:
                for reason, copied in report.sharing.copied_bytes.items():
                    print(f"{'':<18}{copied:>14,} bytes more than once: {reason}", flush=True)
            if cores > 1:
                found["speed-up", cores].append(alone / span)
                if one and many:
                    found["DRAM to XLA on one device", cores].append(peak[cores] / one)
                    found["DRAM to XLA's best sharding", cores].append(peak[cores] / many)
        if {2, 8} <= peak.keys():
            found["DRAM of 8 cores to that of 2", NONE].append(peak[8] / peak[2])
    print()
    for (figure, cores), values in sorted(found.items()):
        where = "" if cores == NONE else f" N={cores}"
        print(
            f"{figure + where:<36}{mean(values):>7.3f}  geometric mean of {len(values)}, {min(values):.2f} to "
            f"{max(values):.2f}"
        )


if __name__ == "__main__":
    main()
