"""The command as a process: errors of its environment do not end in a traceback.

stdout, stderr   characters outside the encoding are escaped; writes to a closed stream or pipe are dropped and do not
                 change the status; any other failure of stdout (a full disk) is one error at the end
Ctrl-C           one line, status 130, at any time
warnings         of other packages go to the log; `-W` and PYTHONWARNINGS show them
"""

from __future__ import annotations

import io
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from haulout.cli.status import BAD_INPUT, CLEAN, INTERNAL, INTERRUPTED, defect, emit, interrupted

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

RESEND_DELAY = 0.02
"""Seconds before a Ctrl-C is sent again that Python dropped, in a destructor or in a callback from C."""


class Commands(click.Group):
    """The group of commands. A call runs it as the process; `main` runs it inside another process, as tests do.

    A command is imported when it is called or when its own help is printed. The list of commands is a table.
    """

    def __init__(self, *args: Any, short_help_of: Mapping[str, str], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._short_help_of = short_help_of

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(self._short_help_of)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, from the module of that name."""
        if cmd_name not in self._short_help_of:
            return None
        module = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"haulout.cli.{module}"), module)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Import the command and run it. Ctrl-C becomes an abort: click prints an empty line for other exceptions."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._short_help_of[name]) for name in self.list_commands(ctx)])

    def __call__(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the command line and end the process."""
        run_as_process(lambda: self.main(*args, **extra))

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run one command line; ends in `SystemExit` with the status."""
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **extra)
        try:
            status = run(*args, standalone_mode=False, **extra)
        except click.Abort:
            status = interrupted()
        except click.ClickException as error:
            error.show()
            status = BAD_INPUT
        except Exception as error:
            emit([defect(error)], "text")
            status = INTERNAL
        sys.exit(status if isinstance(status, int) else CLEAN)


def run_as_process(command: Callable[[], object]) -> NoReturn:
    """Run `command`, which ends in `SystemExit`, with streams that do not fail, and end the process."""
    out, _ = _open_streams()
    sys.unraisablehook = _interrupt_again
    if not sys.warnoptions:
        logging.captureWarnings(True)
    try:
        command()
        status = CLEAN
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else CLEAN if end.code is None else INTERNAL
    except KeyboardInterrupt:
        status = interrupted()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.flush()
    if out is not None and out.failed is not None and not isinstance(out.failed, BrokenPipeError):
        click.echo(f"error[bad-input]: cannot write to stdout: {out.failed.strerror}", err=True)
        status = status if status in (INTERNAL, INTERRUPTED) else BAD_INPUT
    sys.exit(status)


class _Sink(io.RawIOBase):
    """A stream that accepts every write; after the first failure writes have no effect."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self.failed: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def isatty(self) -> bool:
        return self._raw.isatty()

    def write(self, data: ReadableBuffer) -> int:
        try:
            while self.failed is None:
                written = self._raw.write(data)
                if written is not None:
                    return written
                select.select([], [self._raw], [])  # another process has made the stream non-blocking
        except OSError as error:
            self.failed = error
        return memoryview(data).nbytes


def _open_streams() -> tuple[_Sink | None, _Sink | None]:
    """Replace stdout and stderr with such streams; None for a stream that does not belong to the process."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # A file that is opened later must not get the number of a stream.
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)
    sinks: list[_Sink | None] = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        sink = None
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif isinstance(stream, io.TextIOWrapper):
            with suppress(OSError, ValueError):
                stream.flush()
            sink = _Sink(getattr(stream.buffer, "raw", stream.buffer))  # type: ignore[arg-type]
            wrapped = io.TextIOWrapper(
                io.BufferedWriter(sink),
                encoding=stream.encoding,
                errors="backslashreplace",
                line_buffering=stream.line_buffering,
            )
            setattr(sys, name, wrapped)
        sinks.append(sink)
    return sinks[0], sinks[1]


def _interrupt_again(unraisable: Any) -> None:
    """Send a Ctrl-C again that Python could not raise; print any other exception as usual."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        # To the main thread, or what it waits for would not end before the wait is over.
        main = threading.main_thread().ident
        threading.Timer(RESEND_DELAY, signal.pthread_kill, [main, signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(unraisable)
