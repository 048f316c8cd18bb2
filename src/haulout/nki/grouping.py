"""Races of one pair of source lines as one finding.

A loop of a kernel is unrolled, so one pair of lines may race in many instructions. The first finding stays, counts
all pairs of accesses, and names the instructions of some others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from haulout.support.diagnostics import Diagnostic, Span

_GROUPED = frozenset({"cross-core-race", "possible-race"})
_SIDES = 2
MAX_NAMED = 3
"""Other pairs that a finding names."""


def by_lines(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings, races of one code and one pair of lines joined, in either direction."""
    groups: dict[object, list[Diagnostic]] = {}
    for at, each in enumerate(found):
        groups.setdefault(_key(each) or at, []).append(each)
    return [_joined(group) for group in groups.values()]


def _key(finding: Diagnostic) -> object | None:
    """Code, severity and lines of a race; None for what stays alone."""
    if finding.code not in _GROUPED or finding.subject is None:
        return None
    spans: Iterable[Span | None] = [label.span for label in finding.labels[:_SIDES]]
    lines = [(span.file, span.line) for span in spans if span is not None]
    return (finding.code, finding.severity, frozenset(lines)) if len(lines) == _SIDES else None


def _joined(group: Sequence[Diagnostic]) -> Diagnostic:
    first, *others = group
    if not others or first.subject is None:
        return first
    pairs = sum(each.subject.pairs for each in group if each.subject is not None)
    named = [
        " and ".join(f"core {side.core}'s %{side.name}" for side in each.subject.instructions[:_SIDES])
        for each in others[:MAX_NAMED]
        if each.subject is not None
    ]
    more = f", and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
    note = f"the same lines race in {len(others)} other pairs of instructions: {'; '.join(named)}{more}"
    if len(others) == 1:
        note = f"the same lines race in another pair of instructions: {named[0]}"
    return replace(first, notes=(*first.notes, note), subject=replace(first.subject, pairs=pairs))
