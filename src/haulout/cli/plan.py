"""`haulout plan PROBLEM`: the storage allocator as a command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from haulout.cli.common import BYTES, INPUT, format_option, quiet_option
from haulout.cli.status import FOUND, emit, guarded, takes_stdout
from haulout.cli.summary import Summary
from haulout.packing import LIMIT, Pool, Problem, Progress, Solution, solve, violations
from haulout.packing.csvio import to_csv
from haulout.packing.readers import read_problem
from haulout.support.shown import format_bytes

if TYPE_CHECKING:
    from haulout.packing.csvio import Table

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class _PoolType(click.ParamType):  # type: ignore[type-arg]
    """NAME or NAME=SIZE, with the units K, M, G and T of 1,024."""

    name = "pool"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Pool:
        if isinstance(value, Pool):
            return value
        name, given, size = str(value).partition("=")
        found = re.fullmatch(r"(\d{1,19})([KMGT]?)(?:i?B)?", size, re.IGNORECASE | re.ASCII)
        if not name or (given and found is None):
            self.fail(f"{value!r} is not NAME or NAME=SIZE, as in SRAM=256K", param, ctx)
        limit = None if found is None else int(found[1]) << _UNITS[found[2].upper()]
        if limit is not None and limit > LIMIT:
            self.fail(f"{size} is more than 2**62 bytes", param, ctx)
        return Pool(name, limit)


@click.command()
@click.argument("problem", type=INPUT, metavar="PROBLEM")
@click.option("--capacity", type=BYTES, help="Limit of the placement in bytes.")
@click.option(
    "--pool",
    "pools",
    type=_PoolType(),
    multiple=True,
    metavar="NAME[=SIZE]",
    help="A memory, the fastest first, as in SRAM=256K. Repeatable; the last one takes what does not fit the others.",
)
@click.option("--segment", type=click.IntRange(1, LIMIT), metavar="N", help="No buffer may cross multiples of N.")
@click.option("--spread", is_flag=True, help="Use free bytes below the capacity to avoid reuse.")
@click.option("--effort", type=click.FloatRange(0, 1000), default=1.0, show_default=True, help="0: no search.")
@click.option("--time-limit", type=click.FloatRange(min=0), help="Seconds; the default is a limit on steps.")
@click.option(
    "--in-place",
    is_flag=True,
    help="Element-wise operators of a TensorFlow Lite model may write over an input; for kernels that allow it.",
)
@click.option("-o", "--output", metavar="FILE", help="Write the placement to this file; - is stdout.")
@click.option(
    "--output-format",
    type=click.Choice(["csv", "json", "header", "table", "tflite"]),
    help="Of -o: the problem with offsets as CSV, the default, JSON, a C header, or a table; tflite, the default for"
    " *.tflite: the model with an offline plan for the micro interpreter, if that makes its arena smaller.",
)
@format_option
@quiet_option
@guarded
def plan(
    problem: str,
    capacity: int | None,
    pools: tuple[Pool, ...],
    segment: int | None,
    spread: bool,
    effort: float,
    time_limit: float | None,
    in_place: bool,
    output: str | None,
    output_format: str | None,
    style: str,
    quiet: bool,
) -> int:
    """Place buffers with live ranges in few bytes.

    PROBLEM is a CSV file with the columns of MiniMalloc: id, lower, upper (or start, end), size, and optionally
    alignment, gaps, offset (pinned) and hint (start of the search); a dsa-problem document of version 1 (JSON) with
    pools and constraints; an ONNX model with known shapes (extra `onnx`); a TensorFlow Lite model (extra `tflite`);
    or the *buffer-assignment.txt that XLA writes with --xla_dump_to, with the *live-range.txt next to it. With a
    capacity the search ends at the first placement that fits. Ctrl-C keeps the best placement so far.
    """
    table = read_problem(problem, in_place=in_place)
    output_format = output_format or ("tflite" if output is not None and output.endswith(".tflite") else "csv")
    if output_format == "tflite" and (table.own_planner is None or pools):
        raise click.UsageError("an offline plan is for a TensorFlow Lite model and one pool")
    wanted = table.with_pins(segment or 0)
    err = takes_stdout(output)
    more: list[str] = []
    if pools:
        if capacity is not None or spread or time_limit is not None:
            raise click.UsageError("--pool is not combined with --capacity, --spread or --time-limit")
        wanted, solution, more = _in_pools(wanted, pools, effort)
    else:
        solution = solve(
            wanted,
            capacity=capacity,
            hint=table.hint,
            spread=spread,
            time_limit=time_limit,
            effort=effort,
            progress=None if quiet else _report,
        )
        if table.own_planner is not None:
            more.append(_against(*table.own_planner, solution))
        if table.costs and solution.fits:
            wanted, solution, lines = _with_costs(wanted, solution, table, capacity)
            more += lines
    if not solution.fits:
        from haulout.packing import over_capacity

        emit([over_capacity(wanted, solution, table.ids)], style, err=err, summary=_figures(wanted, solution))
        return FOUND
    if output is not None and output_format == "tflite":
        more.append(_write_model(problem, output, solution, table))
    elif output is not None:
        from haulout.support.files import write_text

        write_text(output, _placement(wanted, solution, table, output_format))
    emit([], style, err=err, summary=_figures(wanted, solution))
    if style == "text":
        click.echo("\n".join([_summary(wanted, solution, table), *more]), err=err)
    return 0


def _figures(problem: Problem, solution: Solution) -> Summary:
    return {
        "buffers": len(problem),
        "peak_bytes": solution.peak,
        "lower_bound_bytes": solution.lower_bound,
        "status": solution.status.value,
        "interrupted": solution.interrupted,
    }


def _in_pools(problem: Problem, pools: tuple[Pool, ...], effort: float) -> tuple[Problem, Solution, list[str]]:
    from haulout.packing.tiers import solve_tiers

    tiers = solve_tiers(problem, pools, effort=effort)
    wrong = violations(tiers.problem, tiers.solution.offset, pool=tiers.solution.pool, capacities=tiers.solution.fits)
    assert not wrong, f"the planner made a wrong placement: {wrong[0]}"
    lines = [
        f"pool {pool.name} keeps {int(part.kept.sum())} of {len(part.kept)} buffers,"
        f" {part.weight} of {part.total} bytes; at most {int(part.bound)} are possible"
        for pool, part in zip(pools, tiers.spills, strict=False)
    ]
    return tiers.problem, tiers.solution, lines


def _with_costs(
    problem: Problem, solution: Solution, table: Table, capacity: int | None
) -> tuple[Problem, Solution, list[str]]:
    """Lower the reuse cost below the capacities."""
    from dataclasses import replace

    from haulout.packing.penalties import reuse_cost, with_less_reuse

    if capacity is not None:
        pools = (replace(problem.rules.pools[0], capacity=capacity),)
        problem = replace(problem, rules=replace(problem.rules, pools=pools))
    before = reuse_cost(problem, solution, table.costs)
    solution = with_less_reuse(problem, solution, table.costs)
    return problem, solution, [f"reuse cost {reuse_cost(problem, solution, table.costs)}, before {before}"]


def _against(name: str, theirs: int, solution: Solution) -> str:
    """What another planner needs, and whether it could be improved."""
    line = f"{name}: peak {theirs} bytes"
    if solution.peak < theirs:
        return f"{line}, {theirs - solution.peak} more"
    if theirs <= solution.lower_bound:
        return f"{line}, already the smallest"
    return line if solution.capacity is not None else f"{line}; no smaller placement was found"


def _write_model(model: str, output: str, solution: Solution, table: Table) -> str:
    """Write a model with an offline plan if that makes the interpreter's arena smaller, else as it is."""
    from haulout.packing.tflite_model import with_offline_plan
    from haulout.support.files import read_bytes, write_bytes

    assert table.own_planner is not None
    if solution.peak >= table.own_planner[1]:
        write_bytes(output, read_bytes(Path(model)))
        return "the model was written as it is: a plan would not make its arena smaller"
    write_bytes(output, with_offline_plan(model, solution.offset))
    return "the model was written with an offline plan"


def _placement(problem: Problem, solution: Solution, table: Table, kind: str) -> str:
    """The contents of the output file."""
    if kind == "csv":
        pools = [pool.name for pool in problem.rules.pools]
        where = [pools[each] for each in solution.pool.tolist()] if len(pools) > 1 else None
        return to_csv(problem, solution.offset, table.ids, where)
    from haulout.packing import outputs

    write = {"json": outputs.to_json, "header": outputs.to_header, "table": outputs.to_table}[kind]
    return write(problem, solution, table.ids[: table.own])


def _summary(problem: Problem, solution: Solution, table: Table) -> str:
    count = len(problem) if table.own is None else table.own
    lines = [
        f"{count} buffers: peak {solution.peak} bytes ({format_bytes(solution.peak)}), {solution.status}",
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
