"""`haulout simulate INPUT`: run a program under one schedule, or under all adversarial ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from haulout import api
from haulout.cli.common import CORES, INPUT, format_option, plain_console, progress_bar, quiet_option, target_option
from haulout.cli.kernels import kernel_arguments, kernel_options
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
from haulout.ir.program import Program
from haulout.ir.text.columns import with_columns
from haulout.ir.values import load_values, save_values
from haulout.report.simulated_timeline import simulated_trace
from haulout.sim import SimulationResult, compare_schedules
from haulout.sim import simulate as run
from haulout.sim.expect import compare_outputs, expected_outputs, expected_results
from haulout.support.diagnostics import Diagnostic, bad_input
from haulout.support.files import write_text
from haulout.target import load_target

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope


@click.command()
@click.argument("source", type=INPUT, metavar="INPUT")
@inputs_option
@seed_option
@click.option(
    "--schedule",
    default="list",
    show_default=True,
    metavar="TEXT",
    help="list, random:SEED, slowest:CORE:ENGINE, or all: every queue as the slowest in turn.",
)
@click.option(
    "--max-instructions",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Limit on executed instructions of all cores together.",
)
@click.option("--lnc", type=CORES, help="Number of cores of a kernel; the default is 2.")
@kernel_options
@expect_option
@click.option(
    "--trace",
    metavar="FILE",
    help="Write a timeline of all that runs (.json), timed by --target, for Perfetto.",
)
@target_option
@output_option
@format_option
@quiet_option
@guarded
def simulate(
    source: str,
    inputs: str | None,
    seed: int,
    schedule: str,
    max_instructions: int,
    lnc: int | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    expect: str | None,
    trace: str | None,
    target: str,
    output: str | None,
    style: str,
    quiet: bool,
) -> int:
    """Run a program and write every core's outputs.

    With --schedule all the program is run once for each in-order queue as the slowest; a read with
    another writer under one of them is a finding. With --expect the outputs are compared with those of another
    implementation.

    INPUT is a .bir, .hlo or .npz file, or an NKI kernel, FILE.py::FUNCTION with its arguments: x=@x.npy is an array.
    """
    if api.is_kernel(source):
        if inputs is not None:
            bad_input("--inputs is for programs", help=["arrays are arguments of a kernel: --arg x=@x.npy"])
        if trace is not None:
            bad_input("--trace is for programs", help=["haulout trace shows the estimate of a compiled kernel"])
        arguments = kernel_arguments(source, arg, args_file)
        options = {"seed": seed, "schedule": schedule, "max_instructions": max_instructions}
        options |= {"lnc": lnc or 2, "barrier_scope": barrier_scope}
        return _kernel(source, arguments, options, expect, output, style, quiet)
    kernel_arguments(source, arg, args_file)  # which a program does not take
    program = api.load(source)
    values = None if inputs is None else input_arrays(load_values(Path(inputs)))
    findings: list[Diagnostic] = []
    with progress_bar("simulate", quiet) as progress:
        first = "list" if schedule == "all" else schedule
        result = run(program, values, seed=seed, schedule=first, max_instructions=max_instructions, progress=progress)
    findings += result.diagnostics
    schedules = 1
    if schedule == "all":
        with progress_bar("schedules", quiet) as progress:
            report = compare_schedules(
                program,
                values,
                seed=seed,
                excuse_equal=True,
                max_instructions=max_instructions,
                progress=progress,
            )
        findings += report.diagnostics
        schedules = len(report.schedules)
    agreement, compared = "", None
    if expect is not None:
        wanted = expected_outputs(program, load_values(Path(expect)))
        different, worst = compare_outputs(result.outputs, wanted)
        findings, compared = findings + different, len(wanted)
        agreement = agreement_text(len(wanted), len(different), worst)
    if trace is not None:
        write_text(trace, simulated_trace(program, load_target(target), values, seed=seed))
    summary = _summary(result, schedules, compared) | Summary(program=program.name, cores=program.lnc)
    return _finish(result, with_columns(findings, program), summary, agreement, output, style, program)


def _kernel(
    source: str,
    arguments: dict[str, Any],
    options: dict[str, Any],
    expect: str | None,
    output: str | None,
    style: str,
    quiet: bool,
) -> int:
    """A kernel: the tensors that it returns are compared with those of `--expect`."""
    from haulout.nki import simulate_kernel

    with progress_bar("simulate", quiet) as progress:
        found = simulate_kernel(source, arguments, progress=progress, **options)
    findings, agreement, compared = list(found.diagnostics), "", None
    if expect is not None:
        wanted = expected_results(Path(expect), found.returned)
        compared = len(wanted)
        results = {f"result {at}": array for at, array in enumerate(found.returned)}
        different, worst = compare_outputs(results, wanted)
        findings += different
        agreement = agreement_text(len(wanted), len(different), worst)
    summary = _summary(found.result, found.schedules, compared)
    return _finish(found.result, findings, summary, agreement, output, style)


def _finish(
    result: SimulationResult,
    findings: list[Diagnostic],
    summary: Summary,
    agreement: str,
    output: str | None,
    style: str,
    program: Program | None = None,
) -> int:
    """Write and print what came out."""
    err = takes_stdout(output)
    if output is not None:
        save_values(result.outputs, output)
    emit(findings, style, err=err, summary=summary)
    if style == "text":
        _print(result, summary["schedules"], program, err=err)
        if agreement:
            click.echo(agreement, err=err)
    return exit_status(findings)


def _summary(result: SimulationResult, schedules: int, compared: int | None) -> Summary:
    counts = result.statistics
    summary: Summary = {"outputs": len(result.outputs), "schedules": schedules}
    summary |= {"instructions": counts.instructions, "barriers": counts.barriers}
    return summary if compared is None else summary | Summary(expected=compared)


def _print(result: SimulationResult, schedules: int, program: Program | None, *, err: bool) -> None:
    print_outputs(result.outputs, err=err, program=program)
    statistics = result.statistics
    plain_console(stderr=err).print(
        f"{statistics.instructions:,} instructions, {statistics.barriers} barriers, "
        f"{schedules} schedule{'s' if schedules > 1 else ''}"
    )
