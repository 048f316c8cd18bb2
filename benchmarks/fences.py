"""Every HLO program of a folder: fences of both policies against the longest chain, peak against the lower bound.

    python benchmarks/fences.py FOLDER [--target NAME|FILE.toml] [--makespan]

`2 x coll.` is two fences a collective, what a lowering without order 81 pays; `chain` is the longest one of a
straight program, `runs` how often the fences of one with loops run. With `--makespan` the second table: estimated
microseconds with two fences a collective, with each way to place the fewest (`docs/design/cost-model.md`), all before
addresses; then of the compiled program, with the fewest fences and with brackets. Programs that do not compile are
listed with the reason.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import haulout

COUNTS = (
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
RULES = ("lowered", "source", "earliest", "latest", "fill", "even", "nests")
TIMES = (*RULES, "taken", "compiled", "bracket", "balance")


def counts(bracket: haulout.CompileResult, minimal: haulout.CompileResult) -> list[str]:
    """Fences and bytes."""
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
    return [*("-" if cell is None else f"{cell:,}" for cell in cells), f"{ratio:.4f}"]


def times(bracket: haulout.CompileResult, minimal: haulout.CompileResult) -> list[str]:
    """Estimated makespans; an empty cell is a placement equal to one before it."""
    report = minimal.report
    return [
        *("" if (time := report.makespans_us.get(rule)) is None else f"{time:,.1f}" for rule in RULES),
        report.placement or "-",
        f"{report.estimated_makespan_us:,.1f}",
        f"{bracket.report.estimated_makespan_us:,.1f}",
        f"{report.phase_balance:.3f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="generic")
    parser.add_argument("--makespan", action="store_true")
    options = parser.parse_args()
    headings, cells, width = (TIMES, times, 11) if options.makespan else (COUNTS, counts, 14)
    print(f"{'program':<26}" + "".join(f"{heading:>{width}}" for heading in headings) + "  proved")
    skipped = []
    for path in sorted(options.folder.glob("*.hlo")):
        try:
            bracket = haulout.compile(path, fences="bracket", target=options.target)
            minimal = haulout.compile(path, fences="minimal", target=options.target)
        except haulout.HauloutError as error:
            skipped.append(f"{path.stem}: {error.diagnostics[0]}")
            continue
        proved = "yes" if bracket.ok and minimal.ok else "NO"
        print(f"{path.stem:<26}" + "".join(f"{cell:>{width}}" for cell in cells(bracket, minimal)) + f"  {proved}")
    for line in skipped:
        print(line)


if __name__ == "__main__":
    main()
