"""`haulout check INPUT`: find races, deadlocks and wrong addresses in a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from haulout import api
from haulout.cli.common import CORES, format_option, quiet_option
from haulout.cli.kernels import kernel_arguments, kernel_options
from haulout.cli.status import emit, exit_status, guarded
from haulout.support.diagnostics import Severity
from haulout.support.formats import LINES

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope


@click.command()
@click.argument("source", metavar="INPUT")
@click.option("--lnc", type=CORES, help="Number of cores; the default of a kernel is 2.")
@kernel_options
@click.option(
    "--target",
    type=click.Choice(["gen2", "gen3", "gen4"]),
    default="gen3",
    show_default=True,
    help="Of a kernel: the generation whose rules of the hardware are checked.",
)
@click.option("--fix", is_flag=True, help="Of a task graph: list few edges that order all races, checked again.")
@format_option
@quiet_option
@guarded
def check(
    source: str,
    lnc: int | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    target: str,
    fix: bool,
    style: str,
    quiet: bool,
) -> int:
    """Check a program, compiled or written by hand.

    Computes order, conflicts and storage from INPUT alone, and reports faults that some hardware schedule can show.
    INPUT is a .bir, .hlo or .npz file, an NKI kernel, FILE.py::FUNCTION with its arguments, or a task graph, a JSON
    object with tasks.
    """
    arguments = kernel_arguments(source, arg, args_file)
    checked = api.check_source(
        source, lnc=lnc, arguments=arguments, barrier_scope=barrier_scope, target=target, fix=fix
    )
    shown = checked.diagnostics if style in LINES else [*checked.diagnostics, *checked.suppressed]
    emit(shown, style)
    if style == "text" and checked.program is not None:
        program = checked.program
        click.echo(
            f"{program.name}: {program.lnc} cores, {len(program.instructions)} instructions: {_summary(checked)}"
        )
    if style == "text" and checked.tasks is not None:
        tasks, graph = checked.tasks, checked.tasks.graph
        click.echo(
            f"{graph.name}: {len(graph.tasks)} tasks, {len(graph.source)} edges, {tasks.needed} pairs that need an "
            f"order: {_summary(checked)}"
        )
    return exit_status(checked.diagnostics)


def _summary(checked: api.CheckResult) -> str:
    """`clean`, `1 finding`, or `1 finding, 2 suppressed`."""
    serious = sum(each.severity > Severity.NOTE for each in checked.diagnostics)
    if not serious and not checked.suppressed:
        return "clean"
    suppressed = f", {len(checked.suppressed)} suppressed" if checked.suppressed else ""
    return f"{serious} finding{'s' if serious != 1 else ''}{suppressed}"
