"""Judge by SPIN: the queues as Promela processes, explored by an independent model checker.

An operation that conflicts with one of another queue begins and ends in two steps; while it is in flight, the
beginning of a conflicting one is a race, reported by embedded C. Two unordered operations are in flight together in
some state; two ordered ones never are. When no process can move, the first process checks whether all operations are
over.

Compiling a verifier costs more than running it, so several runs go into one model, which begins by choosing one.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout_judges.queues import OpKind, Queues, queue_programs
from haulout_judges.straight import Semaphore, Step, runs
from haulout_judges.verdict import Verdict, hang, joined, of_pairs, unjudged
from haulout_judges.walks import NotStraightError

MAX_PROCESSES = 150
"""Process types of one model; SPIN takes 255."""
MAX_STATES = 3_000_000
"""Of one run, if its queues were independent of each other: an upper bound that is easy to compute."""
MAX_DEPTH = 20_000
OPTIONS = ("-O1", "-w", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=1500")
TIME_LIMIT = 60.0
"""Seconds to build one verifier, and to run it."""


def available() -> bool:
    """True if SPIN and a C compiler are installed."""
    return shutil.which("spin") is not None and shutil.which("gcc") is not None


def suits(program: Program) -> bool:
    """True if all its runs are small enough."""
    try:
        return all(_states(queue_programs(steps)) <= MAX_STATES for steps in runs(program))
    except NotStraightError:
        return False


def judge(program: Program) -> Verdict:
    """The verdict on all runs; `UNJUDGED` where SPIN is missing."""
    return judge_all([program])[0]


def judge_all(programs: Sequence[Program]) -> list[Verdict]:
    """The verdicts on several programs, many to a model."""
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
    size = 0
    for number, made in waiting:
        if _states(made) > MAX_STATES or len(made.queues) > MAX_PROCESSES:
            found[number].append(unjudged(f"perhaps more than {MAX_STATES} states"))
            continue
        if batch and size + len(made.queues) > MAX_PROCESSES:
            yield batch
            batch, size = [], 0
        batch.append((number, made))
        size += len(made.queues)
    if batch:
        yield batch


def _states(made: Queues) -> int:
    return prod(1 + len(_queue(0, made, queue)) for queue in made.queues)


def judge_queues(programs: Sequence[Queues]) -> list[Verdict]:
    """The verdicts on several runs in one model."""
    reported = _verify(promela(programs))
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


# -- the model -------------------------------------------------------------------------------------------------------

_HEAD = """c_decl {{
  \\#include <stdio.h>
  static unsigned char printed[{programs}][{ops}][{ops}];
  static unsigned char stuck[{programs}];
  static void print_race(int program, int one, int other) {{
    if (!printed[program][one][other]) {{
      printed[program][one][other] = 1;
      printf("RACE %d %d %d\\n", program, one, other);
    }}
  }}
  static void print_stuck(int program) {{
    if (!stuck[program]) {{ stuck[program] = 1; printf("STUCK %d\\n", program); }}
  }}
}}
bool over[{ops}];
bool in_flight[{ops}];
short count[{semaphores}];
byte arrived[{rendezvous}];
byte left;
"""


def promela(programs: Sequence[Queues]) -> str:
    """The model of several runs."""
    sizes = {
        "programs": len(programs),
        "ops": max(max(len(made.ops) for made in programs), 1),
        "semaphores": max(max(len(_semaphores(made)) for made in programs), 1),
        "rendezvous": max(max(len(made.wanted) for made in programs), 1),
    }
    lines = [_HEAD.format(**sizes)]
    for number, made in enumerate(programs):
        for queue in range(len(made.queues)):
            lines.append(f"proctype p{number}_{queue}() {{")
            lines += _queue(number, made, made.queues[queue])
            lines.append("}")
    lines += ["init {", "  byte chosen;", "  atomic {", "    if"]
    lines += [f"    :: chosen = {number}" for number in range(len(programs))]
    lines += ["    fi;", "    if"]
    for number, made in enumerate(programs):
        started = "".join(f" run p{number}_{queue}();" for queue in range(len(made.queues)))
        lines.append(f"    :: chosen == {number} -> left = {len(made.ops)};{started} skip")
    lines += ["    fi", "  };", "  timeout;", "  if", "  :: left == 0", "  :: else ->"]
    lines += ["    c_code { print_stuck(Pinit->chosen); }", "  fi", "}"]
    return "\n".join(lines) + "\n"


def _queue(number: int, made: Queues, queue: Sequence[int]) -> list[str]:
    """The body of a process. An operation without waits and conflicts is joined to the one before it: that hides no
    state in which two operations are in flight.
    """
    lines: list[str] = []
    numbers, all_rivals = _semaphores(made), made.rivals()
    for at in queue:
        op = made.ops[at]
        guards = ["false" if each == NONE else f"over[{each}]" for each in op.waits]
        guards += [f"count[{numbers[semaphore]}] >= {value}" for semaphore, value in op.needs]
        guard = " && ".join(guards) or "true"
        ends = f"over[{at}] = true; left--"
        ends += "".join(
            f"; count[{numbers[semaphore]}] = count[{numbers[semaphore]}] + {value}"
            for semaphore, value in op.signals
        )
        rivals = [other for other in range(len(made.ops)) if all_rivals[at] >> other & 1]
        if op.kind is OpKind.ATTEND:
            wanted = made.wanted[op.rendezvous]
            met = f"arrived[{op.rendezvous}] == {wanted}" if wanted != NONE else "false"
            lines += [f"  d_step {{ {guard} -> arrived[{op.rendezvous}]++", f"  d_step {{ {met} -> {ends}"]
        elif rivals:
            tests = (
                f"if (now.in_flight[{each}]) print_race({number}, {min(at, each)}, {max(at, each)});"
                for each in rivals
            )
            lines.append(f"  d_step {{ {guard} -> in_flight[{at}] = true; c_code {{ {' '.join(tests)} }}")
            lines.append(f"  d_step {{ in_flight[{at}] = false; {ends}")
        elif lines and guard == "true":
            lines[-1] += f"; {ends}"
        else:
            lines.append(f"  d_step {{ {guard} -> {ends}")
    return [line + " };" for line in lines]


def _semaphores(made: Queues) -> dict[Semaphore, int]:
    """Numbers of the semaphores of a run."""
    used = [semaphore for op in made.ops for semaphore, _ in (*op.signals, *op.needs)]
    return {semaphore: number for number, semaphore in enumerate(dict.fromkeys(used))}


def _verify(model: str) -> list[tuple[int, int, int]] | None:
    """What the verifier prints: (run, operation, operation), or (run, NONE, NONE) for one that hangs."""
    with tempfile.TemporaryDirectory(prefix="haulout-spin-") as name:
        folder = Path(name)
        (folder / "model.pml").write_text(model)
        try:
            _do(folder, "spin", "-a", "model.pml")
            _do(folder, "gcc", *OPTIONS, "-o", "pan", "pan.c")
            reported = _do(folder, "./pan", "-E", "-n", f"-m{MAX_DEPTH}")
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


def _do(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT, check=True)
    return done.stdout
