"""Mutants through the commands, counted by how they end.

    python benchmarks/fuzz.py [--mutants N] [--seed S] [--kinds bir,hlo,nki,csv,npz,toml] [--log FILE]

N mutants of each kind, numbers S to S+N-1; a number and a kind make the same mutant each time. A child process runs
them, and is replaced when it dies or hangs. Each line of FILE is one mutant; a run that was stopped goes on where it
was when it is started again with the same FILE. `reached`: the command came to its last stage.
"""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz.commands import CLASSES, DEFECTS, run_mutant
from tests.fuzz.sources import KINDS

SECONDS = 30
"""Of the processor, after which a mutant is stopped from inside."""
PATIENCE = 900
"""Of the clock, after which its process is."""
ENDS = (*CLASSES, "crash")
EVERY = 1000


def child(kind: str, numbers: range) -> None:
    """Run mutants of a kind, one line each."""
    with tempfile.TemporaryDirectory(prefix="haulout-fuzz-") as folder:
        for number in numbers:
            began = time.monotonic()
            found = run_mutant(kind, number, Path(folder) / "mutant", SECONDS)
            line = {"kind": kind, "number": number, "ended": found.ended, "reached": found.reached}
            if found.ended in DEFECTS or found.ended == "memory":
                line |= {"command": found.command, "seen": found.seen[-4000:]}
            line["seconds"] = round(time.monotonic() - began, 2)
            print(json.dumps(line), flush=True)


def run(kind: str, first: int, end: int, take: Callable[[dict[str, object]], None]) -> None:
    """All mutants of a kind, in children."""
    while first < end:
        command = [sys.executable, __file__, "--child", kind, "--seed", str(first), "--mutants", str(end - first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while first < end:
                ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
                line = process.stdout.readline() if ready else ""
                if not line:
                    break
                take(json.loads(line))
                first += 1
            if first < end:
                process.kill()
                _, seen = process.communicate()
                ended = "crash" if process.returncode != -9 else "timeout"
                take({"kind": kind, "number": first, "ended": ended, "reached": False, "seen": seen[-2000:]})
                first += 1


def table(counts: dict[str, Counter[str]]) -> str:
    """One line a kind."""
    heads = ("kind", "mutants", "reached", *ENDS)
    rows = [
        (kind, count.total() - count["reached"], count["reached"], *(count[each] for each in ENDS))
        for kind, count in counts.items()
    ]
    rows.append(("all", *(sum(row[at] for row in rows) for at in range(1, len(heads)))))
    widths = [max(len(str(row[at])) for row in [heads, *rows]) for at in range(len(heads))]
    return "\n".join(
        "  ".join(f"{cell!s:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in [heads, *rows]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--log", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, range(options.seed, options.seed + options.mutants))
        return
    kinds = options.kinds.split(",")
    counts = {kind: Counter[str]() for kind in kinds}
    log = options.log.open("a+") if options.log else None

    def count(line: dict[str, object]) -> None:
        kind = str(line["kind"])
        counts.setdefault(kind, Counter())[str(line["ended"])] += 1
        counts[kind]["reached"] += bool(line["reached"])

    def take(line: dict[str, object]) -> None:
        count(line)
        if log is not None:
            log.write(json.dumps(line) + "\n")
            log.flush()
        if line["ended"] in DEFECTS or line["ended"] == "crash":
            print(
                f"{line['kind']} {line['number']}: {line['ended']}: {line.get('command')}\n{line.get('seen')}",
                flush=True,
            )

    following = dict.fromkeys(kinds, options.seed)
    if log is not None:
        log.seek(0)
        for text in log:
            line = json.loads(text)
            count(line)
            following[line["kind"]] = max(following.get(line["kind"], 0), line["number"] + 1)
    # Kinds in turn, so that a run that is stopped has tried all of them.
    for end in range(options.seed + EVERY, options.seed + options.mutants + EVERY, EVERY):
        for kind in kinds:
            run(kind, following[kind], min(end, options.seed + options.mutants), take)
            following[kind] = max(following[kind], min(end, options.seed + options.mutants))
        print(table(counts), flush=True)


if __name__ == "__main__":
    main()
