"""What every mutant goes through: load, check, compile, simulate under all schedules when it is small, print.

It must end in a result or in `HauloutError`, within a bound of time and memory. Anything else is a finding.
"""

from __future__ import annotations

import resource
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import haulout
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import check_sound
from haulout.passes.pipeline import Fences, Sync
from haulout.sim import compare_schedules
from haulout.support.diagnostics import Diagnostic, HauloutError
from haulout.support.formats import FORMATS, renderer

SECONDS = 300
"""After so much time of the processor a mutant counts as one that hangs; one takes milliseconds, the first may
compile kernels."""
BYTES = 3 << 30
"""Address space that a mutant may use on top of what is there; a sound one uses some megabytes."""
SMALL_BYTES = 1 << 20
SMALL_INSTRUCTIONS = 2000
MOST_EXECUTED = 2_000
"""So that a loop that runs on costs little."""


class HangError(KeyboardInterrupt):
    """A mutant took longer than any should. A command takes it for Ctrl-C, not for a defect of its own."""


def consume(path: Path, fences: Fences = "minimal", sync: Sync = "edges") -> None:
    """Everything that the library does with a file; raises what it raises."""
    program = haulout.load(path)
    require_readable(program)
    require_printable(haulout.check(program))
    run(program)
    result = haulout.compile(program, fences=fences, sync=sync)
    require_readable(result.program)
    require_printable(result.diagnostics)
    run(result.program)


def require_printable(diagnostics: Sequence[Diagnostic]) -> None:
    """Every form of output takes what was found."""
    for render in map(renderer, FORMATS):
        render(diagnostics)


def require_readable(program: Program) -> None:
    """What is printed must read back, to a sound program of the same text."""
    text = print_bir(program)
    try:
        again = check_sound(parse_bir(text))
    except HauloutError as error:
        raise AssertionError(f"printed, but not read back: {error}") from error
    assert print_bir(again) == text


def run(program: Program) -> None:
    """Simulate a program that is small enough for it."""
    if int(program.locations.size.sum()) <= SMALL_BYTES and len(program.instructions) <= SMALL_INSTRUCTIONS:
        for simulate in (haulout.simulate, compare_schedules):
            try:
                simulate(program, max_instructions=MOST_EXECUTED)
            except HauloutError as error:
                refuse_defects(error)


def refuse_defects(error: HauloutError) -> None:
    """A defect that a pass reported properly is a defect all the same."""
    for each in error.diagnostics:
        if each.code == "internal-error":
            raise AssertionError(f"{each.message}\n" + "\n".join(each.notes)) from error


def traceback_of(path: Path, fences: Fences = "minimal", sync: Sync = "edges") -> str | None:
    """The traceback that a file causes, None when it ends as it should."""
    try:
        with bounds():
            consume(path, fences, sync)
    except HauloutError as error:
        try:
            require_printable(error.diagnostics)
            refuse_defects(error)
        except AssertionError as defect:
            return str(defect)
    except (Exception, HangError):
        return traceback.format_exc()
    return None


@contextmanager
def bounds(seconds: float = SECONDS) -> Iterator[list[traceback.StackSummary]]:
    """Raise `HangError` or `MemoryError` in the block rather than let it take the machine along.

    Gives the stacks where it was stopped: an empty list, or one.
    """
    stopped: list[traceback.StackSummary] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(traceback.extract_stack(frame))
        raise HangError(f"more than {seconds} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    if sys.platform == "linux":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = used + BYTES if before[1] == resource.RLIM_INFINITY else min(used + BYTES, before[1])
        resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    handler = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield stopped
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)
