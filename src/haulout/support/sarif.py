"""Findings as SARIF 2.1.0, the format of code hosts.

One run. A rule for each code that occurs, a result for each finding. A fingerprint of a result does not change when
lines move: it is a hash of the code and of the subject, or of the message where a finding has no subject.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from haulout.support.diagnostics import Diagnostic, Label, Severity, Span
from haulout.support.render import NOTHING, About, TextFix, encodable, input_file

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "hauloutFinding/v1"
_LEVEL = {Severity.NOTE: "note", Severity.WARNING: "warning", Severity.ERROR: "error"}


def render_sarif(diagnostics: Sequence[Diagnostic], about: About = NOTHING) -> str:
    """SARIF 2.1.0, one run; paths as they were given, columns in characters."""
    codes = sorted({each.code for each in diagnostics})
    seen: Counter[str] = Counter()
    results = []
    for each in diagnostics:
        print_ = _fingerprint(each)
        seen[print_] += 1
        results.append(_result(each, codes.index(each.code), f"{print_}:{seen[print_]}", about))
    driver: dict[str, Any] = {"name": "haulout"}
    if about.version:
        driver["version"] = about.version
    driver["rules"] = [_rule(code, about) for code in codes]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _rule(code: str, about: About) -> dict[str, Any]:
    rule = about.rules.get(code)
    if rule is None:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": rule.short},
        "fullDescription": {"text": rule.full},
        "help": {"text": rule.help},
    }


def _result(each: Diagnostic, rule: int, fingerprint: str, about: About) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": each.code,
        "ruleIndex": rule,
        "level": _LEVEL[each.severity],
        "message": {"text": encodable("\n".join([each.message, *each.notes, *each.help]))},
        "partialFingerprints": {FINGERPRINT: fingerprint},
    }
    places = [_location(label) for label in each.labels if label.span is not None]
    if not places and each.input:
        places = [_location(Label(each.message, Span(input_file(each.input))))]
    if places:
        result["locations"] = places[:1]
        result["relatedLocations"] = [{"id": at, **place} for at, place in enumerate(places[1:], 1)]
    if each.suppressed:
        result["suppressions"] = [{"kind": "inSource", "justification": encodable(each.suppressed)}]
    fix = about.fix_of(each)
    if fix is not None:
        result["fixes"] = [_fix(fix)]
    return result


def _fingerprint(each: Diagnostic) -> str:
    """A hash of what the finding is, not of where its lines are."""
    span = each.span
    file = os.path.basename(span.file if span is not None else input_file(each.input))  # noqa: PTH119
    if each.subject is None:
        what: Any = each.message
    else:
        subject = each.subject.identity
        what = [subject.as_json(), subject.position, subject.distance]
    text = msgspec.json.encode([each.code, encodable(file), encodable(what) if isinstance(what, str) else what])
    return hashlib.sha256(text).hexdigest()[:32]


def _location(label: Label) -> dict[str, Any]:
    span = label.span or Span("")
    region = {"startLine": max(span.line, 1)}
    if span.line and span.column:
        region["startColumn"] = span.column
        region["endColumn"] = max(span.end_column, span.column + 1)
    return {
        "physicalLocation": {"artifactLocation": {"uri": _uri(span.file)}, "region": region},
        "message": {"text": encodable(label.message)},
    }


def _fix(fix: TextFix) -> dict[str, Any]:
    """Whole lines in place of others: from the first column of one to the first column of another."""
    replacements = [
        {
            "deletedRegion": {"startLine": edit.begin, "startColumn": 1, "endLine": edit.end, "endColumn": 1},
        }
        | (
            {"insertedContent": {"text": encodable("".join(f"{line}\n" for line in edit.lines))}}
            if edit.lines
            else {}
        )
        for edit in fix.edits
    ]
    return {
        "description": {"text": encodable(fix.description)},
        "artifactChanges": [{"artifactLocation": {"uri": _uri(fix.file)}, "replacements": replacements}],
    }


def _uri(file: str) -> str:
    """A path as a reference: what a URI cannot have is escaped, bytes of a name that are not UTF-8 included."""
    try:
        return quote(os.fsencode(file))
    except UnicodeEncodeError:
        return quote(encodable(file))
