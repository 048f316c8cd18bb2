"""`haulout plan PROBLEM.csv`: the allocator by itself."""

from __future__ import annotations

from pathlib import Path

import click

from haulout.cli.common import FOUND, emit, format_option, guarded, quiet_option
from haulout.passes.allocator import Problem, Progress, Solution, solve
from haulout.passes.allocator.csvio import read_csv, to_csv
from haulout.passes.allocator.overflow import over_capacity
from haulout.report.tables import format_bytes
from haulout.support.files import write_text


@click.command()
@click.argument("problem", metavar="PROBLEM.csv")
@click.option("--capacity", type=click.IntRange(min=0), help="Bytes that the placement may take.")
@click.option("--time-limit", type=click.FloatRange(min=0), help="Seconds; without it, counts bound the search.")
@click.option("-o", "--output", metavar="FILE", help="Write the problem with its offsets to this CSV file.")
@format_option
@quiet_option
@guarded
def plan(
    problem: str, capacity: int | None, time_limit: float | None, output: str | None, style: str, quiet: bool
) -> int:
    """Give buffers with live ranges offsets in as few bytes as can be found.

    PROBLEM.csv has the columns of MiniMalloc: id, lower, upper (or start, end), size, and perhaps alignment, gaps and
    offset (pinned). With a capacity the search ends at the first placement that fits. Ctrl-C keeps the best so far.
    """
    table = read_csv(problem)
    wanted = table.problem
    if table.offset is not None:
        rows = table.problem
        wanted = Problem.of(rows.lower, rows.upper, rows.size, rows.alignment, pinned=table.offset, owner=rows.owner)
    solution = solve(wanted, capacity=capacity, time_limit=time_limit, progress=None if quiet else _tell)
    if output is not None and solution.fits:
        write_text(Path(output), to_csv(wanted, solution.offset, table.ids))
    if not solution.fits:
        emit([over_capacity(wanted, solution)], style)
        return FOUND
    emit([], style)
    if style == "text":
        click.echo(_summary(wanted, solution))
    return 0


def _summary(problem: Problem, solution: Solution) -> str:
    lines = [
        f"{len(problem)} buffers: peak {solution.peak} bytes ({format_bytes(solution.peak)}), {solution.status}",
        f"lower bound {solution.lower_bound} bytes, ratio {solution.ratio:.6f}",
    ]
    if solution.interrupted:
        lines.append("interrupted: the best placement found until then")
    return "\n".join(lines)


def _tell(progress: Progress) -> None:
    ratio = progress.peak / progress.lower_bound if progress.lower_bound else 1.0
    click.echo(f"{progress.seconds:8.2f} s  {progress.method:<20} peak {progress.peak}  ratio {ratio:.6f}", err=True)
