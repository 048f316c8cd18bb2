"""SARIF: what the standard allows and no more, fingerprints, fixes, names that no URI may have."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

from tests.support.sarif_schema import problems

from haulout.support.diagnostics import Diagnostic, Entity, Label, Severity, Span, Subject
from haulout.support.render import About, Rule, TextEdit, TextFix
from haulout.support.sarif import FINGERPRINT, render_sarif

SUBJECT = Subject("read after write", "main", (Entity(1, "put", 0), Entity(0, "sum", 1)))
RACE = Diagnostic(
    "cross-core-race",
    Severity.ERROR,
    "%a reads what %b writes",
    (Label("reads", Span("a b/é<x>.bir", 7, 3, 6)), Label("writes", Span("a b/é<x>.bir", 9))),
    ("a note",),
    ("a help",),
    SUBJECT,
)
BARE = Diagnostic("bad-input", Severity.WARNING, "no place")
ACCEPTED = replace(RACE, suppressed="it is so")
FIX = TextFix("x.bir", "put a barrier", (TextEdit(7, 7, ("one", "two")), TextEdit(9, 10, ())))
ABOUT = About(
    version="1", rules={"bad-input": Rule("short", "full", "help")}, fix_of=lambda each: FIX if each is RACE else None
)


def _run(*findings: Diagnostic) -> dict[str, Any]:
    document = json.loads(render_sarif(findings, ABOUT))
    assert list(problems(document)) == []
    (run,) = document["runs"]
    assert isinstance(run, dict)
    return run


def test_all_of_it_is_what_the_standard_allows() -> None:
    run = _run(RACE, BARE, ACCEPTED)
    race, bare, accepted = run["results"]
    assert race["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b/%C3%A9%3Cx%3E.bir"},
        "region": {"startLine": 7, "startColumn": 3, "endColumn": 6},
    }
    assert [each["id"] for each in race["relatedLocations"]] == [1]
    assert "locations" not in bare
    assert accepted["suppressions"] == [{"kind": "inSource", "justification": "it is so"}]
    insert, delete = race["fixes"][0]["artifactChanges"][0]["replacements"]
    assert insert["insertedContent"]["text"] == "one\ntwo\n"
    assert insert["deletedRegion"] == {"startLine": 7, "startColumn": 1, "endLine": 7, "endColumn": 1}
    assert delete == {"deletedRegion": {"startLine": 9, "startColumn": 1, "endLine": 10, "endColumn": 1}}
    assert "fixes" not in bare
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["bad-input", "cross-core-race"]
    assert rules[0]["fullDescription"] == {"text": "full"}


def test_a_finding_without_place_is_shown_at_its_input() -> None:
    (result,) = _run(replace(BARE, input="kernels.py::add"))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "kernels.py"


def test_names_that_are_not_utf8() -> None:
    for name in ("\udcff.bir", "\ud800.bir"):
        _run(replace(RACE, labels=(Label("here", Span(name, 1)),), subject=None, message=name))


def _prints(*findings: Diagnostic) -> list[str]:
    return [each["partialFingerprints"][FINGERPRINT] for each in _run(*findings)["results"]]


def test_fingerprints_stay_when_lines_move_and_differ_between_findings() -> None:
    moved = replace(RACE, labels=(Label("reads", Span("other/é<x>.bir", 70)),), message="line 70")
    assert _prints(RACE) == _prints(moved)
    other = replace(RACE, subject=replace(SUBJECT, position=3))
    assert len(set(_prints(RACE, other, BARE, replace(BARE, message="else"), RACE))) == 5


def test_the_schema_of_the_tests_can_fail() -> None:
    document = json.loads(render_sarif([RACE, ACCEPTED], ABOUT))
    result = ["runs", 0, "results", 0]
    wrong: list[tuple[list[Any], str, Any]] = [
        ([], "version", "2.0"),
        ([], "extra", 1),
        (result, "message", {}),
        (result, "level", "fatal"),
        (result, "ruleIndex", -1),
        ([*result, "locations", 0, "physicalLocation", "artifactLocation"], "uri", "a b"),
        ([*result, "locations", 0, "physicalLocation", "region"], "startLine", 0),
        ([*result, "locations", 0, "physicalLocation", "region"], "endColumn", 1),
        ([*result, "fixes", 0, "artifactChanges", 0], "replacements", None),
    ]
    for path, key, value in wrong:
        broken = copy.deepcopy(document)
        place = broken
        for step in path:
            place = place[step]
        place[key] = value
        assert list(problems(broken)), (path, key)
