"""Exit statuses, and the end of a command: its result or exception as a status and as findings.

Every command imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

import functools
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import ParamSpec

import click

from haulout.support.diagnostics import Diagnostic, HauloutError, Severity, error_text
from haulout.support.files import is_stdout
from haulout.support.formats import LINES, RENDERERS
from haulout.support.jit import watch_compilation

P = ParamSpec("P")

CLEAN, FOUND, BAD_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130
_STATUS = {"bad-input": BAD_INPUT, "internal-error": INTERNAL}


def exit_status(diagnostics: Sequence[Diagnostic]) -> int:
    """0: only notes; 2: bad input; 3: a defect of haulout; 1: any other error or warning."""
    codes = {_STATUS.get(each.code, FOUND) for each in diagnostics if each.severity > Severity.NOTE}
    return next((status for status in (INTERNAL, BAD_INPUT, FOUND) if status in codes), CLEAN)


def emit(diagnostics: Sequence[Diagnostic], style: str, *, err: bool = False) -> None:
    """Print findings to stdout, or to stderr if stdout has a result. Lines are empty without findings."""
    if diagnostics or style not in LINES:
        click.echo(RENDERERS[style](diagnostics), err=err)


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
            with announced:
                status = command(*args, **kwargs)
        except HauloutError as error:
            raised, status = error.diagnostics, exit_status(error.diagnostics)
        except MemoryError:
            message = "the machine has too little memory for this program"
            raised, status = [Diagnostic("out-of-memory", Severity.ERROR, message)], FOUND
        except KeyboardInterrupt:
            status = interrupted()
        except Exception as error:
            raised, status = [defect(error)], INTERNAL
        if raised:
            emit(raised, style, err=takes_stdout(kwargs.get("output")))
        sys.stdout.flush()
        sys.exit(status)

    return run


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
