"""`haulout map INPUT`: a memory map as one offline HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from haulout import api
from haulout.cli.common import CORES
from haulout.cli.kernels import kernel_arguments, kernel_options
from haulout.cli.status import emit, exit_status, guarded, takes_stdout
from haulout.packing.csvio import read_csv
from haulout.report.memory_map import Drawing, Panel, draw_program, memory_map
from haulout.support.diagnostics import Diagnostic, bad_input
from haulout.support.files import write_text

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope


@click.command()
@click.argument("source", metavar="INPUT")
@click.option(
    "-o", "--output", default="memory.html", show_default=True, metavar="FILE", help="The page; - is stdout."
)
@click.option("--lnc", type=CORES, help="Number of cores of a kernel (default: 2).")
@kernel_options
@guarded
def map(
    source: str,
    output: str,
    lnc: int | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
) -> int:
    """Draw a memory map.

    Time against offset, of a compiled .bir program, of a CSV file with offsets as `haulout plan` writes it, or of an
    NKI kernel, FILE.py::FUNCTION with its arguments, which is compiled first with the default options.
    """
    arguments = kernel_arguments(source, arg, args_file)
    findings: list[Diagnostic] = []
    if Path(source).suffix == ".csv":
        page = memory_map(Path(source).stem, Drawing([_csv_panel(source)]))
    else:
        if api.is_kernel(source):
            compiled = api.compile(source, lnc=lnc, arguments=arguments, barrier_scope=barrier_scope)
            program, findings = compiled.program, compiled.diagnostics
        else:
            program = api.load(source, lnc=lnc)
        drawing = draw_program(program)
        if not drawing.panels:
            bad_input(f"{source} has no placed locations", help=["run haulout compile first"])
        page = memory_map(program.name, drawing)
    write_text(output, page)
    if not takes_stdout(output):
        click.echo(output)
    emit(findings, "text", err=True)
    return exit_status(findings)


def _csv_panel(source: str) -> Panel:
    table = read_csv(source)
    if table.offset is None or bool(np.any(table.offset < 0)):
        bad_input(f"{source}: not every buffer has an offset", help=["haulout plan writes offsets"])
    rows = table.problem
    return Panel(
        Path(source).stem,
        table.ids,
        rows.lower,
        rows.upper,
        rows.owner,
        table.offset,
        rows.size,
        np.zeros(len(table.ids), np.int64),
        ("buffer",),
    )
