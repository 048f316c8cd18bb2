"""Compiled programs without one fence, edge or wait each: the thread sanitizer against the checker.

    python benchmarks/drops.py [FILE ...] [--most N] [--sync edges,semaphores,all] [--fences minimal,bracket]
        [--seconds N]

FILE: HLO to compile, or `.bir`, which is taken as it is; without one, the examples and the files of the tests, the
smallest first. Every program is judged whole; then, where it is clean, without `--most` of each kind of
`haulout_generators.mutate.drops` (0: all). What runs under the sanitizer is what `haulout run --queues` runs: a
thread a queue, with the same dependences, branches, barriers, semaphores and exchanges between them.

    found       both report a race or a hang: what was dropped is necessary
    redundant   both say clean
    unjudged    too large for the judge, or what a wait has seen differs from run to run
    differ      they disagree; each is printed
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import haulout
from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.support.diagnostics import HauloutError
from haulout_generators.mutate import drops
from haulout_judges import Outcome, threads
from haulout_judges.checked import differs

ROOT = Path(__file__).parents[1]
FEW_RUNS, MANY_RUNS = 4, 400
"""Choices at a program's loops and branches that are tried first, and where the two differ on these. Sampled choices
may leave out the one path on which a wait is necessary.
"""
COLUMNS = ("found", "redundant", "unjudged", "differ")


def corpus() -> list[Path]:
    """The programs that the repository has."""
    patterns = ("examples/**/*.bir", "examples/**/*.hlo", "tests/**/*.bir", "tests/end_to_end/data/*.hlo")
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def programs(path: Path, fences: list[str], sync: list[str]) -> Iterator[tuple[str, Program]]:
    """A file in each of the ways to compile it; nothing where it cannot be read."""
    ways: list[dict[str, Any]] = [{"fences": one, "sync": two} for one in fences for two in sync]
    for options in [{}] if path.suffix == ".bir" else ways:
        try:
            program = haulout.load(path) if path.suffix == ".bir" else haulout.compile(path, **options).program
        except HauloutError:
            continue
        yield " ".join([path.stem, *options.values()]), program


def compare(program: Program, name: str) -> tuple[str, Outcome]:
    """How the two agree, and what the judge says; prints a disagreement."""
    findings = check_program(program, advise=False)
    for most in (FEW_RUNS, MANY_RUNS):
        verdict = threads.judge(program, most)
        if verdict.outcome is Outcome.UNJUDGED:
            return "unjudged", verdict.outcome
        why = differs(program, verdict, findings)
        if not why:
            break
    if why:
        print(f"{name}: {why}", flush=True)
        return "differ", verdict.outcome
    return "redundant" if verdict.outcome is Outcome.CLEAN else "found", verdict.outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--sync", default="edges,semaphores,all")
    parser.add_argument("--fences", default="minimal,bracket")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further file after so long")
    options = parser.parse_args()
    if threads.interpreter() is None:
        raise SystemExit("needs gcc with -fsanitize=thread")
    whole: Counter[str] = Counter()
    seen: Counter[tuple[str, str]] = Counter()
    begin, files = time.perf_counter(), sorted(options.files or corpus(), key=lambda path: path.stat().st_size)
    tried = 0
    for path in files:
        if time.perf_counter() - begin > options.seconds:
            break
        tried += 1
        print(f"{tried} of {len(files)}, {sum(whole.values())} programs, {sum(seen.values())} drops", file=sys.stderr)
        for name, program in programs(path, options.fences.split(","), options.sync.split(",")):
            agreed, outcome = compare(program, name)
            whole["differ" if agreed == "differ" else outcome.value] += 1
            if outcome is not Outcome.CLEAN:
                continue
            rng = Random(name)

            def chosen(rows: Any, rng: Random = rng) -> list[int]:
                found = [int(row) for row in rows]
                return found if not options.most else sorted(rng.sample(found, min(options.most, len(found))))

            for mutant in drops(program, chosen):
                seen[mutant.kind, compare(mutant.program, f"{name}, {mutant.kind} {mutant.where}")[0]] += 1
    print(f"{tried} of {len(files)} files, {sum(whole.values())} programs: {dict(sorted(whole.items()))}")
    print(f"{'dropped':<18}" + "".join(f"{column:>11}" for column in COLUMNS))
    for kind in sorted({kind for kind, _ in seen}):
        print(f"{kind:<18}" + "".join(f"{seen[kind, column]:>11}" for column in COLUMNS))
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
