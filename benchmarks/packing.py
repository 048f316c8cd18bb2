"""The tables of the planner: peak over lower bound, and seconds, on public instances and generated ones.

    python benchmarks/packing.py --data DIR [--table minimalloc traces xla ablation scale growth] [--peers SECONDS]

DIR holds minimalloc/*.csv (the capacity is in the file's name), idealloc/**/*.csv and xla/*.csv. Every placement is
checked by the validator within `solve`. Kernels are compiled before anything is timed; seconds are those of the
processor, one thread, so that other work on the machine does not count. Peers that are installed run
beside ours, on one thread each, with a limit of --peers seconds a problem (`packing_peers.py`).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from packing_peers import AVAILABLE, Peer

from haulout.packing import Problem, Progress, Solution, solve
from haulout.packing.capacity_search import MAX_ROWS, CapacitySearch
from haulout.packing.construct import construct
from haulout.packing.csvio import read_csv
from haulout.packing.descend import descend, descend_by_fixed_targets
from haulout.packing.incumbent import Incumbent
from haulout.packing.instance import canonical
from haulout.packing.squeaky_wheel import squeaky_wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--table", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--peers", type=float, default=10.0, metavar="SECONDS")
    arguments = parser.parse_args()
    warm_up()
    for name in arguments.table:
        print(f"\n## {name}\n")
        for line in TABLES[name](arguments.data, arguments.peers):
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
    start = time.process_time()

    def note(_: Progress) -> None:
        nonlocal found
        found = time.process_time() - start

    solution = solve(problem, progress=note, **options)  # type: ignore[arg-type]
    return solution, time.process_time() - start, found


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head(*names: str) -> str:
    return row(*names) + "\n" + "|" + "---|" * len(names)


def peer(run: Peer, problem: Problem, capacity: int | None, limit: float) -> str:
    """Ratio and seconds of another planner; with a capacity, whether it fits."""
    start = time.process_time()
    end = run(problem, capacity, limit)
    seconds = time.process_time() - start
    if end is None:
        return f"none, {seconds:.2f} s"
    if capacity is not None:
        return f"{'fits' if end <= capacity else 'too large'}, {seconds:.2f} s"
    instance = canonical(problem)
    return f"{end / (instance.bound * instance.unit):.4f}, {seconds:.2f} s"


def minimalloc(data: Path, limit: float) -> Iterator[str]:
    """Each instance with its capacity and without; the peers with neither more nor less to know."""
    exact = {name: run for name, run in AVAILABLE.items() if name == "CP-SAT"}
    quick = {name: run for name, run in AVAILABLE.items() if name != "CP-SAT"}
    ours = ("ours with capacity, s", *(f"{name} with capacity" for name in exact))
    free = ("ours in 1 s", "ours by counts", *quick)
    yield head("instance", "n", *ours, *free)
    total = 0.0
    for path in sorted((data / "minimalloc").glob("*.csv")):
        problem, capacity = read_csv(path).problem, int(path.stem.split(".")[1])
        fit, seconds, _ = timed(problem, capacity=capacity)
        total += seconds
        second, _, _ = timed(problem, time_limit=1.0)
        counts, whole, _ = timed(problem)
        yield row(
            path.stem.split(".")[0],
            len(problem),
            f"{seconds:.3f}" if fit.fits else fit.status,
            *(peer(run, problem, capacity, limit) for run in exact.values()),
            f"{second.ratio:.4f}",
            f"{counts.ratio:.4f}, {whole:.2f} s",
            *(peer(run, problem, None, limit) for run in quick.values()),
        )
    yield f"\nours with capacity, all: {total:.2f} s"


def traces(data: Path, limit: float) -> Iterator[str]:
    """The traces of idealloc's repository."""
    yield head("trace", "n", "XLA best fit", "first placement", "ours", "method", "found after s", "seconds")
    for path in sorted((data / "idealloc").rglob("*.csv")):
        problem = read_csv(path).problem
        theirs = peer(AVAILABLE["XLA best fit"], problem, None, limit)
        first, soon, _ = timed(problem, time_limit=0.0)
        ours, seconds, found = timed(problem)
        yield row(
            path.stem, len(problem), theirs, f"{first.ratio:.4f}, {soon:.2f} s", f"{ours.ratio:.5f}", ours.method,
            f"{found:.2f}", f"{seconds:.2f}",
        )  # fmt: skip


