"""`haulout map INPUT`: a memory map as one offline HTML page."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from haulout import api
from haulout.cli.status import guarded, takes_stdout
from haulout.packing.csvio import read_csv
from haulout.report.memory_map import Drawing, Panel, draw_program, memory_map
from haulout.support.diagnostics import bad_input
from haulout.support.files import write_text


@click.command()
@click.argument("source", metavar="INPUT")
@click.option(
    "-o", "--output", default="memory.html", show_default=True, metavar="FILE", help="The page; - is stdout."
)
@guarded
def map(source: str, output: str) -> int:
    """Draw a memory map.

    Time against offset, of a compiled .bir program or of a CSV file with offsets as `haulout plan` writes it.
    """
    if Path(source).suffix == ".csv":
        page = memory_map(Path(source).stem, Drawing([_csv_panel(source)]))
    else:
        program = api.load(source)
        drawing = draw_program(program)
        if not drawing.panels:
            bad_input(f"{source} has no placed locations", help=["run haulout compile first"])
        page = memory_map(program.name, drawing)
    write_text(output, page)
    if not takes_stdout(output):
        click.echo(output)
    return 0


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
