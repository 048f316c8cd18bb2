"""Results as small HTML tables, for notebooks (`_repr_html_`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from haulout.report.catalog import assumptions
from haulout.support.diagnostics import Diagnostic, Severity
from haulout.support.html import html_table

if TYPE_CHECKING:
    from haulout.ir.program import Program
    from haulout.report.model import Report

MAX_ROWS = 20
"""Findings that are listed."""


def compile_html(report: Report, diagnostics: Sequence[Diagnostic], proved: bool) -> str:
    """The cores of a compile, what it proves, and its findings."""
    from haulout.report.tables import format_time
    from haulout.support.shown import format_bytes

    rows = [
        (
            core.core,
            f"{core.instructions:,}",
            core.barriers,
            format_bytes(core.peak_bytes),
            format_bytes(core.lower_bound_bytes),
        )
        for core in report.cores
    ]
    verdict = "proved" if proved else "NOT proved"
    total = format_bytes(report.total_peak_bytes)
    left = f"; not proved: {', '.join(report.not_proved)}" if proved else ""
    below = f"{verdict}{left}; DRAM of all cores {total}; estimated {format_time(report.estimated_makespan_us)}"
    headings = ("core", "instructions", "barriers", "peak DRAM", "lower bound")
    return html_table(report.program, headings, rows, below) + findings_html(diagnostics)


def check_html(
    program: Program | None, diagnostics: Sequence[Diagnostic], suppressed: Sequence[Diagnostic], proved: bool
) -> str:
    """The verdict of the checker and its findings."""
    counts = Counter(each.severity for each in diagnostics)
    row = (
        "" if program is None else program.lnc,
        "" if program is None else f"{len(program.instructions):,}",
        counts[Severity.ERROR],
        counts[Severity.WARNING],
        counts[Severity.NOTE],
        len(suppressed),
        "NOT proved" if not proved else ", except ".join(["proved", *assumptions(diagnostics)]),
    )
    headings = ("cores", "instructions", "errors", "warnings", "notes", "suppressed", "verdict")
    title = "no program" if program is None else program.name
    return html_table(title, headings, [row]) + findings_html(diagnostics)


def findings_html(diagnostics: Sequence[Diagnostic]) -> str:
    """A line a finding; empty without findings."""
    if not diagnostics:
        return ""
    rows = [(each.severity.name.lower(), each.code, each.message, each.span or "") for each in diagnostics[:MAX_ROWS]]
    rest = len(diagnostics) - len(rows)
    return html_table("findings", ("severity", "code", "message", "place"), rows, f"and {rest} more" if rest else "")