def xla(data: Path, limit: float) -> Iterator[str]:
    """XLA's own problems: how many at the bound, and the worst."""
    ours, theirs, seconds = [], [], 0.0
    for path in sorted((data / "xla").glob("*.csv")):
        problem = read_csv(path).problem
        solution, spent, _ = timed(problem)
        seconds += spent
        ours.append(solution.ratio)
        theirs.append((AVAILABLE["XLA best fit"](problem, None, limit) or 0) / max(solution.lower_bound, 1))
    yield head("planner", "problems", "at the bound", "worst", "geometric mean")
    for name, ratios in (("ours", ours), ("XLA best fit", theirs)):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield row(name, len(ratios), sum(r == 1.0 for r in ratios), f"{max(ratios):.5f}", f"{mean:.5f}")
    yield f"\nours, all: {seconds:.2f} s"


def ablation(data: Path, limit: float) -> Iterator[str]:
    """What each stage adds, without capacity: ratio and seconds of the stages up to it."""
    yield head(
        "problem", "n", "dives and fits", "and squeaky wheel", "and branch and bound", "branch and bound alone"
    )
    paths = [*sorted((data / "minimalloc").glob("*.csv")), *sorted((data / "idealloc").rglob("*.csv"))]
    for path in paths:
        problem = read_csv(path).problem
        instance = canonical(problem)
        cells = []
        state = Incumbent(instance, instance.bound, instance.bound)
        for stage in (construct, lambda s: squeaky_wheel(s, min(480, 2_000_000 // len(s.instance))), exact):
            start = time.process_time()
            if not (state.offset is not None and state.over):
                stage(state)
            cells.append(f"{state.peak / instance.bound:.4f}, {time.process_time() - start:.2f} s")
        alone = Incumbent(instance, instance.bound, instance.bound)
        alone.offer(np.cumsum(instance.size) - instance.size, int(instance.size.sum()), "one behind the other")
        start = time.process_time()
        if (instance.alignment == 1).all():
            exact(alone)
        cells.append(f"{alone.peak / instance.bound:.4f}, {time.process_time() - start:.2f} s")
        yield row(path.stem.split(".")[0], len(problem), *cells)


def exact(state: Incumbent) -> None:
    """Branch and bound downwards, with the usual budget."""
    cost = len(state.instance) + state.instance.columns
    if len(state.instance) <= MAX_ROWS:
        search, steps = CapacitySearch(state), 80_000_000 // cost
        descend(state, search, steps // 2, steps)
        descend_by_fixed_targets(state, search, steps, steps)


def scale(data: Path, limit: float) -> Iterator[str]:
    """Growth from a thousand to a million buffers."""
    yield head("kind", "n", "first placement", "by counts")
    for kind, make in (("network", network), ("random", scattered)):
        for n in (1_000, 10_000, 100_000, 1_000_000):
            problem = make(n)
            first, soon, _ = timed(problem, time_limit=0.0)
            solution, seconds, _ = timed(problem)
            yield row(kind, n, f"{first.ratio:.4f}, {soon:.2f} s", f"{solution.ratio:.4f}, {seconds:.2f} s")


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


def growth(data: Path, limit: float) -> Iterator[str]:
    """Seconds by number of buffers, with the effort of a compile: no size takes less than a smaller one."""
    sizes = (12_500, 25_000, 50_000, 100_000, 200_000, 400_000)
    yield head("kind", *(f"{n:,}" for n in sizes))
    for kind, make in (("network", network), ("random", scattered)):
        yield row(kind, *(f"{solution.ratio:.4f}, {spent:.2f} s" for solution, spent, _ in _grown(make, sizes)))


def _grown(make: Callable[[int], Problem], sizes: tuple[int, ...]) -> Iterator[tuple[Solution, float, float]]:
    for n in sizes:
        yield timed(make(n), effort=0.1)


TABLES: dict[str, Callable[[Path, float], Iterator[str]]] = {
    "minimalloc": minimalloc,
    "traces": traces,
    "xla": xla,
    "ablation": ablation,
    "scale": scale,
    "growth": growth,
}

if __name__ == "__main__":
    main()
