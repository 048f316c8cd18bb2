"""`haulout reduce INPUT --code CODE`: a small program that still has a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from haulout import api
from haulout.checker import check_program
from haulout.cli.common import CORES, INPUT
from haulout.cli.explain import known_code
from haulout.cli.kernels import kernel_arguments, kernel_options
from haulout.cli.status import CLEAN, guarded
from haulout.ir.program import Program
from haulout.ir.text import print_bir
from haulout.support.diagnostics import bad_input
from haulout.support.files import write_text
from haulout.testing.reduce import TIME_LIMIT, reduce_until

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope


@click.command()
@click.argument("source", type=INPUT, metavar="INPUT")
@click.option("--lnc", type=CORES, help="Number of cores; the default of a kernel is 2.")
@kernel_options
@click.option("--code", required=True, help="The finding that must stay; `haulout explain` lists all codes.")
@click.option(
    "-o", "--output", default="-", show_default=True, metavar="FILE", help="Where the program goes; - is stdout."
)
@click.option(
    "--time-limit", type=click.FloatRange(min=0), default=TIME_LIMIT, show_default=True, help="Seconds to search."
)
@guarded
def reduce(
    source: str,
    lnc: int | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    code: str,
    output: str,
    time_limit: float,
) -> int:
    """Shrink a program while `haulout check` reports CODE.

    INPUT is a .bir, .hlo or .npz file, or an NKI kernel, FILE.py::FUNCTION with its arguments. Instructions,
    locations, barriers, dependences, semaphores, patterns, branches, loops and cores are left out or made simpler one
    after another; every step is a valid program. Equal inputs give equal programs unless the time runs out. Ctrl-C
    keeps the smallest program so far.
    """
    known_code(code)
    arguments = kernel_arguments(source, arg, args_file)
    program = api.check_source(source, lnc=lnc, arguments=arguments, barrier_scope=barrier_scope).program
    if program is None:
        bad_input(f"the kernel {source} does not come to its end; `haulout check` says why")
    found = sorted({each.code for each in check_program(program, advise=False)})
    if code not in found:
        bad_input(
            f"the checker does not report {code} in {source}",
            help=[f"it reports {', '.join(found)}" if found else "it finds nothing"],
        )
    reduced = reduce_until(program, lambda candidate: _reports(candidate, code), time_limit=time_limit)
    write_text(output, print_bir(reduced.program))
    if reduced.interrupted:
        click.echo("interrupted: the smallest program found until then", err=True)
    click.echo(f"{_size(program)} -> {_size(reduced.program)}", err=True)
    return CLEAN


def _reports(program: Program, code: str) -> bool:
    try:
        return any(each.code == code for each in check_program(program, advise=False))
    except Exception:
        # A candidate on which the checker fails does not have the finding; the search continues.
        return code == "internal-error"


def _size(program: Program) -> str:
    return f"{program.lnc} cores, {len(program.instructions)} instructions, {len(program.locations)} locations"
