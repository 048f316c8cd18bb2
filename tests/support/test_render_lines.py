"""Findings in one line each: for editors, and for GitHub."""

from __future__ import annotations

import re

import pytest
from tests.cli.command import haulout

from haulout.support.diagnostics import Diagnostic, Label, Severity, Span
from haulout.support.render_lines import render_concise, render_github

PLACED = Diagnostic(
    "cross-core-race",
    Severity.ERROR,
    "%a and 100% of %b",
    (Label("no place"), Label("here", Span("a,b:c.py", 7, 3, 9))),
    ("first\nsecond",),
    ("add a barrier",),
)
BARE = Diagnostic("possible-race", Severity.WARNING, "bell \a")
NOTE = Diagnostic("assumed-trip", Severity.NOTE, "a note", (Label("", Span("k.bir", 2)),))


def test_concise() -> None:
    assert render_concise([PLACED, BARE, NOTE]).splitlines() == [
        "a,b:c.py:7:3: error[cross-core-race]: %a and 100% of %b",
        "warning[possible-race]: bell \N{REPLACEMENT CHARACTER}",
        "k.bir:2: note[assumed-trip]: a note",
    ]


def test_github() -> None:
    assert render_github([PLACED, BARE, NOTE]).splitlines() == [
        "::error file=a%2Cb%3Ac.py,line=7,col=3,endColumn=8,title=cross-core-race"
        "::%25a and 100%25 of %25b%0Afirst%0Asecond%0Ahelp: add a barrier",
        "::warning title=possible-race::bell \a",
        "::notice file=k.bir,line=2,title=assumed-trip::a note",
    ]


@pytest.mark.parametrize(
    ("style", "pattern"), [("concise", r"^examples/race/\S+:\d+:?.*error\["), ("github", "^::error file=")]
)
def test_check_prints_them_and_nothing_else(style: str, pattern: str) -> None:
    done = haulout("check", "examples/race/sum_race.bir", "--format", style)
    assert done.status == 1
    assert all(re.match(pattern, line) for line in done.stdout.splitlines())
    assert done.stdout
    assert haulout("check", "examples/race/sum_fixed.bir", "--format", style).stdout == ""
