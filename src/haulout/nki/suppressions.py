"""Comments in a kernel's file that accept a finding: `# haulout: ignore[cross-core-race] the host orders the calls`.

A comment concerns the findings of its code that have a place on its statement. It needs a reason, and it does not
make a kernel proved: suppressed findings are counted, and written with their reason. A comment that has no effect is
a finding itself: `invalid-suppression` (an unknown code, no reason) or `unused-suppression` (no such finding there,
in a function that was traced).
"""

from __future__ import annotations

import ast
import io
import linecache
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from haulout.frontends.nki import Trace
from haulout.frontends.nki.findings import shown_path, span_at
from haulout.report.catalog import CATALOG
from haulout.support.diagnostics import Diagnostic, Label, Severity

_COMMENT = re.compile(r"#\s*haulout:\s*ignore\b\s*(?:\[([^\]]*)\])?\s*(.*)")


@dataclass(slots=True)
class Suppression:
    """One code of one comment."""

    code: str
    reason: str
    file: str
    line: int
    lines: range
    """The lines of its statement."""
    used: bool = False

    def covers(self, finding: Diagnostic) -> bool:
        """Whether it is about a finding: its code, and one of its places."""
        shown = shown_path(self.file)
        return finding.code == self.code and any(
            label.span is not None and label.span.file == shown and label.span.line in self.lines
            for label in finding.labels
        )


def suppress(found: Sequence[Diagnostic], trace: Trace) -> list[Diagnostic]:
    """Findings with those that comments accept marked as suppressed, and findings about the comments."""
    comments: list[Suppression] = []
    wrong: list[Diagnostic] = []
    for file, lines in _traced_lines(trace).items():
        text = "".join(linecache.getlines(file))
        if "haulout:" in text:
            in_file, invalid = _comments(file, text, lines)
            comments += in_file
            wrong += invalid
    if not comments and not wrong:
        return list(found)
    marked = [_marked(each, comments) for each in found]
    wrong += [
        Diagnostic(
            "unused-suppression",
            Severity.WARNING,
            f"there is no {each.code} on this line",
            (Label("here", span_at((each.file, each.line))),),
            help=("remove the comment",),
        )
        for each in comments
        if not each.used
    ]
    return [*marked, *wrong]


def _marked(finding: Diagnostic, comments: Iterable[Suppression]) -> Diagnostic:
    reasons = []
    for each in comments:
        if each.covers(finding):
            each.used = True
            reasons.append(each.reason)
    return replace(finding, suppressed=reasons[0]) if reasons else finding


def _traced_lines(trace: Trace) -> Mapping[str, set[int]]:
    """The lines of each file that recorded an instruction, and that of the kernel."""
    found: dict[str, set[int]] = {}
    places = {record.place for recorder in trace.recorders for record in recorder.records}
    places |= {storage.place for recorder in trace.recorders for storage in recorder.storages}
    for file, line in (trace.place, *places):
        if file:
            found.setdefault(file, set()).add(line)
    return found


def _comments(file: str, text: str, traced: set[int]) -> tuple[list[Suppression], list[Diagnostic]]:
    """The valid comments of the functions that were traced, and what is wrong with the others."""
    try:
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return [], []
    functions = [_lines(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    run = [each for each in functions if any(line in each for line in traced)]
    statements = [_lines(node) for node in ast.walk(tree) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    found: list[Suppression] = []
    wrong: list[Diagnostic] = []
    for token in tokens:
        comment = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
        line = token.start[0]
        if comment is None or not any(line in each for each in run):
            continue
        lines = next((each for each in statements if line in each), range(line, line + 1))
        codes = [code.strip() for code in (comment.group(1) or "").split(",") if code.strip()]
        reason = comment.group(2).strip()
        if problem := _problem(codes, reason):
            label = Label("here", span_at((file, line)))
            help = ("# haulout: ignore[cross-core-race] the reason why it is none",)
            wrong.append(Diagnostic("invalid-suppression", Severity.WARNING, problem, (label,), help=help))
        else:
            found += [Suppression(code, reason, file, line, lines) for code in codes]
    return found, wrong


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _problem(codes: Sequence[str], reason: str) -> str | None:
    """What makes a comment invalid."""
    if not codes:
        return "this comment names no code of a finding, so it has no effect"
    unknown = [code for code in codes if code not in CATALOG]
    if unknown:
        return f"this comment names {unknown[0]!r}, which is no code of a finding, so it has no effect"
    return None if reason else "this comment gives no reason, so it has no effect"
