"""Every HLO program of a folder: fences of both policies against the longest chain, peak against the lower bound.

    python benchmarks/fences.py FOLDER

`2 x coll.` is two fences a collective, what a lowering without order 81 pays; `chain` is the longest one of a
straight program, `runs` how often the fences of one with loops run. Programs that do not compile are listed with the
reason.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import haulout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    headings = (
        "instr./core",
        "2 x coll.",
        "bracket",
        "minimal",
        "chain",
        "runs",
        "peak bracket",
        "peak minimal",
        "bound",
        "ratio",
    )
    print(f"{'program':<26}" + "".join(f"{heading:>14}" for heading in headings) + "  proved")
    skipped = []
    for path in sorted(options.folder.glob("*.hlo")):
        try:
            bracket = haulout.compile(path, fences="bracket")
            minimal = haulout.compile(path, fences="minimal")
        except haulout.HauloutError as error:
            skipped.append(f"{path.stem}: {error.diagnostics[0]}")
            continue
        report = minimal.report
        cells = (
            report.instructions // report.lnc,
            2 * report.counters["lower_local_collectives"]["collectives"],
            bracket.report.barriers,
            report.barriers,
            report.longest_chain,
            report.counters["extend_shared_lifetimes"].get("fence_runs"),
            bracket.report.total_peak_bytes,
            report.total_peak_bytes,
            report.total_lower_bound_bytes,
        )
        ratio = report.total_peak_bytes / report.total_lower_bound_bytes
        proved = "yes" if bracket.ok and minimal.ok else "NO"
        print(
            f"{path.stem:<26}"
            + "".join(f"{'-' if cell is None else f'{cell:,}':>14}" for cell in cells)
            + f"{ratio:>14.4f}  {proved}"
        )
    for line in skipped:
        print(line)


if __name__ == "__main__":
    main()
