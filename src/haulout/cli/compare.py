"""`haulout compare A B`: whether a program and the split one compute the same, and where they part."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from haulout import api
from haulout.cli.common import INPUT, format_option, plain_console
from haulout.cli.outputs import input_arrays, seed_option
from haulout.cli.status import emit, exit_status, guarded
from haulout.ir.values import load_values
from haulout.report.comparison import Comparison


@click.command()
@click.argument("first", type=INPUT, metavar="A")
@click.argument("second", type=INPUT, metavar="B")
@click.option(
    "--inputs",
    type=INPUT,
    metavar="FILE",
    help="All inputs of A (.npz): MODULE/LOCATION, or LOCATION for all cores; in/ before it is ignored.",
)
@seed_option
@click.option(
    "--split",
    multiple=True,
    metavar="NAME=DIM",
    help="The cores of B hold this input or result in tiles of dimension DIM, in their order. Repeatable.",
)
@click.option(
    "--rtol",
    type=click.FloatRange(min=0),
    metavar="FLOAT",
    help="Allowed difference of floats, relative to the largest magnitude of a result in A; the default is by "
    "element type, 1e-5 for f32.",
)
@click.option(
    "--atol",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="FLOAT",
    help="Allowed difference of floats besides.",
)
@click.option(
    "--max-instructions",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Limit on executed instructions of all cores together.",
)
@format_option
@guarded
def compare(
    first: str,
    second: str,
    inputs: str | None,
    seed: int,
    split: tuple[str, ...],
    rtol: float | None,
    atol: float,
    max_instructions: int,
    style: str,
) -> int:
    """Compare a program with the split one, on the same inputs.

    Says which results differ, on which cores, and the first operation that does.

    A is the program before the split, on one core, and B the split one: its inputs are cut as its shardings, --split,
    or the shapes say. Or both are for as many cores, before and after a pass. They are .hlo, .bir or .npz files.
    """
    values = None if inputs is None else input_arrays(load_values(Path(inputs)))
    found = api.compare(
        first,
        second,
        values,
        seed=seed,
        split=split,
        rtol=rtol,
        atol=atol,
        max_instructions=max_instructions,
    )
    emit(found.diagnostics, style)
    if style == "text":
        _print(found)
    return exit_status(found.diagnostics)


def _print(found: Comparison) -> None:
    table = Table(title_justify="left", title_style="bold", title="results")
    for heading in ("A", "B", "of each core", "cores", "max|a-b|", "limit"):
        table.add_column(heading, justify="right" if heading in ("max|a-b|", "limit") else "left")
    for each in found.outputs:
        wrong = [str(core) for core, difference in enumerate(each.cores) if difference.count]
        largest = max(difference.largest for difference in each.cores)
        limit = max(difference.limit for difference in each.cores)
        cores = f"{','.join(wrong)} differ" if wrong else "equal on all"
        table.add_row(each.a, each.b, each.layout, cores, f"{largest:.3g}", f"{limit:.3g}")
    plain_console().print(table)
    equal = sum(each.equal for each in found.outputs)
    click.echo(f"{equal} of {len(found.outputs)} results equal")
    if broken := sum(each.not_finite for each in found.outputs):
        click.echo(f"{broken:,} elements of the results of A are not finite; these count as equal if both have them")
