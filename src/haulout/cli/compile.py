"""`haulout compile INPUT -o DIR`: one lifetime, one address, a proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from haulout import api
from haulout.cli.common import BYTES, CORES, format_option, log_option, pass_progress, plain_console, quiet_option
from haulout.cli.kernels import kernel_arguments, kernel_options
from haulout.cli.status import emit, exit_status, guarded
from haulout.ir.text import print_bir
from haulout.report.memory_map import memory_map, program_panels
from haulout.report.tables import core_table, summary_lines, verdict_lines
from haulout.support.diagnostics import bad_input
from haulout.support.files import STDOUT, write_files

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope
    from haulout.passes.coloring_allocator_dram_shared import Partitions
    from haulout.passes.pipeline import Fences, Sync


@click.command()
@click.argument("source", metavar="INPUT")
@click.option(
    "-o", "--output", default="out", show_default=True, help="Folder for program.bir, report.json and memory.html."
)
@click.option(
    "--fences",
    type=click.Choice(["bracket", "minimal"]),
    default="minimal",
    show_default=True,
    help="The reference's brackets, or the fewest fences that order every conflict.",
)
@click.option("--capacity", type=BYTES, help="Bytes of DRAM for all cores together.")
@click.option(
    "--partitions",
    type=click.Choice(["proportional", "equal", "joint"]),
    default="proportional",
    show_default=True,
    help="Each core its own part of DRAM, as large as it needs or all alike, or one space for all.",
)
@click.option(
    "--target",
    default="generic",
    show_default=True,
    metavar="NAME|FILE.toml",
    help="The machine that run times are estimated for: generic, trainium, or a description of your own.",
)
@click.option(
    "--sync",
    type=click.Choice(["edges", "semaphores", "all"]),
    default="edges",
    show_default=True,
    help="Leave order as dependences and barriers, or make the dependences semaphores, or all of it.",
)
@click.option("--lnc", type=CORES, help="Number of cores; a one-core program is cloned over them.")
@kernel_options
@format_option
@quiet_option
@log_option
@guarded
def compile(
    source: str,
    output: str,
    fences: Fences,
    capacity: int | None,
    partitions: Partitions,
    target: str,
    sync: Sync,
    lnc: int | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    style: str,
    quiet: bool,
) -> int:
    """Compile a program for several cores.

    INPUT is a .bir file, a .npz store, the .hlo text of a JAX/XLA module after SPMD partitioning, or an NKI kernel,
    FILE.py::FUNCTION with its arguments. Collectives become copies through shared DRAM, every shared tensor gets one
    lifetime and one address, fences are placed, and the independent checker proves the result. Writes program.bir,
    report.json and memory.html.
    """
    if output == STDOUT:
        bad_input("stdout cannot take the three files of compile", help=["name a folder; ./- is one of that name"])
    folder = Path(output)
    result = api.compile(
        source,
        fences=fences,
        capacity=capacity,
        partitions=partitions,
        target=target,
        sync=sync,
        lnc=lnc,
        arguments=kernel_arguments(arg, args_file),
        barrier_scope=barrier_scope,
        on_pass=pass_progress(quiet),
        reproducer=folder,
    )
    files = {
        "program.bir": print_bir(result.program),
        "report.json": result.report.to_json(),
        "memory.html": memory_map(result.program.name, program_panels(result.program)),
    }
    write_files({folder / name: text.encode() for name, text in files.items()})
    emit(result.diagnostics, style)
    if style == "text":
        console = plain_console()
        console.print(core_table(result.report))
        for line in [*summary_lines(result.report), *verdict_lines(result.report)]:
            console.print(line, soft_wrap=True)
    return exit_status(result.diagnostics)
