"""Options of several commands, and progress and the log on stderr. Exit statuses are in `status.py`."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import click

from haulout.ir.limits import MAX_CORES, SIZE_MAX
from haulout.support.colours import wants_colour
from haulout.support.files import STDIN
from haulout.support.formats import RENDERERS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from haulout.passes.manager import PassRecord

PROGRESS_DELAY = 0.5
"""Seconds before a progress bar appears."""


class _InputType(click.ParamType):  # type: ignore[type-arg]
    """The path of a file that is read; `-` is stdin, once in a command line."""

    name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "-" and ctx is not None:
            if ctx.meta.setdefault(STDIN, 0):
                self.fail("stdin can be read once: name - once", param, ctx)
            ctx.meta[STDIN] = 1
        return STDIN if value == "-" else str(value)


INPUT = _InputType()
CORES = click.IntRange(1, MAX_CORES)
BYTES = click.IntRange(0, SIZE_MAX)
"""A size in memory, with the limit of programs."""


format_option = click.option(
    "--format",
    "style",
    type=click.Choice(list(RENDERERS)),
    default="text",
    show_default=True,
    help="Format of the findings.",
)
split_option = click.option(
    "--split",
    multiple=True,
    default=(),
    metavar="axis=DIM|NAME=DIM",
    help="Where cores divide work, cut results along this dimension if possible, or those of one operation. "
    "Repeatable.",
)
target_option = click.option(
    "--target",
    default="generic",
    show_default=True,
    metavar="NAME|FILE.toml",
    help="The machine for estimated run times: generic, trainium, or a TOML file.",
)
cores_option = click.option(
    "--cores",
    type=CORES,
    help="Number of cores of HLO text that does not say for how many it is: each runs all of it.",
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")


def _start_log(context: click.Context, _parameter: click.Parameter, level: str | None) -> None:
    """Send the package's log to stderr while the command runs."""
    if level is None:
        return
    log, handler = logging.getLogger("haulout"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(level.upper())

    def stop() -> None:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)

    context.call_on_close(stop)


log_option = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    callback=_start_log,
    expose_value=False,
    help="Log passes to stderr; debug adds the analysis of shared lifetimes.",
)


def plain_console(*, stderr: bool = False) -> Console:
    """A console without markup, 100 columns wide unless it is a terminal; plain text where colours are not wanted."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 100
    system: Literal["auto"] | None = "auto" if wants_colour(stream) else None
    return Console(highlight=False, markup=False, emoji=False, stderr=stderr, width=width, color_system=system)


def print_table(console: Console, table: Table) -> None:
    """A table, or on a terminal that is too narrow for whole words, a line `HEADING: VALUE` for each cell."""
    from rich.measure import Measurement

    if Measurement.get(console, console.options.update(width=10**4), table).minimum <= console.width:
        console.print(table)
        return
    if table.title:
        console.print(table.title, soft_wrap=True)
    cells = [(str(column.header), list(column.cells)) for column in table.columns]
    for row in range(table.row_count):
        for at, (heading, values) in enumerate(cells):
            mark = "  " if at else "- "
            console.print(f"{mark}{heading}: {values[row]}", soft_wrap=True)


def pass_progress(quiet: bool) -> Callable[[PassRecord], None] | None:
    """A line on stderr after each pass."""
    if quiet:
        return None

    def report(record: PassRecord) -> None:
        order = "  " if record.order is None else str(record.order)
        click.echo(f"{order} {record.name:<44} {record.seconds:8.3f} s  {record.status.value}", err=True)

    return report


@contextmanager
def progress_bar(label: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr that appears after `PROGRESS_DELAY`; yields `progress(done, total)`."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    began = time.monotonic()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(label, visible=False)
        yield lambda done, total: bar.update(
            task, completed=done, total=total, visible=time.monotonic() - began > PROGRESS_DELAY
        )
