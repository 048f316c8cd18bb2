"""Judge by SPIN: the queues as Promela processes, explored by a model checker that knows nothing of ours.

An operation that conflicts with one of another queue begins and ends in two steps; while it is in flight, the
beginning of a conflicting one is a race, told by embedded C. Two operations that nothing orders are in flight
together in some state; two that are ordered never are. When no process can move, the first process looks whether all
operations are over.

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
from haulout_judges.queues import Does, Queues, queue_programs
from haulout_judges.straight import Semaphore, Step, runs
from haulout_judges.verdict import Verdict, hang, joined, of_pairs, unjudged
from haulout_judges.walks import NotStraightError

MOST_PROCESSES = 150
"""Process types of one model; SPIN takes 255."""
MOST_STATES = 3_000_000
"""Of one run, if its queues were independent of each other: the bound that is easy to know."""
DEPTH = 20_000
OPTIONS = ("-O1", "-w", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=1500")
TIME_LIMIT = 60.0
"""Seconds for one verifier to be made, and to run."""


def available() -> bool:
    """Whether SPIN and a C compiler are at hand."""
    return shutil.which("spin") is not None and shutil.which("gcc") is not None


def suits(program: Program) -> bool:
    """Whether all its runs are small enough."""
    try:
        return all(_states(queue_programs(steps)) <= MOST_STATES for steps in runs(program))
    except NotStraightError:
        return False


def judge(program: Program) -> Verdict:
    """The verdict on all runs; `UNJUDGED` where SPIN is missing."""
    return judge_all([program])[0]


def judge_all(programs: Sequence[Program]) -> list[Verdict]:
    """The verdicts on several programs, many to a model."""
    if not available():
        return [unjudged("spin or gcc is not at hand")] * len(programs)
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
        if _states(made) > MOST_STATES or len(made.queues) > MOST_PROCESSES:
            found[number].append(unjudged(f"perhaps more than {MOST_STATES} states"))
            continue
        if batch and size + len(made.queues) > MOST_PROCESSES:
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
    told = _verify(promela(programs))
    if told is None:
        if len(programs) == 1:
            return [unjudged("SPIN ran out of time, memory or depth")]
        half = len(programs) // 2
        return judge_queues(programs[:half]) + judge_queues(programs[half:])
    verdicts = []
    for number, made in enumerate(programs):
        mine = [line[1:] for line in told if line[0] == number]
        if (NONE, NONE) in mine:
            verdicts.append(hang("nothing can happen any more"))
        else:
            verdicts.append(of_pairs(frozenset(made.ops[a].pair(made.ops[b]) for a, b in mine)))
    return verdicts


# -- the model -------------------------------------------------------------------------------------------------------

_HEAD = """c_decl {{
  \\#include <stdio.h>
  static unsigned char told[{programs}][{ops}][{ops}];
  static unsigned char stuck[{programs}];
  static void tell(int program, int one, int other) {{
    if (!told[program][one][other]) {{
      told[program][one][other] = 1;
      printf("RACE %d %d %d\\n", program, one, other);
    }}
  }}
  static void tell_stuck(int program) {{
    if (!stuck[program]) {{ stuck[program] = 1; printf("STUCK %d\\n", program); }}
  }}
}}
bool over[{ops}];
bool flies[{ops}];
short count[{semaphores}];
byte came[{meetings}];
byte left;
"""


def promela(programs: Sequence[Queues]) -> str:
    """The model of several runs."""
    sizes = {
        "programs": len(programs),
        "ops": max(max(len(made.ops) for made in programs), 1),
        "semaphores": max(max(len(_semaphores(made)) for made in programs), 1),
        "meetings": max(max(len(made.wanted) for made in programs), 1),
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
    lines += ["    c_code { tell_stuck(Pinit->chosen); }", "  fi", "}"]
    return "\n".join(lines) + "\n"


def _queue(number: int, made: Queues, queue: Sequence[int]) -> list[str]:
    """The body of a process. What waits for nothing and conflicts with nothing happens together with what is before
    it: that hides no state in which two operations fly.
    """
    lines: list[str] = []
    numbers = _semaphores(made)
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
        rivals = [other for other, rival in enumerate(made.ops) if rival.queue != op.queue and op.conflicts(rival)]
        if op.does is Does.MEET:
            wanted = made.wanted[op.meeting]
            met = f"came[{op.meeting}] == {wanted}" if wanted != NONE else "false"
            lines += [f"  d_step {{ {guard} -> came[{op.meeting}]++", f"  d_step {{ {met} -> {ends}"]
        elif rivals:
            looks = (f"if (now.flies[{each}]) tell({number}, {min(at, each)}, {max(at, each)});" for each in rivals)
            lines.append(f"  d_step {{ {guard} -> flies[{at}] = true; c_code {{ {' '.join(looks)} }}")
            lines.append(f"  d_step {{ flies[{at}] = false; {ends}")
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
            told = _do(folder, "./pan", "-E", "-n", f"-m{DEPTH}")
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return None
    if "errors: 0" not in told or "max search depth too small" in told or "Search not completed" in told:
        return None
    found = []
    for line in told.splitlines():
        words = line.split()
        if words[:1] == ["RACE"]:
            found.append((int(words[1]), int(words[2]), int(words[3])))
        elif words[:1] == ["STUCK"]:
            found.append((int(words[1]), NONE, NONE))
    return found


def _do(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT, check=True)
    return done.stdout
