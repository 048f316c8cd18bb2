"""`haulout compile INPUT -o DIR`: compile a program and prove the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from haulout import api
from haulout.cli.common import (
    BYTES,
    CORES,
    INPUT,
    cores_option,
    format_option,
    log_option,
    pass_progress,
    plain_console,
    print_table,
    quiet_option,
    split_option,
    target_option,
)
from haulout.cli.kernels import kernel_arguments, kernel_options
from haulout.cli.status import emit, exit_status, guarded
from haulout.cli.summary import Summary
from haulout.ir.text import print_bir
from haulout.ir.text.columns import with_columns
from haulout.report.memory_map import draw_program, memory_map
from haulout.report.tables import core_table, origin_lines, peak_table, share_table, summary_lines, verdict_lines
from haulout.report.timeline import estimated_trace
from haulout.support.diagnostics import bad_input
from haulout.support.files import STDOUT, write_files
from haulout.target import load_target

if TYPE_CHECKING:
    from haulout.frontends.hlo import Fuse
    from haulout.frontends.nki import BarrierScope
    from haulout.passes.coloring_allocator_dram_shared import Partitions
    from haulout.passes.pipeline import Fences, Share, Sync


@click.command()
@click.argument("source", type=INPUT, metavar="INPUT")
@click.option(
    "-o", "--output", default="out", show_default=True, help="Folder for program.bir, report.json and memory.html."
)
@click.option(
    "-O",
    "--level",
    type=click.IntRange(0, 3),
    default=2,
    show_default=True,
    help="-O0 compiles fastest and shares nothing, -O3 takes most effort; --share, --fuse and --partitions override.",
)
@click.option(
    "--fences",
    type=click.Choice(["bracket", "minimal"]),
    default="minimal",
    show_default=True,
    help="The brackets of the reference compiler, or the fewest fences that order every conflict.",
)
@click.option("--capacity", type=BYTES, help="Bytes of DRAM for all cores together.")
@click.option(
    "--partitions",
    type=click.Choice(["smallest", "proportional", "equal", "joint"]),
    help="A part of DRAM for each core, by its needs or of equal size; one space for all cores; or the smallest of "
    "these. Default: by -O.",
)
@click.option(
    "--share",
    type=click.Choice(["none", "inputs", "uniform", "all"]),
    help="Share nothing but staging buffers, also equal inputs and constants, also all other equal values, or also "
    "operands of collectives. Default: by -O.",
)
@split_option
@click.option("--compare-share", is_flag=True, help="Also compile with every other value of --share, and compare.")
@target_option
@click.option(
    "--sync",
    type=click.Choice(["edges", "semaphores", "all"]),
    default="edges",
    show_default=True,
    help="Keep dependences and barriers, or lower dependences to semaphores, or lower all.",
)
@click.option(
    "--fuse",
    type=click.Choice(["none", "all"]),
    help="Of HLO text: make one instruction of element-wise operations where that saves storage. Default: by -O.",
)
@click.option("--lnc", type=CORES, help="Number of cores; a one-core program is cloned over them.")
@cores_option
@click.option(
    "--replicated",
    multiple=True,
    metavar="NAME",
    help="A parameter of an .hlo file for which all cores get equal bytes. Repeatable.",
)
@click.option(
    "--trace", metavar="FILE", help="Write the estimated timeline (.json), for Perfetto or chrome://tracing."
)
@kernel_options
@format_option
@quiet_option
@log_option
@guarded
def compile(
    source: str,
    output: str,
    level: int,
    fences: Fences,
    capacity: int | None,
    partitions: Partitions | None,
    share: Share | None,
    split: tuple[str, ...],
    compare_share: bool,
    target: str,
    sync: Sync,
    fuse: Fuse | None,
    lnc: int | None,
    cores: int | None,
    replicated: tuple[str, ...],
    trace: str | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    style: str,
    quiet: bool,
) -> int:
    """Compile a program for several cores.

    INPUT is a .bir file, a .npz store, the HLO text of a JAX/XLA module after SPMD partitioning, or an NKI kernel,
    FILE.py::FUNCTION with its arguments. Lowers collectives to copies through shared DRAM, gives every shared tensor
    one lifetime and one address, places fences, and proves the result with the independent checker. Writes
    program.bir, report.json and memory.html.
    """
    if output == STDOUT:
        bad_input("compile writes three files, not stdout", help=["name a folder; ./- is a folder named -"])
    folder = Path(output)
    result = api.compile(
        source,
        level=level,
        fences=fences,
        capacity=capacity,
        partitions=partitions,
        share=share,
        split=split,
        compare_share=compare_share,
        target=target,
        sync=sync,
        fuse=fuse,
        lnc=lnc,
        replicated=replicated,
        cores=cores,
        arguments=kernel_arguments(source, arg, args_file),
        barrier_scope=barrier_scope,
        on_pass=pass_progress(quiet),
        reproducer=folder,
    )
    files = {
        "program.bir": print_bir(result.program),
        "report.json": result.report.to_json(),
        "memory.html": memory_map(result.program.name, draw_program(result.program)),
    }
    paths = {folder / name: text.encode() for name, text in files.items()}
    if trace is not None:
        paths[Path(trace)] = estimated_trace(result.program, load_target(target)).encode()
    write_files(paths)
    findings = with_columns(result.diagnostics, result.program)
    emit(findings, style, summary=_summary(result))
    if style == "text":
        console = plain_console()
        print_table(console, core_table(result.report))
        if result.report.sharing.levels:
            print_table(console, share_table(result.report.sharing.levels))
        if (arrays := peak_table(result.report)) is not None:
            print_table(console, arrays)
        for line in [*summary_lines(result.report), *origin_lines(result.report), *verdict_lines(result.report)]:
            console.print(line, soft_wrap=True)
    return exit_status(result.diagnostics)


def _summary(result: api.CompileResult) -> Summary:
    report = result.report
    return {
        "outcome": {"proved": result.proved, "not_proved": report.not_proved},
        "program": report.program,
        "cores": report.lnc,
        "instructions": report.instructions,
        "peak_bytes": report.total_peak_bytes,
        "lower_bound_bytes": report.total_lower_bound_bytes,
        "fences": report.barriers,
        "makespan_us": report.estimated_makespan_us,
    }
