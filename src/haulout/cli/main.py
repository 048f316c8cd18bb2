"""`haulout`: the group of commands."""

from __future__ import annotations

import click

from haulout import __version__
from haulout.cli.process import Commands

SHORT_HELP = {
    "check": "Check programs, compiled or written by hand.",
    "compare": "Compare a program with the split one, on the same inputs.",
    "compile": "Compile a program for several cores.",
    "explain": "Explain a diagnostic code; without CODE, list all of them.",
    "explain-split": "Show which operations the cores divide.",
    "map": "Draw a memory map.",
    "opt": "Run passes on a program and print it as .bir text.",
    "plan": "Place buffers with live ranges in few bytes.",
    "reduce": "Shrink a program while `haulout check` reports CODE.",
    "run": "Execute a compiled program, a thread a core.",
    "simulate": "Run a program and write every core's outputs.",
    "trace": "Write the estimated timeline of a program.",
    "warmup": "Compile all kernels for this machine in advance.",
}
"""Command -> short help. The module `haulout.cli.NAME` has the command `NAME`, with _ for -."""


@click.group(cls=Commands, short_help_of=SHORT_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="haulout")
def main() -> None:
    """Compile, check and simulate programs for several cores that share one DRAM.

    Exit status: 0 clean, 1 errors or warnings found, 2 usage or bad input, 3 internal error,
    130 interrupted.
    """
