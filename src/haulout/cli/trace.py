"""`haulout trace INPUT -o FILE`: the estimated timeline of a program, for Perfetto."""

from __future__ import annotations

import click

from haulout import api
from haulout.cli.common import CORES, INPUT, target_option
from haulout.cli.status import guarded
from haulout.report.timeline import estimated_trace
from haulout.support.files import write_text
from haulout.target import load_target


@click.command()
@click.argument("source", type=INPUT, metavar="INPUT")
@click.option("--lnc", type=CORES, help="Number of cores; a one-core program is cloned over them.")
@target_option
@click.option(
    "-o", "--output", default="-", show_default=True, metavar="FILE", help="The file for the timeline; - is stdout."
)
@guarded
def trace(source: str, lnc: int | None, target: str, output: str) -> int:
    """Write the estimated timeline of a program.

    When each line does what, as the target's times say: trace events, JSON. Open the file at ui.perfetto.dev, which
    reads it locally, or in chrome://tracing. Cores are processes, engines and queues threads, barriers and exchanges
    flows, the live bytes of DRAM a counter. The end is the estimated makespan.
    """
    write_text(output, estimated_trace(api.load(source, lnc=lnc), load_target(target)))
    return 0
