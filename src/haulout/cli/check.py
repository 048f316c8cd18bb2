"""`haulout check INPUT`: find races, deadlocks and wrong addresses in a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from haulout import api
from haulout.cli.common import CORES, cores_option, format_option, quiet_option
from haulout.cli.kernels import kernel_arguments, kernel_options
from haulout.cli.status import emit, exit_status, guarded
from haulout.support.diagnostics import Severity

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope


@click.command()
@click.argument("source", metavar="INPUT")
@click.option("--lnc", type=CORES, help="Number of cores; the default of a kernel is 2.")
@cores_option
@kernel_options
@format_option
@quiet_option
@guarded
def check(
    source: str,
    lnc: int | None,
    cores: int | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    style: str,
    quiet: bool,
) -> int:
    """Check a program, compiled or written by hand.

    Computes order, conflicts and storage from INPUT alone, and reports faults that some hardware schedule can show.
    INPUT is a .bir, .hlo or .npz file, or an NKI kernel, FILE.py::FUNCTION with its arguments.
    """
    arguments = kernel_arguments(arg, args_file)
    checked = api.check_source(source, lnc=lnc, arguments=arguments, barrier_scope=barrier_scope, cores=cores)
    emit(checked.diagnostics, style)
    if style == "text" and checked.program is not None:
        program = checked.program
        serious = sum(each.severity > Severity.NOTE for each in checked.diagnostics)
        click.echo(
            f"{program.name}: {program.lnc} cores, {len(program.instructions)} instructions: "
            + ("clean" if not serious else f"{serious} finding{'s' if serious > 1 else ''}")
        )
    return exit_status(checked.diagnostics)
