"""`haulout plan PROBLEM`: the storage allocator as a command."""

from __future__ import annotations

import click

from haulout.cli.common import BYTES, format_option, quiet_option
from haulout.cli.status import FOUND, emit, guarded, takes_stdout
from haulout.ir.schema import SIZE_MAX
from haulout.packing import Problem, Progress, Solution, over_capacity, solve
from haulout.packing.csvio import to_csv
from haulout.packing.readers import read_problem
from haulout.support.files import write_text
from haulout.support.shown import format_bytes


@click.command()
@click.argument("problem", metavar="PROBLEM")
@click.option("--capacity", type=BYTES, help="Limit of the placement in bytes.")
@click.option("--segment", type=click.IntRange(1, SIZE_MAX), metavar="N", help="No buffer may cross multiples of N.")
@click.option("--spread", is_flag=True, help="Use free bytes below the capacity to avoid reuse.")
@click.option("--effort", type=click.FloatRange(0, 1000), default=1.0, show_default=True, help="0: no search.")
@click.option("--time-limit", type=click.FloatRange(min=0), help="Seconds; the default is a limit on steps.")
@click.option(
    "-o", "--output", metavar="FILE", help="Write the problem with its offsets to this CSV file; - is stdout."
)
@format_option
@quiet_option
@guarded
def plan(
    problem: str,
    capacity: int | None,
    segment: int | None,
    spread: bool,
    effort: float,
    time_limit: float | None,
    output: str | None,
    style: str,
    quiet: bool,
) -> int:
    """Place buffers with live ranges in few bytes.

    PROBLEM is a CSV file with the columns of MiniMalloc: id, lower, upper (or start, end), size, and
    optionally alignment, gaps, offset (pinned) and hint (start of the search); or the *buffer-assignment.txt that XLA
    writes with --xla_dump_to, with the *live-range.txt next to it. With a capacity the search ends at the first
    placement that fits. Ctrl-C keeps the best placement so far.
    """
    table = read_problem(problem)
    rows = table.problem
    wanted = Problem.of(
        rows.lower,
        rows.upper,
        rows.size,
        rows.alignment,
        pinned=table.offset,
        owner=rows.owner,
        segment=segment or 0,
        rules=rows.rules,
        window=None if rows.window_low is None else rows.windows,
    )
    solution = solve(
        wanted,
        capacity=capacity,
        hint=table.hint,
        spread=spread,
        time_limit=time_limit,
        effort=effort,
        progress=None if quiet else _report,
    )
    err = takes_stdout(output)
    if output is not None and solution.fits:
        write_text(output, to_csv(wanted, solution.offset, table.ids))
    if not solution.fits:
        emit([over_capacity(wanted, solution, table.ids)], style, err=err)
        return FOUND
    emit([], style, err=err)
    if style == "text":
        click.echo(_summary(wanted, solution), err=err)
    return 0


def _summary(problem: Problem, solution: Solution) -> str:
    lines = [
        f"{len(problem)} buffers: peak {solution.peak} bytes ({format_bytes(solution.peak)}), {solution.status}",
        f"lower bound {solution.lower_bound} bytes, ratio {solution.ratio:.6f}",
    ]
    if len(solution.pools) > 1:
        lines += [f"pool {use.name}: peak {use.peak} bytes, lower bound {use.lower_bound}" for use in solution.pools]
    if solution.in_place:
        lines.append(f"{len(solution.in_place)} outputs took over the storage of an input")
    if solution.reuse_pairs is not None:
        lines.append(f"{solution.reuse_pairs} pairs of buffers share bytes at different times")
    if solution.interrupted:
        lines.append("interrupted: the best placement found until then")
    return "\n".join(lines)


def _report(progress: Progress) -> None:
    ratio = progress.peak / progress.lower_bound if progress.lower_bound else 1.0
    click.echo(f"{progress.seconds:8.2f} s  {progress.method:<20} peak {progress.peak}  ratio {ratio:.6f}", err=True)
