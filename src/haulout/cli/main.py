"""`haulout`: the group of commands."""

from __future__ import annotations

import click

from haulout import __version__
from haulout.cli.check import check
from haulout.cli.compile import compile
from haulout.cli.explain import explain
from haulout.cli.map import map
from haulout.cli.opt import opt
from haulout.cli.plan import plan
from haulout.cli.process import Commands
from haulout.cli.reduce import reduce
from haulout.cli.simulate import simulate


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="haulout")
def main() -> None:
    """Compile, check and run programs that are split over several cores sharing one DRAM.

    Exit status: 0 clean, 1 errors or warnings found, 2 usage or bad input, 3 internal error,
    130 interrupted.
    """


main.add_command(compile)
main.add_command(check)
main.add_command(simulate)
main.add_command(plan)
main.add_command(map)
main.add_command(opt)
main.add_command(explain)
main.add_command(reduce)
