"""`haulout check INPUT...`: find races, deadlocks and wrong addresses in programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import click

from haulout import api
from haulout.cli.common import CORES, INPUT, cores_option, format_option, quiet_option
from haulout.cli.kernels import kernel_arguments, kernel_options
from haulout.cli.status import emit, exit_status, findings_of, guarded, with_outcome
from haulout.cli.summary import Input, Outcome
from haulout.ir.text.columns import with_columns
from haulout.report.catalog import assumptions
from haulout.report.text_fix import TextFixes
from haulout.support.diagnostics import Diagnostic, Severity
from haulout.support.formats import LINES

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope


@click.command()
@click.argument("sources", type=INPUT, metavar="INPUT...", nargs=-1, required=True)
@click.option("--lnc", type=CORES, help="Number of cores; the default of a kernel is 2.")
@cores_option
@kernel_options
@click.option(
    "--target",
    type=click.Choice(["gen2", "gen3", "gen4"]),
    default="gen3",
    show_default=True,
    help="Of a kernel: the generation whose rules of the hardware are checked.",
)
@click.option("--fix", is_flag=True, help="Of a task graph: list few edges that order all races, checked again.")
@format_option
@quiet_option
@guarded
def check(
    sources: tuple[str, ...],
    lnc: int | None,
    cores: int | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    target: str,
    fix: bool,
    style: str,
    quiet: bool,
) -> int:
    """Check programs, compiled or written by hand.

    Computes order, conflicts and storage from INPUT alone, and reports faults that some hardware schedule can show.
    INPUT is a .bir, .hlo or .npz file, - for stdin, an NKI kernel, FILE.py::FUNCTION with its arguments, or a task
    graph, a JSON object with tasks. Each of several inputs is checked, also after a bad one; the exit
    status is the worst.
    """
    checked = []
    for source in sources:
        one = _check(source, lnc, arg, args_file, barrier_scope, target, cores, fix)
        if len(sources) > 1:
            one.name_input()
        checked.append(one)
        if style == "text":  # what is known of long inputs appears at once
            emit(one.found, style)
            if line := _line(one, source if len(sources) > 1 else ""):
                click.echo(line)
    found = [each for one in checked for each in one.found]
    if style != "text":
        shown = found if style in LINES else [*found, *(each for one in checked for each in one.suppressed)]
        edits = {id(each): one.fixes for one in checked for each in one.found}
        outcome: Outcome = {"proved": all(one.proved for one in checked), "not_proved": assumptions(found)}
        emit(
            shown,
            style,
            summary={"outcome": outcome, "inputs": [one.as_input() for one in checked]},
            fix_of=lambda each: edits[id(each)](each) if id(each) in edits else None,
        )
    return exit_status(found)


@dataclass(slots=True)
class _Checked:
    """One input and what the checker says about it; no result where it could not be read."""

    source: str
    found: Sequence[Diagnostic]
    result: api.CheckResult | None = None
    suppressed: Sequence[Diagnostic] = ()
    fixes: TextFixes = field(default_factory=lambda: TextFixes(None))
    """The edits that remove findings."""

    def name_input(self) -> None:
        self.found = [replace(each, input=self.source) for each in self.found]
        self.suppressed = [replace(each, input=self.source) for each in self.suppressed]

    @property
    def proved(self) -> bool:
        return self.result is not None and self.result.proved

    def as_input(self) -> Input:
        """Its part of the summary."""
        outcome: Outcome = {"proved": self.proved, "not_proved": assumptions(self.found)}
        counted = with_outcome({"outcome": outcome}, [*self.found, *self.suppressed])
        plain: Input = {"input": self.source, "outcome": counted["outcome"]}
        program = None if self.result is None else self.result.program
        if program is not None:
            plain |= {"program": program.name, "cores": program.lnc, "instructions": len(program.instructions)}
        return plain


def _check(
    source: str,
    lnc: int | None,
    arg: tuple[str, ...],
    args_file: str | None,
    barrier_scope: BarrierScope,
    target: str,
    cores: int | None,
    fix: bool,
) -> _Checked:
    """Check one input. What stops the work on it is a finding, so that the others are checked, too."""
    try:
        arguments = kernel_arguments(source, arg, args_file)
        result = api.check_source(
            source,
            lnc=lnc,
            arguments=arguments,
            barrier_scope=barrier_scope,
            target=target,
            cores=cores,
            fix=fix,
        )
    except Exception as error:
        return _Checked(source, findings_of(error))
    found: Sequence[Diagnostic] = result.diagnostics
    if result.program is not None:
        found = with_columns(found, result.program)
    return _Checked(source, found, result, result.suppressed, TextFixes(result.program))


def _line(one: _Checked, source: str) -> str:
    """`NAME: 2 cores, 4 instructions: clean`, after the input where there are several; empty without a result."""
    if one.result is None:
        return ""
    program, tasks = one.result.program, one.result.tasks
    if program is not None:
        counts = f"{program.name}: {program.lnc} cores, {len(program.instructions)} instructions"
    elif tasks is not None:
        graph = tasks.graph
        counts = f"{graph.name}: {len(graph.tasks)} tasks, {len(graph.source)} edges"
        counts += f", {tasks.needed} pairs that need an order"
    else:
        return ""
    return f"{source + ': ' if source else ''}{counts}: {_summary(one.result)}"


def _summary(checked: api.CheckResult) -> str:
    """`clean`, `1 finding`, or `1 finding, 2 suppressed`."""
    serious = sum(each.severity > Severity.NOTE for each in checked.diagnostics)
    if not serious and not checked.suppressed:
        return "clean"
    suppressed = f", {len(checked.suppressed)} suppressed" if checked.suppressed else ""
    return f"{serious} finding{'s' if serious != 1 else ''}{suppressed}"
