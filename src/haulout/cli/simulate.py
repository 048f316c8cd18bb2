"""`haulout simulate INPUT`: run a program and write every core's outputs."""

from __future__ import annotations

import click

from haulout.cli.common import format_option, guarded


@click.command()
@click.argument("source", metavar="INPUT")
@format_option
@guarded
def simulate(source: str, style: str) -> int:
    """Run a program."""
    raise NotImplementedError
