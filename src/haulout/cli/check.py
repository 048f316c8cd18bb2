"""`haulout check INPUT`: races, hangs and wrong addresses, found from the program alone."""

from __future__ import annotations

import click

from haulout import api
from haulout.cli.common import emit, exit_status, format_option, guarded
from haulout.support.diagnostics import Severity


@click.command()
@click.argument("source", metavar="INPUT")
@format_option
@guarded
def check(source: str, style: str) -> int:
    """Check a program, compiled or written by hand.

    Recomputes order, conflicts and storage from INPUT alone and reports what some schedule of the hardware can break.
    """
    program = api.load(source)
    findings = api.check(program)
    emit(findings, style)
    if style == "text":
        serious = sum(each.severity > Severity.NOTE for each in findings)
        click.echo(
            f"{program.name}: {program.lnc} cores, {len(program.instructions)} instructions: "
            + ("clean" if not serious else f"{serious} finding{'s' if serious > 1 else ''}")
        )
    return exit_status(findings)
