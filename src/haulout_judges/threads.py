"""Judge by the thread sanitizer of gcc: one thread a queue, run once (`threads.c`).

The sanitizer follows happens-before through what it sees of a real run: barriers, and flags set with release and read
with acquire. The order of a program is the same in every run, so one run shows every race, up to what the sanitizer
forgets. It names no pairs here. `gcc` builds the interpreter once a process.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout_judges.needed import semaphores_to_waits
from haulout_judges.queues import queue_programs
from haulout_judges.straight import Step, runs
from haulout_judges.verdict import Outcome, Verdict, hang, joined, unjudged
from haulout_judges.walks import MAX_RUNS, NotStraightError

SOURCE = Path(__file__).with_name("threads.c")
RACE, STUCK = 66, 77
MAX_QUEUES = 200
MAX_STEPS = 5000
"""Of one run. It is linear in them, unlike other judges."""
TIME_LIMIT = 60.0
"""Seconds for one run; a run normally ends much earlier."""


def judge(program: Program, most_runs: int = MAX_RUNS) -> Verdict:
    """The verdict on all runs, or on so many of them; `UNJUDGED` where gcc or its sanitizer is missing."""
    if interpreter() is None:
        return unjudged("gcc with -fsanitize=thread is not installed")
    try:
        return joined([judge_run(steps) for steps in runs(program, most_runs, most_steps=MAX_STEPS)])
    except NotStraightError as error:
        return unjudged(str(error))


def judge_run(steps: Sequence[Step]) -> Verdict:
    """The verdict on one run."""
    command = interpreter()
    assert command is not None
    made = queue_programs(steps)
    if len(made.queues) > MAX_QUEUES:
        return unjudged(f"more than {MAX_QUEUES} queues")
    if not semaphores_to_waits(made):
        return unjudged("too many signals of several queues to one semaphore")
    count = max((max(op.reads | op.writes, default=NONE) for op in made.ops), default=NONE) + 1
    lines = [f"{len(made.queues)} {len(made.ops)} {count} {len(made.wanted)}", _row(made.wanted)]
    for queue in made.queues:
        lines.append(str(len(queue)))
        for number in queue:
            op = made.ops[number]
            bytes_of = sorted(op.reads - op.writes), sorted(op.writes)
            lists = " ".join(f"{len(each)} {_row(each)}" for each in (op.waits, *bytes_of))
            lines.append(f"{number} {int(op.kind)} {op.rendezvous} {lists}")
    path = command.with_suffix(".txt")
    path.write_text("\n".join(lines) + "\n")
    status = _run(command, path)
    if status != RACE:
        # A thread may just have been slow, and two accesses at the very same time are not seen.
        again = _run(command, path)
        status = again if again == RACE or status == STUCK else status
    if status == STUCK:
        return hang("no thread makes progress")
    if status not in (0, RACE):
        return unjudged(f"the interpreter ended with status {status}")
    return Verdict(Outcome.RACE if status == RACE else Outcome.CLEAN)


def _row(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def _run(command: Path, path: Path) -> int:
    environment = {"TSAN_OPTIONS": f"exitcode={RACE} symbolize=0 report_signal_unsafe=0", "PATH": "/usr/bin:/bin"}
    try:
        done = subprocess.run(
            [*_fixed_addresses(), str(command), str(path)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return STUCK
    return done.returncode


@functools.cache
def _fixed_addresses() -> tuple[str, ...]:
    """Older sanitizers do not start with strong address randomization."""
    setarch = shutil.which("setarch")
    if setarch is None:
        return ()
    tried = subprocess.run([setarch, "-R", "true"], capture_output=True, check=False)
    return (setarch, "-R") if tried.returncode == 0 else ()


@functools.cache
def interpreter() -> Path | None:
    """The interpreter, built for this process; None where gcc cannot build it or it does not run."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="haulout-threads-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = folder / "threads"
    options = ["-std=gnu11", "-O1", "-fsanitize=thread", "-pthread"]
    built = subprocess.run([gcc, *options, str(SOURCE), "-o", str(made)], capture_output=True, check=False)
    if built.returncode != 0:
        return None
    empty = folder / "empty.txt"
    empty.write_text("0 0 0 0\n")
    return made if _run(made, empty) == 0 else None
