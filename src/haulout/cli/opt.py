"""`haulout opt INPUT --passes ...`: run passes and print the program, for work on passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from haulout import api
from haulout.cli.common import CORES, INPUT, pass_progress, quiet_option
from haulout.cli.kernels import kernel_arguments, kernel_options, load_input
from haulout.cli.status import emit, exit_status, guarded, takes_stdout
from haulout.ir.text import print_bir
from haulout.passes.base import Pass, PassContext
from haulout.passes.manager import PassManager, PassRecord
from haulout.passes.pipeline import REGISTRY, parse_pipeline, standard_pipeline
from haulout.passes.pipeline_text import find_pass, pipeline_of
from haulout.passes.plugins import more_passes
from haulout.support.files import read_start, write_text

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope

MAX_HEADER = 1 << 16
"""Bytes of a reproducer in which its pipeline is."""


@click.command()
@click.argument("source", type=INPUT, metavar="INPUT")
@click.option(
    "--passes",
    "text",
    help="NAME{OPTION=VALUE},... ; default: that of a reproducer, else the standard pipeline; empty: no pass.",
)
@click.option("--load", "files", multiple=True, metavar="FILE.py", help="Also take the passes of a file. Repeatable.")
@click.option(
    "--print-before",
    "before",
    multiple=True,
    metavar="NAME",
    help="Print the program to stderr before this pass. Repeatable.",
)
@click.option("--print-after", "after", multiple=True, metavar="NAME", help="Print it after this pass. Repeatable.")
@click.option("--print-before-all", is_flag=True, help="Print it before every pass.")
@click.option("--print-after-all", is_flag=True, help="Print it after every pass.")
@click.option("--print-after-changed", is_flag=True, help="Print it after every pass that changes it.")
@click.option(
    "--verify-each/--no-verify-each", default=True, show_default=True, help="Verify the program after each pass."
)
@click.option("--timing", is_flag=True, help="Print the time of each pass to stderr, the longest first.")
@click.option(
    "--reproducer",
    metavar="DIR",
    help="The folder for the program and the pipeline where a pass breaks; default: that of --output, else none.",
)
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
    files: tuple[str, ...],
    before: tuple[str, ...],
    after: tuple[str, ...],
    print_before_all: bool,
    print_after_all: bool,
    print_after_changed: bool,
    verify_each: bool,
    timing: bool,
    reproducer: str | None,
    lnc: int | None,
    output: str,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    quiet: bool,
) -> int:
    """Run passes on a program and print it as .bir text.

    INPUT is a .bir, .hlo or .npz file, or an NKI kernel, FILE.py::FUNCTION with its arguments. Findings go to stderr
    if the program goes to stdout. If a pass crashes or makes an unsound program, the program before it is written
    with the pipeline in its first line: `haulout opt` of that file runs the pass again.
    """
    more = more_passes(map(Path, files))
    if text is None and not api.is_kernel(source):
        text = pipeline_of(read_start(Path(source), MAX_HEADER).decode("utf-8-sig", "replace"))
    passes = standard_pipeline() if text is None else parse_pipeline(text, more)
    folder = reproducer if reproducer is not None else (None if output == "-" else str(Path(output).parent))
    manager = PassManager(
        passes,
        verify=verify_each,
        on_pass=pass_progress(quiet),
        print_before=_chosen(before, print_before_all, passes, more),
        print_after=_chosen(after, print_after_all, passes, more),
        print_changed=print_after_changed,
        show=lambda shown: click.echo(shown, err=True),
        reproducer=None if folder is None else Path(folder),
        loaded=[Path(file) for file in files],
    )
    context = PassContext()
    program, traced = load_input(source, lnc, kernel_arguments(source, arg, args_file), barrier_scope)
    context.diagnostics.extend(traced)
    program = manager.run(program, context)
    write_text(output, print_bir(program))
    emit(context.all_findings, "text", err=takes_stdout(output))
    if timing:
        _print_times(manager.records)
    return exit_status(context.all_findings)


def _chosen(
    names: Iterable[str], everything: bool, passes: Iterable[Pass], more: Mapping[str, type[Pass]]
) -> list[str]:
    """The passes around which the program is printed."""
    for name in names:
        find_pass(name, {**REGISTRY, **more})
    return [each.name for each in passes] if everything else list(names)


def _print_times(records: list[PassRecord]) -> None:
    total = sum(record.seconds for record in records)
    for record in sorted(records, key=lambda record: -record.seconds):
        share = record.seconds / total if total else 0.0
        click.echo(f"{record.seconds:10.4f} s {share:6.1%}  {record.name}", err=True)
    click.echo(f"{total:10.4f} s         all passes", err=True)
