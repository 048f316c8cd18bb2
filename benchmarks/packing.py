"""The tables of the planner: peak over lower bound, and seconds, on public instances and generated ones.

    python benchmarks/packing.py --data DIR [--table minimalloc traces xla scale] [--time-limit SECONDS]

DIR holds minimalloc/*.csv (the capacity is in the file's name), idealloc/**/*.csv and xla/*.csv. Every placement is
checked by the validator within `solve`. Kernels are compiled before anything is timed.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from haulout.passes.allocator import Problem, Progress, Solution, solve
from haulout.passes.allocator.best_fit import best_fit, xla_orders
from haulout.passes.allocator.csvio import read_csv
from haulout.passes.allocator.instance import canonical


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--table", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--time-limit", type=float, help="seconds for the runs without capacity; default: by counts")
    arguments = parser.parse_args()
    warm_up()
    for name in arguments.table:
        print(f"\n## {name}\n")
        for line in TABLES[name](arguments.data, arguments.time_limit):
            print(line, flush=True)


def warm_up() -> None:
    """Load or compile every kernel: a random problem, and one that no stage before the last solves."""
    rng = np.random.default_rng(1)
    lower = rng.integers(0, 400, 300)
    solve(Problem.of(lower, lower + rng.integers(1, 100, 300), rng.integers(1, 10**6, 300)), time_limit=0.3)
    moments = np.array([(i, (i + k) % 5) for i in range(5) for k in (0, 1)])  # five buffers in a ring
    solve(Problem.of(moments[:, 1], moments[:, 1] + 1, [7] * 5, owner=moments[:, 0]))


def timed(problem: Problem, **options: float | None) -> tuple[Solution, float, float]:
    """The solution, seconds in all, and seconds until its placement was found."""
    found = 0.0

    def note(progress: Progress) -> None:
        nonlocal found
        found = progress.seconds

    start = time.perf_counter()
    solution = solve(problem, progress=note, **options)  # type: ignore[arg-type]
    return solution, time.perf_counter() - start, found


def xla_ratio(problem: Problem) -> float:
    """XLA's best fit on the same problem, the better of its two orders."""
    instance = canonical(problem)
    return min(best_fit(instance, order)[1] for order in xla_orders(instance)) / instance.bound


def minimalloc(data: Path, limit: float | None) -> Iterator[str]:
    """Each instance with its capacity, and without."""
    yield "| instance | n | with capacity | seconds | without: ratio | status | found after s | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    total = 0.0
    for path in sorted((data / "minimalloc").glob("*.csv")):
        problem = read_csv(path).problem
        fit, seconds, _ = timed(problem, capacity=int(path.stem.split(".")[1]))
        total += seconds
        free, whole, found = timed(problem, time_limit=limit)
        yield (
            f"| {path.stem.split('.')[0]} | {len(problem)} | {'fits' if fit.fits else fit.status} | {seconds:.3f} "
            f"| {free.ratio:.5f} | {free.status} | {found:.2f} | {whole:.2f} |"
        )
    yield f"\nwith capacity, all: {total:.2f} s"


def traces(data: Path, limit: float | None) -> Iterator[str]:
    """The traces of idealloc's repository."""
    yield "| trace | n | XLA best fit | ours | method | found after s | seconds |"
    yield "|---|---|---|---|---|---|---|"
    for path in sorted((data / "idealloc").rglob("*.csv")):
        problem = read_csv(path).problem
        peer = f"{xla_ratio(problem):.5f}" if len(problem) < 30_000 else "not run"
        ours, seconds, found = timed(problem, time_limit=limit)
        yield (
            f"| {path.stem} | {len(problem)} | {peer} | {ours.ratio:.5f} | {ours.method} | {found:.2f} "
            f"| {seconds:.2f} |"
        )


def xla(data: Path, limit: float | None) -> Iterator[str]:
    """XLA's own problems: how many at the bound, and the worst."""
    ours, theirs, seconds = [], [], 0.0
    for path in sorted((data / "xla").glob("*.csv")):
        problem = read_csv(path).problem
        solution, spent, _ = timed(problem, time_limit=limit)
        seconds += spent
        ours.append(solution.ratio)
        theirs.append(xla_ratio(problem))
    yield "| planner | problems | at the bound | worst | geometric mean |"
    yield "|---|---|---|---|---|"
    for name, ratios in (("ours", ours), ("XLA best fit", theirs)):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield f"| {name} | {len(ratios)} | {sum(r == 1.0 for r in ratios)} | {max(ratios):.5f} | {mean:.5f} |"
    yield f"\nours, all: {seconds:.2f} s"


def scale(data: Path, limit: float | None) -> Iterator[str]:
    """Growth from a thousand to a million buffers."""
    yield "| kind | n | ratio | first placement s | seconds |"
    yield "|---|---|---|---|---|"
    for kind, make in (("network", network), ("random", scattered)):
        for n in (1_000, 10_000, 100_000, 1_000_000):
            problem = make(n)
            first, seconds_first, _ = timed(problem, time_limit=0.0)
            solution, seconds, _ = timed(problem, time_limit=limit)
            yield f"| {kind} | {n} | {first.ratio:.4f} → {solution.ratio:.4f} | {seconds_first:.2f} | {seconds:.2f} |"


def scattered(n: int) -> Problem:
    """Sizes and lifetimes even in their logarithms, about 200 live at a time."""
    rng = np.random.default_rng(0)
    life = np.exp(rng.uniform(np.log(2), np.log(8_000), n))
    lower = rng.integers(0, 2 * n, n)
    size = np.exp(rng.uniform(np.log(256), np.log(1 << 24), n)).astype(np.int64)
    return Problem.of(lower, lower + np.maximum(1, life * 400 / life.mean()).astype(np.int64), size, 64)


def network(n: int) -> Problem:
    """Layers forward and backward: activations live from one to the other, temporaries briefly."""
    rng = np.random.default_rng(0)
    layers = max(4, n // 12)
    layer, kind = rng.integers(0, layers, n), rng.random(n)
    backward = (2 * layers - layer) * 8
    lower = np.where(kind > 0.6, backward, layer * 8) + rng.integers(0, 4, n)
    upper = np.where(kind < 0.25, backward + 8, lower + rng.integers(1, 24, n))
    sizes = 2 ** rng.integers(12, 26, 40) * rng.choice([1, 3, 5], 40)
    return Problem.of(lower, np.maximum(upper, lower + 1), sizes[(layer * 7 + (kind * 10).astype(int)) % 40], 64)


TABLES: dict[str, Callable[[Path, float | None], Iterator[str]]] = {
    "minimalloc": minimalloc,
    "traces": traces,
    "xla": xla,
    "scale": scale,
}

if __name__ == "__main__":
    main()
