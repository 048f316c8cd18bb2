"""Many problems in one call: one process, the cores of one machine, or a cluster.

problems    -> batches    at most 1,000, so that sending them costs little
batch       -> rows       by the loop of this process, a local scheduler of Dask, or the workers of a client
rows        -> result     in the order of the input

A row depends on its problem and the options alone, so every way gives equal rows, unless there is a time limit. Dask
(extra `dask`) is imported only if it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from haulout.packing.csvio import Table
from haulout.packing.plan import solve, with_capacity
from haulout.packing.problem import Problem
from haulout.packing.readers import read_problem
from haulout.packing.rules import check_bytes
from haulout.packing.single import Budget
from haulout.packing.solution import Solution
from haulout.support.diagnostics import Diagnostic, HauloutError, bad_input

if TYPE_CHECKING:
    from distributed import Client

_MAX_BATCHES = 1_000
"""Dask takes about a millisecond for a task, and a bar has no more steps than that."""


@dataclass(frozen=True, slots=True, eq=False)
class SweepRow:
    """The result for one problem.

    `name`: the path, or `problem N` with its position from 0. `ids`: the names of the buffers in the file, else
    empty. `solution`: None if the problem cannot be read or is not valid; `diagnostics` then tell why. A solution
    may be above the capacity: `solution.fits`.
    """

    name: str
    ids: tuple[str, ...] = ()
    solution: Solution | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class _Options:
    capacity: int | None
    effort: float
    time_limit: float | None
    spread: bool


_Item = tuple[str, "str | Problem"]  # the name of the row, and a path or a problem
_Advance = Callable[[int], None]


def sweep(
    problems: str | Path | Iterable[str | Path | Problem],
    *,
    scheduler: Literal["threads", "processes"] | None = None,
    client: Client | None = None,
    progress: bool = True,
    capacity: int | None = None,
    effort: float = 1.0,
    time_limit: float | None = None,
    spread: bool = False,
) -> list[SweepRow]:
    """Solve every problem of a folder or a list; one row each, in that order.

    `problems`: a folder, which stands for the files in it and in its folders, sorted by path, without those whose
    path has a part that begins with a dot; or paths and `Problem`s. A file is read and solved as by `haulout plan`:
    `offset` are pins, reuse penalties are lowered. A problem that cannot be read or solved has its diagnostics in its
    row; the others are solved.

    One process solves one problem after the other, unless `scheduler` names one of Dask's for one machine, or
    `client` is a `distributed.Client`; its workers read the files. `progress`: a bar on stderr, if that is a
    terminal. `capacity` (bytes), `effort`, `time_limit` (seconds a problem) and `spread` are those of `solve`.

    Raises `HauloutError` (`bad-input`) for arguments that no problem could be solved with, a folder that cannot be
    read, or Dask if it is not installed; KeyboardInterrupt on Ctrl-C.
    """
    check_bytes("capacity", capacity)
    Budget(time_limit, effort).check()
    if scheduler not in (None, "threads", "processes"):
        bad_input(f"`scheduler` is {scheduler!r}, expected None, 'threads' or 'processes'")
    if scheduler is not None and client is not None:
        bad_input("`scheduler` and `client` exclude each other: a client has its own scheduler")
    items = _items(problems)
    options = _Options(capacity, effort, time_limit, spread)
    length = max(1, -(-len(items) // _MAX_BATCHES))
    batches = [items[at : at + length] for at in range(0, len(items), length)]
    with _bar(len(items), progress) as advance:
        if client is not None:
            found = _on_workers(batches, options, client, advance)
        elif scheduler is not None:
            found = _on_this_machine(batches, options, scheduler, advance)
        else:
            found = []
            for batch in batches:
                found.append(_solve_batch(batch, options))
                advance(len(batch))
    return [row for batch_rows in found for row in batch_rows]


def _items(problems: str | Path | Iterable[str | Path | Problem]) -> list[_Item]:
    if isinstance(problems, str | Path):
        problems = _files(Path(problems))
    found: list[_Item] = []
    for at, each in enumerate(problems):
        if isinstance(each, Problem):
            found.append((f"problem {at}", each))
        elif isinstance(each, str | Path):
            found.append((str(each), str(each)))
        else:
            bad_input(f"problem {at} is of type {type(each).__name__}, expected a path or a Problem")
    return found


def _files(folder: Path) -> list[Path]:
    """The files of a folder and its folders, without hidden ones."""

    def refuse(error: OSError) -> None:
        bad_input(f"cannot read the folder {error.filename}: {error.strerror}")

    found: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place, name) for name in names if not name.startswith(".")]
    return sorted(found)


def _solve_batch(batch: Sequence[_Item], options: _Options) -> list[SweepRow]:
    return [_solve_one(name, given, options) for name, given in batch]


def _solve_one(name: str, given: str | Problem, options: _Options) -> SweepRow:
    try:
        table = Table(given, ()) if isinstance(given, Problem) else read_problem(given)
        solution = _solve_table(table, options)
    except HauloutError as error:
        return SweepRow(name, diagnostics=error.diagnostics)
    if solution.interrupted:  # `solve` ends early and well; the sweep ends
        raise KeyboardInterrupt
    return SweepRow(name, table.ids, solution)


def _solve_table(table: Table, options: _Options) -> Solution:
    problem = table.with_pins()
    if options.capacity is not None:
        problem = with_capacity(problem, options.capacity)
    solution = solve(
        problem, hint=table.hint, spread=options.spread, time_limit=options.time_limit, effort=options.effort
    )
    if table.costs and solution.fits and not solution.interrupted:
        from haulout.packing.penalties import with_less_reuse

        solution = with_less_reuse(problem, solution, table.costs)
    return solution


def _on_this_machine(
    batches: list[list[_Item]], options: _Options, scheduler: str, advance: _Advance
) -> list[list[SweepRow]]:
    try:
        import dask
        from dask.callbacks import Callback
    except ImportError:
        _dask_is_missing()
    sizes = {f"haulout-sweep-{at}": len(batch) for at, batch in enumerate(batches)}
    task = dask.delayed(_solve_batch, pure=False)
    tasks = [task(batch, options, dask_key_name=key) for key, batch in zip(sizes, batches, strict=True)]
    with Callback(posttask=lambda key, *_: advance(sizes.get(key, 0))):
        return list(dask.compute(*tasks, scheduler=scheduler))


def _on_workers(
    batches: list[list[_Item]], options: _Options, client: Client, advance: _Advance
) -> list[list[SweepRow]]:
    try:
        from distributed import as_completed
    except ImportError:
        _dask_is_missing()
    futures = client.map(_solve_batch, batches, options=options, pure=False)
    place = {future.key: at for at, future in enumerate(futures)}
    found: list[list[SweepRow]] = [[] for _ in batches]
    try:
        for future, rows in as_completed(futures, with_results=True):
            found[place[future.key]] = rows
            advance(len(rows))
    except BaseException:  # the workers need not finish what nobody waits for
        client.cancel(futures)
        raise
    return found


def _dask_is_missing() -> NoReturn:
    bad_input("a sweep with a scheduler or a client needs the package dask: pip install 'haulout[dask]'")


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[_Advance]:
    if not wanted:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("problems", total=total)
        yield lambda count: bar.advance(task, count)
