"""`haulout run PROGRAM`: execute a compiled program, a thread a core or a queue."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import click

from haulout import api
from haulout.cli.common import INPUT, format_option, progress_bar, quiet_option
from haulout.cli.outputs import (
    agreement_text,
    expect_option,
    input_arrays,
    inputs_option,
    output_option,
    print_outputs,
    seed_option,
)
from haulout.cli.status import emit, exit_status, guarded, takes_stdout
from haulout.cli.summary import Summary
from haulout.ir.values import load_values, save_values
from haulout.report.timeline import run_trace
from haulout.sim.expect import compare_outputs, expected_outputs
from haulout.support.diagnostics import Diagnostic
from haulout.support.files import write_text


@click.command()
@click.argument("source", type=INPUT, metavar="PROGRAM")
@inputs_option
@seed_option
@click.option(
    "--repeat", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Run so many times."
)
@click.option("--queues", is_flag=True, help="A thread a queue: dependences order the instructions of a core.")
@click.option(
    "--max-instructions",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Limit on what loops execute on each core.",
)
@expect_option
@click.option(
    "--trace", metavar="FILE", help="Write when each instruction ran (.json), for Perfetto or chrome://tracing."
)
@output_option
@format_option
@quiet_option
@guarded
def run(
    source: str,
    inputs: str | None,
    seed: int,
    repeat: int,
    queues: bool,
    max_instructions: int,
    expect: str | None,
    trace: str | None,
    output: str | None,
    style: str,
    quiet: bool,
) -> int:
    """Execute a compiled program, a thread a core, on one memory that all of them share.

    Only the program's barriers and semaphores order the threads. With --queues each engine and queue of a core is a
    thread of its own, and dependences are waited for. The results have the bits that `haulout simulate` computes. The
    time of each run goes to stderr.
    """
    program = api.load(source)
    values = None if inputs is None else input_arrays(load_values(Path(inputs)))
    with progress_bar("run", quiet) as progress:
        result = api.run(
            program,
            values,
            seed=seed,
            repeat=repeat,
            queues=queues,
            trace=trace is not None,
            max_instructions=max_instructions,
            progress=progress,
        )
    findings: list[Diagnostic] = []
    agreement = ""
    summary: Summary = {"program": program.name, "cores": program.lnc, "instructions": result.instructions}
    summary |= {"outputs": len(result.outputs), "seconds": result.seconds}
    if expect is not None:
        wanted = expected_outputs(program, load_values(Path(expect)))
        findings, worst = compare_outputs(result.outputs, wanted)
        summary["expected"] = len(wanted)
        agreement = agreement_text(len(wanted), len(findings), worst)
    err = takes_stdout(output)
    if trace is not None:
        write_text(trace, run_trace(program, result.spans))
    if output is not None:
        save_values(result.outputs, output)
    emit(findings, style, err=err, summary=summary)
    if style == "text":
        print_outputs(result.outputs, program=program, err=err)
        if agreement:
            click.echo(agreement, err=err)
    if not quiet:
        _print_times(result.seconds)
    return exit_status(findings)


def _print_times(seconds: tuple[float, ...]) -> None:
    for number, each in enumerate(seconds):
        click.echo(f"run {number}: {each * 1e3:.3f} ms", err=True)
    if len(seconds) > 1:
        click.echo(f"least {min(seconds) * 1e3:.3f} ms, median {median(seconds) * 1e3:.3f} ms", err=True)
