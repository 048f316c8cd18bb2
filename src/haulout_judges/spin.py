"""Judge by SPIN: the queues as Promela processes, explored by an independent model checker.

An operation that conflicts with one of another queue begins and ends in two steps; while it is in flight, the
beginning of a conflicting one is a race. Two unordered operations are in flight together in some state; two ordered
ones never are. When no process can move, the first process checks whether all operations are over.

Compiling a verifier costs seconds, so there is one for all runs: `spin.pml` is the model, and what the queues do is
data that `spin.c` reads. It begins by choosing one of the runs of a file.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout_judges import exhaustive
from haulout_judges.queues import Queues, queue_programs
from haulout_judges.straight import Semaphore, Step, runs
from haulout_judges.verdict import Verdict, hang, joined, of_pairs, unjudged
from haulout_judges.walks import NotStraightError

MAX_QUEUES = 32
MAX_STATES = 2_000
"""Of one run, with operations that take no time; `exhaustive` counts them, for no other purpose."""
RUNS_AT_ONCE = 200
MAX_DEPTH = 20_000
OPTIONS = ("-O1", "-w", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=1500", f"-DQUEUES={MAX_QUEUES}")
TIME_LIMIT = 60.0
"""Seconds to build the verifier, and for one execution of it."""


def available() -> bool:
    """True if SPIN and a C compiler are installed."""
    return shutil.which("spin") is not None and shutil.which("gcc") is not None


def suits(program: Program) -> bool:
    """True if all its runs are small enough."""
    try:
        return all(_is_small(queue_programs(steps)) for steps in runs(program))
    except NotStraightError:
        return False


def judge(program: Program) -> Verdict:
    """The verdict on all runs; `UNJUDGED` where SPIN is missing."""
    return judge_all([program])[0]


def judge_all(programs: Sequence[Program]) -> list[Verdict]:
    """The verdicts on several programs, many runs at once."""
    if not available():
        return [unjudged("spin or gcc is not installed")] * len(programs)
    found: list[list[Verdict]] = [[] for _ in programs]
    waiting: list[tuple[int, Queues]] = []
    for number, program in enumerate(programs):
        try:
            for steps in runs(program):
                waiting.append((number, queue_programs(steps)))
        except NotStraightError as error:
            found[number].append(unjudged(str(error)))
    for batch in _batches(waiting, found):
        for (number, _), verdict in zip(batch, judge_queues([made for _, made in batch]), strict=True):
            found[number].append(verdict)
    return [joined(each) for each in found]


def judge_run(steps: Sequence[Step]) -> Verdict:
    """The verdict on one run."""
    return judge_queues([queue_programs(steps)])[0]


def _batches(waiting: Sequence[tuple[int, Queues]], found: list[list[Verdict]]) -> Iterator[list[tuple[int, Queues]]]:
    batch: list[tuple[int, Queues]] = []
    for number, made in waiting:
        if not _is_small(made):
            found[number].append(unjudged(f"more than {MAX_STATES} states, or {MAX_QUEUES} queues"))
            continue
        batch.append((number, made))
        if len(batch) == RUNS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _is_small(made: Queues) -> bool:
    return len(made.queues) <= MAX_QUEUES and exhaustive.has_states(made, MAX_STATES)


def judge_queues(programs: Sequence[Queues]) -> list[Verdict]:
    """The verdicts on several runs."""
    reported = _verify(programs)
    if reported is None:
        if len(programs) == 1:
            return [unjudged("SPIN ran out of time, memory or depth")]
        half = len(programs) // 2
        return judge_queues(programs[:half]) + judge_queues(programs[half:])
    verdicts = []
    for number, made in enumerate(programs):
        mine = [line[1:] for line in reported if line[0] == number]
        if (NONE, NONE) in mine:
            verdicts.append(hang("nothing can happen any more"))
        else:
            verdicts.append(of_pairs(frozenset(made.ops[a].pair(made.ops[b]) for a, b in mine)))
    return verdicts


def _table(made: Queues) -> list[int]:
    """A run as `spin.c` reads it."""
    numbers: dict[Semaphore, int] = {}
    for op in made.ops:
        for semaphore, _ in (*op.signals, *op.needs):
            numbers.setdefault(semaphore, len(numbers))
    signals: dict[int, list[int]] = defaultdict(list)
    attending: dict[int, list[int]] = defaultdict(list)
    row = [len(made.ops), len(made.queues), len(made.wanted), len(numbers)]
    for at, (op, rivals) in enumerate(zip(made.ops, made.rivals(), strict=True)):
        needs = [each for semaphore, value in op.needs for each in (numbers[semaphore], value)]
        others = [other for other in range(rivals.bit_length()) if rivals >> other & 1]
        row += [op.rendezvous, *_list(op.waits), *_list(others), *_list(needs)]
        for semaphore, value in op.signals:
            signals[numbers[semaphore]] += (at, value)
        if op.rendezvous != NONE:
            attending[op.rendezvous].append(at)
    row += chain.from_iterable(_list(queue) for queue in made.queues)
    row += chain.from_iterable([wanted, *_list(attending[at])] for at, wanted in enumerate(made.wanted))
    row += chain.from_iterable(_list(signals[number]) for number in range(len(numbers)))
    return row


def _list(numbers: Sequence[int]) -> Iterable[int]:
    return (len(numbers), *numbers)


def _verify(programs: Sequence[Queues]) -> list[tuple[int, int, int]] | None:
    """What the verifier prints: (run, operation, operation), or (run, NONE, NONE) for one that hangs."""
    verifier = _verifier()
    tables = "\n".join(" ".join(map(str, _table(made))) for made in programs)
    (verifier.parent / "runs.txt").write_text(f"{len(programs)}\n{tables}\n")
    try:
        reported = _do(verifier.parent, str(verifier), "-E", "-n", f"-m{MAX_DEPTH}")
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    if "errors: 0" not in reported or "max search depth too small" in reported or "Search not completed" in reported:
        return None
    found = []
    for line in reported.splitlines():
        words = line.split()
        if words[:1] == ["RACE"]:
            found.append((int(words[1]), int(words[2]), int(words[3])))
        elif words[:1] == ["STUCK"]:
            found.append((int(words[1]), NONE, NONE))
    return found


@functools.cache
def _verifier() -> Path:
    """The verifier, built for this process."""
    folder = Path(tempfile.mkdtemp(prefix="haulout-spin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("spin.pml", "spin.c"):
        shutil.copy(Path(__file__).with_name(name), folder / name)
    _do(folder, "spin", f"-DQUEUES={MAX_QUEUES}", "-a", "spin.pml")
    _do(folder, "gcc", *OPTIONS, "-o", "pan", "pan.c")
    return folder / "pan"


def _do(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT, check=True)
    return done.stdout
