"""Every judge against the checker, over generated programs: tried, agreed, and every disagreement reduced.

    python benchmarks/judges.py [--programs N] [--spin N] [--threads N] [--seed N]

The programs come from ten families in turn: straight lists with subset barriers, point-to-point meetings, strided
patterns and 2 to 8 cores; compiled programs; those with something missing; loops with order of their own; loops and
branches, some of each core's own choice, with order of their own; compiled loops, and compiled branches, with
something missing; compiled branches; programs whose order is made of semaphores, barriers included; those with a
signal or a wait missing or changed. SPIN gets the first ones that are small enough for it. `unjudged`: too large for
that judge, or a tool is missing. `alarms`: the checker reports a race or a hang where the judge sees none; `silent`:
the other way round.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from tests.checker.generate import Shape
from tests.checker.generate import random_program as random_list

import haulout
from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import print_bir
from haulout.passes.base import PassContext
from haulout.passes.lower_barriers import LowerBarriers
from haulout.passes.lower_sync import LowerSync
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline
from haulout.support.diagnostics import Diagnostic
from haulout.testing.reduce import reduce_program
from haulout_generators.branch_programs import random_branch_program
from haulout_generators.loop_programs import damaged, random_judged_loops
from haulout_generators.mutate import mutants
from haulout_generators.programs import random_loop_program, random_program
from haulout_judges import JUDGES, Outcome, Verdict, spin
from haulout_judges.checked import differs, verdict_of

SHAPES = (
    Shape(cores=(2, 8)),
    Shape(cores=(2, 8), orderly=1.0, slip=0.03, unknown=0.02),
    Shape(cores=(2, 6), dependence=2.0, rendezvous=(2, 8), everyone=0.8, meeting=0.1),
    Shape(cores=(2, 5), rendezvous=(3, 10), everyone=0.05, meeting=0.3, dependence=1.0, shared=(1, 2)),
)


def lists(rng: Random) -> Program:
    return random_list(rng, rng.choice(SHAPES))


def compiled(rng: Random) -> Program:
    source = random_program(rng, cores=rng.randint(2, 6), steps=rng.randint(3, 9), fences=0.1)
    return haulout.compile(source, fences=rng.choice(("minimal", "bracket"))).program


def broken(rng: Random) -> Program:
    found = list(mutants(compiled(rng), most=2, seed=rng.randrange(1000)))
    return rng.choice(found).program


def loops(rng: Random) -> Program:
    return random_judged_loops(rng, cores=(2, 4), depth=rng.randint(1, 2), order=rng.choice((0.8, 0.9, 1.0)))


def broken_loops(rng: Random) -> Program:
    source = random_loop_program(rng, steps=3, depth=rng.randint(1, 2))
    program = PassManager(standard_pipeline()).run(source, PassContext())
    return next(damaged(program, rng)) if rng.random() < 0.7 else program


def branches(rng: Random) -> Program:
    order = rng.choice((0.8, 0.9, 1.0))
    return random_judged_loops(rng, cores=(2, 4), depth=rng.randint(1, 2), order=order, branches=0.7)


def compiled_branches(rng: Random) -> Program:
    source = random_branch_program(rng, cores=rng.randint(2, 4), divergent=rng.choice((0.0, 0.3)))
    fences = rng.choice(("minimal", "bracket"))
    return PassManager(standard_pipeline(fences=fences)).run(source, PassContext())


def broken_branches(rng: Random) -> Program:
    return next(damaged(compiled_branches(rng), rng))


def semaphores(rng: Random) -> Program:
    match rng.randrange(3):
        case 0:
            source = random_program(rng, cores=rng.randint(2, 3), steps=rng.randint(3, 6), fences=0.1)
        case 1:
            source = random_loop_program(rng, steps=2, depth=1)
        case _:
            source = random_branch_program(rng, cores=2, divergent=0.0)
    passes = [*standard_pipeline(), LowerSync()]
    if rng.random() < 0.7:
        passes.append(LowerBarriers())
    return PassManager(passes).run(source, PassContext())


def broken_semaphores(rng: Random) -> Program:
    program = semaphores(rng)
    rows = program.semaphores
    if not len(rows):
        return program
    at = rng.randrange(len(rows))
    if rng.random() < 0.5:
        return program.replace(semaphores=rows.take(np.arange(len(rows)) != at))
    value = rows.value.copy()
    value[at] += rng.choice((-1, 1)) if value[at] > 1 else 1
    return program.replace(semaphores=rows.replace(value=value))


FAMILIES: dict[str, Callable[[Random], Program]] = {
    "lists": lists,
    "compiled": compiled,
    "broken": broken,
    "loops": loops,
    "broken loops": broken_loops,
    "branches": branches,
    "compiled branches": compiled_branches,
    "broken branches": broken_branches,
    "semaphores": semaphores,
    "broken semaphores": broken_semaphores,
}


def programs(seed: int) -> Iterator[tuple[str, Program]]:
    number = 0
    while True:
        for family, make in FAMILIES.items():
            yield f"{family} {number}", make(Random(f"{seed} {family} {number}"))
        number += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=2000, help="for the judges in Python")
    parser.add_argument("--spin", type=int, default=200)
    parser.add_argument("--threads", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wanted = dict.fromkeys(JUDGES, options.programs) | {"spin": options.spin, "threads": options.threads}
    tried = list(islice(programs(options.seed), max(wanted.values())))
    findings = [check_program(program, advise=False) for _, program in tried]
    said = Counter(verdict_of(each).outcome.value for each in findings)
    print(f"{len(tried)} programs; the checker: {dict(sorted(said.items()))}")
    print(f"{'judge':<14}{'tried':>7}{'unjudged':>10}{'clean':>7}{'race':>7}{'hang':>7}", end="")
    print(f"{'agree':>8}{'alarms':>8}{'silent':>8}{'seconds':>9}")
    differences = []
    for name, judge in JUDGES.items():
        suitable = [each for each in range(len(tried)) if name != "spin" or spin.suits(tried[each][1])]
        some = suitable[: wanted[name]]
        began = time.perf_counter()
        bare = [tried[number][1] for number in some]
        verdicts = spin.judge_all(bare) if name == "spin" else [judge(program) for program in bare]
        seconds = time.perf_counter() - began
        differences += tell(name, dict(zip(some, verdicts, strict=True)), tried, findings, seconds)
    for name, number, why in differences:
        show(name, tried[number], why)


def tell(
    name: str,
    verdicts: dict[int, Verdict],
    tried: list[tuple[str, Program]],
    findings: list[list[Diagnostic]],
    seconds: float,
) -> list[tuple[str, int, str]]:
    """Print the judge's line; returns its disagreements."""
    count = Counter(verdict.outcome for verdict in verdicts.values())
    found = []
    alarms = silent = 0
    for number, verdict in verdicts.items():
        why = differs(tried[number][1], verdict, findings[number])
        if why:
            found.append((name, number, why))
            alarms += verdict.outcome is Outcome.CLEAN
            silent += verdict.outcome is not Outcome.CLEAN
    judged = len(verdicts) - count[Outcome.UNJUDGED]
    cells = [len(verdicts), count[Outcome.UNJUDGED]]
    outcomes = [count[each] for each in (Outcome.CLEAN, Outcome.RACE, Outcome.HANG)]
    print(f"{name:<14}{cells[0]:>7}{cells[1]:>10}" + "".join(f"{each:>7}" for each in outcomes), end="")
    print(f"{judged - len(found):>8}{alarms:>8}{silent:>8}{seconds:>9.1f}", flush=True)
    return found


def show(judge: str, named: tuple[str, Program], why: str) -> None:
    """A disagreement, with the smallest program that shows it."""
    name, program = named

    def still(candidate: Program) -> bool:
        return differs(candidate, JUDGES[judge](candidate), check_program(candidate, advise=False)) == why

    print(f"\n{judge}, {name}: {why}")
    print(print_bir(reduce_program(program, still)))


if __name__ == "__main__":
    main()
