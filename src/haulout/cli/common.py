"""What all commands share: exit statuses, output formats, progress and the log on stderr."""

from __future__ import annotations

import functools
import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from haulout.ir.schema import MAX_CORES, SIZE_MAX
from haulout.passes.manager import PassRecord
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity, error_text
from haulout.support.files import is_stdout
from haulout.support.render import RENDERERS

P = ParamSpec("P")

_MOMENT = 0.5
"""Seconds without a progress bar."""
CLEAN, FOUND, BAD_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130
_STATUS = {"bad-input": BAD_INPUT, "internal-error": INTERNAL}


def exit_status(diagnostics: Sequence[Diagnostic]) -> int:
    """0: nothing but notes; 2: bad input; 3: a defect of ours; 1: any other error or warning."""
    codes = {_STATUS.get(each.code, FOUND) for each in diagnostics if each.severity > Severity.NOTE}
    return next((status for status in (INTERNAL, BAD_INPUT, FOUND) if status in codes), CLEAN)


def emit(diagnostics: Sequence[Diagnostic], style: str, *, err: bool = False) -> None:
    """Print findings to stdout, or to stderr when stdout carries a result; as text only when there are any."""
    if diagnostics or style != "text":
        click.echo(RENDERERS[style](diagnostics), err=err)


CORES = click.IntRange(1, MAX_CORES)
BYTES = click.IntRange(0, SIZE_MAX)
"""A size in memory, as readers of programs take it."""


def takes_stdout(output: object) -> bool:
    """Whether the result that `-o` names goes to stdout: what is said about it then goes to stderr."""
    return isinstance(output, str) and is_stdout(output)


format_option = click.option(
    "--format",
    "style",
    type=click.Choice(list(RENDERERS)),
    default="text",
    show_default=True,
    help="Form of the findings.",
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")


def _start_log(context: click.Context, _parameter: click.Parameter, level: str | None) -> None:
    """Send the package's log to stderr while the command runs."""
    if level is None:
        return
    log, handler = logging.getLogger("haulout"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(level.upper())

    def stop() -> None:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)

    context.call_on_close(stop)


log_option = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    callback=_start_log,
    expose_value=False,
    help="Log to stderr what passes do; at debug, what the analysis of shared lifetimes finds.",
)


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Turn what a command returns into the exit status, and what it raises into a diagnostic, never a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        style = str(kwargs.get("style") or "text")
        raised: Sequence[Diagnostic] = ()
        try:
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


def interrupted() -> int:
    """Say that Ctrl-C ended the work; gives the exit status."""
    click.echo("interrupted", err=True)
    return INTERRUPTED


def defect(error: Exception) -> Diagnostic:
    """A defect of ours as a diagnostic; the traceback goes to a file that can be sent."""
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


def plain_console(*, stderr: bool = False) -> Console:
    """Tables and lines, 100 columns wide in a file; text is printed as it is, not read as markup."""
    width = None if (sys.stderr if stderr else sys.stdout).isatty() else 100
    return Console(highlight=False, markup=False, emoji=False, stderr=stderr, width=width)


def pass_progress(quiet: bool) -> Callable[[PassRecord], None] | None:
    """A line on stderr after each pass."""
    if quiet:
        return None

    def tell(record: PassRecord) -> None:
        order = "  " if record.order is None else str(record.order)
        click.echo(f"{order} {record.name:<44} {record.seconds:8.3f} s  {record.status.value}", err=True)

    return tell


@contextmanager
def progress_bar(label: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr that appears when the work takes more than a moment; gives `progress(done, total)`."""
    if quiet:
        yield None
        return
    began = time.monotonic()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(label, visible=False)
        yield lambda done, total: bar.update(
            task, completed=done, total=total, visible=time.monotonic() - began > _MOMENT
        )
