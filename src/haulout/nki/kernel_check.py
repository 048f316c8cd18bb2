"""Checks of a traced kernel: the order that NKI guarantees inside a core, then the checker.

    trace       run the Python code; findings on shapes, bounds and unknown names
    lint        findings that do not depend on order: allocations, results, capacity, barriers without effect (`emit`)
    prepare     the passes that order conflicting accesses of one core, as NKI's compiler does
    check       the independent checker, on all cores

A loop with a trip count that is known on the device only is a loop of the program. It may run any number of times,
including zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from haulout.checker import check_program
from haulout.frontends.nki import BarrierScope, Kernel, Trace, emit, trace_of
from haulout.ir.program import Program
from haulout.ir.verify import check_sound
from haulout.nki.grouping import by_lines
from haulout.nki.suppressions import suppress
from haulout.passes.anti_dependency_analyzer import AntiDependencyAnalyzerPostSharedDram
from haulout.passes.base import PassContext
from haulout.passes.build_fdeps import BuildFdeps
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity

_COVERAGE = frozenset({"uninitialized-read", "output-not-written"})
_NUMBERED = re.compile(r"\.\d+\Z")
_RACES = frozenset({"cross-core-race", "possible-race"})


@dataclass(slots=True)
class CheckedKernel:
    """The trace of a kernel, the checked program (`prepare`), and all findings."""

    trace: Trace
    program: Program | None
    """None if the kernel stopped with an error."""
    diagnostics: list[Diagnostic]
    suppressed: list[Diagnostic] = field(default_factory=list)
    """Findings that comments in the kernel accept."""

    @property
    def ok(self) -> bool:
        """No error and no warning, except for those that comments accept."""
        return not any(each.severity > Severity.NOTE for each in self.diagnostics)


def check(
    kernel: Kernel,
    arguments: Mapping[str, Any] | Sequence[Any] = (),
    *,
    lnc: int = 2,
    barrier_scope: BarrierScope = "data",
    trips: int | None = None,
    target: str = "gen3",
) -> list[Diagnostic]:
    """Races, deadlocks and wrong addresses of a kernel; the kernel is proved if there are only notes, and no comment
    in it suppresses a finding (`check_kernel` returns those). See `trace`."""
    return check_kernel(
        kernel, arguments, lnc=lnc, barrier_scope=barrier_scope, trips=trips, target=target
    ).diagnostics


def check_kernel(
    kernel: Kernel,
    arguments: Mapping[str, Any] | Sequence[Any] = (),
    *,
    lnc: int = 2,
    barrier_scope: BarrierScope = "data",
    trips: int | None = None,
    target: str = "gen3",
) -> CheckedKernel:
    """The same, with the trace and the program."""
    return check_trace(trace_of(kernel, arguments, lnc=lnc, trips=trips, target=target), barrier_scope)


def check_trace(found: Trace, barrier_scope: BarrierScope = "data") -> CheckedKernel:
    """All findings for a trace."""
    if found.failed:
        return CheckedKernel(found, None, _worst_first(found.findings.items))
    emitted = emit(found, barrier_scope=barrier_scope, narrow=True)
    diagnostics = list(emitted.findings)
    try:
        program = prepare(emitted.program)
        checked = check_program(program)
        if any(each.code == "uninitialized-read" for each in checked):
            # Partitions may differ in where uninitialized values go.
            program = prepare(emit(found, barrier_scope=barrier_scope).program)
            checked = check_program(program)
        assumed = any(each.code == "assumed-loop-count" for each in found.findings.items)
        for each in checked:
            diagnostics.append(
                _on_assumption(each) if assumed and each.code in _COVERAGE else _with_nki_fix(each, program.lnc)
            )
    except HauloutError as error:
        return CheckedKernel(found, None, _worst_first([*diagnostics, *error.diagnostics]))
    marked = suppress(by_lines(diagnostics), found)
    return CheckedKernel(
        found,
        program,
        _worst_first([each for each in marked if not each.suppressed]),
        [each for each in marked if each.suppressed],
    )


def prepare(program: Program) -> Program:
    """The program with the order that NKI's compiler guarantees inside a core.

    Accesses of one core that conflict, by tensor or by the addresses that the kernel chose, complete in its order.
    """
    check_sound(program)
    context = PassContext()
    program = BuildFdeps().run(program, context)
    program = AntiDependencyAnalyzerPostSharedDram().run(program, context)
    return AntiDependencyAnalyzerPostSharedDram(fences_are_final=True).run(program, context)


def _on_assumption(finding: Diagnostic) -> Diagnostic:
    """Lower an error to a warning: the written bytes may depend on an assumed trip count."""
    notes = (*finding.notes, "it may depend on trip counts that are known on the device only and were assumed")
    return replace(finding, severity=min(finding.severity, Severity.WARNING), notes=notes)


def _with_nki_fix(finding: Diagnostic, cores: int) -> Diagnostic:
    """A race with its fix as NKI code, if the fix is a barrier."""
    places, subject, advice = [label.span for label in finding.labels[:2]], finding.subject, finding.advice
    if finding.code not in _RACES or None in places or subject is None or advice is None:
        return finding
    if not advice.verified or not advice.fix.is_barrier:
        return finding
    everyone = ", ".join(map(str, range(cores)))
    # Tensors of one variable have its name, with a number behind it.
    names = {_NUMBERED.sub("", each.name): None for each in subject.locations}
    calls = [f"nisa.core_barrier({name}, ({everyone}))" for name in names]
    text = f"in NKI: {' and '.join(calls)} on every core, after {places[1]}, before {places[0]}"
    return replace(finding, help=(text, *finding.help))


def _worst_first(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    return sorted(found, key=lambda each: -each.severity)
