"""`haulout opt INPUT --passes ...`: run passes and print the program, for work on passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from haulout.cli.common import CORES, pass_progress, quiet_option
from haulout.cli.kernels import kernel_arguments, kernel_options, load_input
from haulout.cli.status import emit, exit_status, guarded, takes_stdout
from haulout.ir.text import print_bir
from haulout.passes.base import PassContext
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import parse_pipeline, standard_pipeline
from haulout.support.files import write_text

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope


@click.command()
@click.argument("source", metavar="INPUT")
@click.option("--passes", "text", help="NAME{OPTION=VALUE},... ; default: the standard pipeline; empty: no pass.")
@click.option("--print-after", multiple=True, metavar="NAME", help="Also print the program after this pass.")
@click.option("--lnc", type=CORES, help="Number of cores; a one-core program is cloned over them.")
@click.option(
    "-o", "--output", default="-", show_default=True, metavar="FILE", help="The file for the program; - is stdout."
)
@kernel_options
@quiet_option
@guarded
def opt(
    source: str,
    text: str | None,
    print_after: tuple[str, ...],
    lnc: int | None,
    output: str,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    quiet: bool,
) -> int:
    """Run passes on a program and print it as .bir text.

    INPUT is a .bir, .hlo or .npz file, or an NKI kernel, FILE.py::FUNCTION with its arguments. Findings go
    to stderr if the program goes to stdout.
    """
    passes = standard_pipeline() if text is None else parse_pipeline(text)
    context = PassContext()
    manager = PassManager(passes, on_pass=pass_progress(quiet), print_after=print_after, show=click.echo)
    program, traced = load_input(source, lnc, kernel_arguments(source, arg, args_file), barrier_scope)
    context.diagnostics.extend(traced)
    program = manager.run(program, context)
    write_text(output, print_bir(program))
    emit(context.all_findings, "text", err=takes_stdout(output))
    return exit_status(context.all_findings)
