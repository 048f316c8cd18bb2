"""`haulout map INPUT`: a memory map as one offline HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from haulout import api
from haulout.cli.common import CORES, INPUT, format_option
from haulout.cli.kernels import kernel_arguments, kernel_options
from haulout.cli.status import emit, exit_status, guarded, takes_stdout
from haulout.cli.summary import Summary
from haulout.packing.csvio import is_table, read_csv
from haulout.report.memory_map import Drawing, Panel, draw_program, memory_map
from haulout.support.diagnostics import Diagnostic, bad_input
from haulout.support.files import write_text
from haulout.support.formats import LINES

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope


@click.command()
@click.argument("source", type=INPUT, metavar="INPUT")
@click.option(
    "-o", "--output", default="memory.html", show_default=True, metavar="FILE", help="The page; - is stdout."
)
@click.option("--lnc", type=CORES, help="Number of cores of a kernel (default: 2).")
@kernel_options
@format_option
@guarded
def map(
    source: str,
    output: str,
    lnc: int | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    style: str,
) -> int:
    """Draw a memory map.

    Time against offset, of a compiled .bir program, of a CSV file with offsets as `haulout plan` writes it, or of an
    NKI kernel, FILE.py::FUNCTION with its arguments, which is compiled first with the default options.
    """
    arguments = kernel_arguments(source, arg, args_file)
    findings: list[Diagnostic] = []
    summary: Summary = {"page": output}
    if is_table(source):
        panel = _csv_panel(source)
        summary |= {"buffers": len(panel.size), "peak_bytes": int((panel.offset + panel.size).max(initial=0))}
        page = memory_map(Path(source).stem, Drawing([panel]))
    else:
        if api.is_kernel(source):
            compiled = api.compile(source, lnc=lnc, arguments=arguments, barrier_scope=barrier_scope)
            program, findings = compiled.program, compiled.diagnostics
            summary["outcome"] = {"proved": compiled.proved, "not_proved": compiled.report.not_proved}
        else:
            program = api.load(source, lnc=lnc)
        drawing = draw_program(program)
        if not drawing.panels:
            bad_input(f"{source} has no placed locations", help=["run haulout compile first"])
        summary |= {"program": program.name, "cores": program.lnc, "instructions": len(program.instructions)}
        page = memory_map(program.name, drawing)
    write_text(output, page)
    documents = style not in LINES
    if not takes_stdout(output) and not documents:
        click.echo(output)
    # Lines of findings do not mix with the name of the page; a document is all that is printed.
    emit(findings, style, err=not documents or takes_stdout(output), summary=summary)
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
