"""Exit statuses, and the end of a command: its result or exception as a status and as findings.

Every command imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

import functools
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import ParamSpec

import click

from haulout import __version__
from haulout.cli.summary import Outcome, Summary
from haulout.support.colours import wants_colour
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity, error_text
from haulout.support.files import holding_streams, is_stdout
from haulout.support.formats import LINES, RENDERERS
from haulout.support.jit import watch_compilation
from haulout.support.render import About, Rule, TextFix

P = ParamSpec("P")

CLEAN, FOUND, BAD_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130
_STATUS = {"bad-input": BAD_INPUT, "internal-error": INTERNAL}


def exit_status(diagnostics: Sequence[Diagnostic]) -> int:
    """0: only notes; 2: bad input; 3: a defect of haulout; 1: any other error or warning."""
    codes = {_STATUS.get(each.code, FOUND) for each in diagnostics if each.severity > Severity.NOTE}
    return next((status for status in (INTERNAL, BAD_INPUT, FOUND) if status in codes), CLEAN)


def emit(
    diagnostics: Sequence[Diagnostic],
    style: str,
    *,
    err: bool = False,
    summary: Summary | None = None,
    sections: Mapping[str, object] | None = None,
    fix_of: Callable[[Diagnostic], TextFix | None] = lambda _: None,
) -> None:
    """Print findings to stdout, or to stderr if stdout has a result. Lines are empty without findings.

    `summary` has the figures of the command for `--format json`, `sections` what else its document has. The outcome
    is counted here.
    """
    if not diagnostics and style in LINES:
        return
    colour = style == "text" and wants_colour(sys.stderr if err else sys.stdout)
    context = click.get_current_context(silent=True)
    command = context.info_name or "" if context is not None and context.parent is not None else ""
    figures = with_outcome(summary or {}, diagnostics)
    about = About(command, __version__, figures, sections or {}, colour=colour, fix_of=fix_of)
    if style == "sarif":
        about = replace(about, rules=_rules())
    click.echo(RENDERERS[style](diagnostics, about), err=err, color=True if colour else None)


def with_outcome(summary: Summary, diagnostics: Sequence[Diagnostic]) -> Summary:
    """The summary with the counts of findings and the exit status that they give."""
    kept = [each for each in diagnostics if not each.suppressed]
    serious = [each for each in kept if each.severity > Severity.NOTE]
    outcome: Outcome = {
        "findings": len(serious),
        "notes": len(kept) - len(serious),
        "suppressed": len(diagnostics) - len(kept),
        "exit_status": exit_status(kept),
    }
    outcome |= summary.get("outcome", {})
    return {"outcome": outcome, **{key: value for key, value in summary.items() if key != "outcome"}}  # type: ignore[typeddict-item]


def _rules() -> dict[str, Rule]:
    """The catalog of codes, for SARIF."""
    from haulout.report.catalog import CATALOG

    return {
        code: Rule(entry.what.split(". ")[0].rstrip(".") + ".", f"{entry.what}\n\n{entry.why}", entry.fix)
        for code, entry in CATALOG.items()
    }


def takes_stdout(output: object) -> bool:
    """Whether `-o` is stdout, so that messages go to stderr."""
    return isinstance(output, str) and is_stdout(output)


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Exit with the result of a command as the status; print an exception as a diagnostic, never as a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        style = str(kwargs.get("style") or "text")
        announced = nullcontext() if kwargs.get("quiet") else watch_compilation(_Announcement())
        raised: Sequence[Diagnostic] = ()
        try:
            with announced, holding_streams():
                status = command(*args, **kwargs)
        except KeyboardInterrupt:
            status = interrupted()
        except click.ClickException:  # wrong usage: click prints it and exits with 2
            raise
        except Exception as error:
            raised = findings_of(error)
            status = exit_status(raised)
        if raised:
            emit(raised, style, err=takes_stdout(kwargs.get("output")))
        sys.stdout.flush()
        sys.exit(status)

    return run


def findings_of(error: Exception) -> Sequence[Diagnostic]:
    """What ended the work, as findings."""
    if isinstance(error, HauloutError):
        return error.diagnostics
    if isinstance(error, MemoryError):
        message = "the machine has too little memory for this program"
        return [Diagnostic("out-of-memory", Severity.ERROR, message)]
    return [defect(error)]


class _Announcement:
    """A message before the first kernel is compiled: this run takes longer than the next one."""

    _done = False

    def __call__(self, _kernel: str) -> None:
        if not self._done:
            self._done = True
            click.echo("compiling kernels for this machine (once) ...", err=True)


def interrupted() -> int:
    """Print that Ctrl-C ended the work, and return the exit status."""
    click.echo("interrupted", err=True)
    return INTERRUPTED


def defect(error: Exception) -> Diagnostic:
    """A defect of haulout as a diagnostic; the traceback goes to a file for a report."""
    text = f"haulout {' '.join(sys.argv[1:])}\n\n" + "".join(traceback.format_exception(error))
    message = f"{type(error).__name__}: {error_text(error)}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="haulout-crash-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(text)
    except OSError:
        notes = tuple(text.splitlines())
        return Diagnostic("internal-error", Severity.ERROR, message, (), notes, ("this is a defect of haulout",))
    help_text = f"this is a defect of haulout; please report it with {file.name} and the input"
    return Diagnostic("internal-error", Severity.ERROR, message, help=(help_text,))
