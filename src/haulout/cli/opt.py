"""`haulout opt INPUT --passes ...`: run passes and print the program, for work on passes."""

from __future__ import annotations

import click

from haulout import api
from haulout.cli.common import CORES, pass_progress, quiet_option
from haulout.cli.status import emit, exit_status, guarded, takes_stdout
from haulout.ir.text import print_bir
from haulout.passes.base import PassContext
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import parse_pipeline, standard_pipeline
from haulout.support.files import write_text


@click.command()
@click.argument("source", metavar="INPUT")
@click.option("--passes", "text", help="NAME{OPTION=VALUE},... ; default: the standard pipeline; empty: no pass.")
@click.option("--print-after", multiple=True, metavar="NAME", help="Also print the program after this pass.")
@click.option("--lnc", type=CORES, help="Number of cores; a one-core program is cloned over them.")
@click.option(
    "-o", "--output", default="-", show_default=True, metavar="FILE", help="The file for the program; - is stdout."
)
@quiet_option
@guarded
def opt(
    source: str, text: str | None, print_after: tuple[str, ...], lnc: int | None, output: str, quiet: bool
) -> int:
    """Run passes on a program and print it as .bir text.

    Findings go to stderr if the program goes to stdout.
    """
    passes = standard_pipeline() if text is None else parse_pipeline(text)
    context = PassContext()
    manager = PassManager(passes, on_pass=pass_progress(quiet), print_after=print_after, show=click.echo)
    program = manager.run(api.load(source, lnc=lnc), context)
    write_text(output, print_bir(program))
    emit(context.all_findings, "text", err=takes_stdout(output))
    return exit_status(context.all_findings)
