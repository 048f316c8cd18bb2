"""`haulout explain-split INPUT`: which operations the cores divide, along which dimension, behind which fences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from haulout import api
from haulout.cli.common import CORES, INPUT, cores_option, plain_console, print_table, split_option
from haulout.cli.status import CLEAN, emit, guarded
from haulout.report.split import divided_table, fence_table, split_lines, undivided_table

if TYPE_CHECKING:
    from rich.console import Console

    from haulout.frontends.hlo import Fuse


@click.command("explain-split")
@click.argument("source", type=INPUT, metavar="INPUT")
@click.option("--lnc", type=CORES, help="Number of cores; a one-core program is cloned over them.")
@split_option
@click.option(
    "--target",
    default="generic",
    show_default=True,
    metavar="NAME|FILE.toml",
    help="The machine for estimated run times: generic, trainium, or a TOML file.",
)
@click.option(
    "--fuse",
    type=click.Choice(["none", "all"]),
    default="all",
    show_default=True,
    help="Of HLO text: make one instruction of element-wise operations where that saves storage.",
)
@cores_option
@click.option(
    "--replicated",
    multiple=True,
    metavar="NAME",
    help="A parameter of an .hlo file for which all cores get equal bytes. Repeatable.",
)
@click.option(
    "--top", type=click.IntRange(0), default=20, show_default=True, help="Lines of each table; 0: all operations."
)
@click.option("--fences", is_flag=True, help="Also a table of the fences: what each is for.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Tables, or a document with the section `split` of report.json.",
)
@guarded
def explain_split(
    source: str,
    lnc: int | None,
    split: tuple[str, ...],
    target: str,
    fuse: Fuse,
    cores: int | None,
    replicated: tuple[str, ...],
    top: int,
    fences: bool,
    style: Literal["text", "json"],
) -> int:
    """Show which operations the cores divide.

    For every operation that several cores would do alike: its share of the estimated time, the dimension along which
    it is cut, where its result is stored, how many operations read parts of other cores (apart), and the numbers of
    the fences that it needs, or why it is not cut. A fence that several operations need is listed with each; fences
    are those of compile -O2. INPUT is as for compile, but no kernel. Nothing gets an address.
    """
    report = api.explain_split(
        source, lnc=lnc, split=split, target=target, fuse=fuse, replicated=replicated, cores=cores
    )
    if style == "json":
        emit([], style, sections={"split": report})
        return CLEAN
    console = plain_console()
    for line in split_lines(report):
        console.print(line, soft_wrap=True)
    most = top or len(report.divided) + len(report.undivided)
    if report.divided:
        print_table(console, divided_table(report.divided[:most], report.fences))
        _print_rest(console, [each.share for each in report.divided[most:]])
    if report.undivided:
        print_table(console, undivided_table(report.undivided[:most], report.fences))
        _print_rest(console, [each.share for each in report.undivided[most:]])
    if fences and report.fences:
        print_table(console, fence_table(report.fences))
    return CLEAN


def _print_rest(console: Console, shares: list[float]) -> None:
    if shares:
        console.print(f"and {len(shares)} more, {100 * sum(shares):.2f} % of the time", soft_wrap=True)
