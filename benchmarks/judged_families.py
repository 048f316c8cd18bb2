"""The programs of `judges.py`: ten of each family in turn, without end.

    lists                  straight lists: subset barriers, point-to-point meetings, strided patterns, atomics
    loops, branches        with order of their own, some of it missing
    divergent              branches of each core's own choice
    rings                  loops whose patterns move: rings with phases, lines forth and back, strides
    exchanges              loops with rings of `sendrecv`
    compiled               straight ones, as compiled, and nine that have something missing or moved
    compiled loops, compiled branches
                           as compiled, and nine that lack an edge or a barrier
    semaphores             compiled ones whose order is made of semaphores, most of them barriers included, and nine
                           that have a signal or a wait missing or changed

Compiling costs more than judging, so one compiled program gives ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from random import Random

import numpy as np
from tests.checker.generate import Shape
from tests.checker.generate import random_program as random_list

import haulout
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.lower_barriers import LowerBarriers
from haulout.passes.lower_sync import LowerSync
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline
from haulout_generators.branch_programs import random_branch_program
from haulout_generators.loop_programs import damaged, random_judged_loops
from haulout_generators.mutate import mutants
from haulout_generators.programs import random_loop_program, random_program

EACH = 10
"""Programs of one family in a row."""
SHAPES = (
    Shape(cores=(2, 8)),
    Shape(cores=(2, 8), orderly=1.0, slip=0.03, unknown=0.02),
    Shape(cores=(2, 6), dependence=2.0, rendezvous=(2, 8), everyone=0.8, meeting=0.1),
    Shape(cores=(2, 5), rendezvous=(3, 10), everyone=0.05, meeting=0.3, dependence=1.0, shared=(1, 2)),
    Shape(cores=(2, 4), atomic=0.3, dependence=1.0, everyone=0.7),
)
ORDERS = (0.8, 0.9, 0.95, 1.0)


def cores(rng: Random) -> int:
    """2 to 8; small programs more often, as more of their runs are looked at."""
    return rng.choice((2, 2, 2, 3, 3, 4, 5, 6, 7, 8))


def lists(rng: Random) -> Iterator[Program]:
    while True:
        yield random_list(rng, rng.choice(SHAPES))


def judged(rng: Random, **shape: float) -> Iterator[Program]:
    while True:
        count = cores(rng)
        depth = rng.randint(1, 2) if count < 5 else 1
        yield random_judged_loops(rng, cores=(count, count), depth=depth, order=rng.choice(ORDERS), **shape)


def compiled(rng: Random) -> Iterator[Program]:
    count = cores(rng)
    source = random_program(rng, cores=count, steps=rng.randint(2, 5 if count < 5 else 3), fences=0.1)
    program = haulout.compile(source, fences=rng.choice(("minimal", "bracket"))).program
    yield program
    found = list(mutants(program, most=4, seed=rng.randrange(1000)))
    rng.shuffle(found)
    for each in found:
        yield each.program


def and_damaged(program: Program, rng: Random) -> Iterator[Program]:
    yield program
    yield from damaged(program, rng)


def compiled_loops(rng: Random) -> Iterator[Program]:
    source = random_loop_program(rng, cores=cores(rng), steps=2, depth=1 + (rng.random() < 0.2))
    return and_damaged(PassManager(standard_pipeline()).run(source, PassContext()), rng)


def compiled_branches(rng: Random) -> Iterator[Program]:
    depth = 1 + (rng.random() < 0.4)
    source = random_branch_program(rng, cores=cores(rng), depth=depth, divergent=rng.choice((0.0, 0.3)))
    passes = standard_pipeline(fences=rng.choice(("minimal", "bracket")))
    return and_damaged(PassManager(passes).run(source, PassContext()), rng)


def semaphores(rng: Random) -> Iterator[Program]:
    match rng.randrange(3):
        case 0:
            source = random_program(rng, cores=rng.randint(2, 4), steps=rng.randint(3, 6), fences=0.1)
        case 1:
            source = random_loop_program(rng, cores=rng.randint(2, 3), steps=2, depth=1)
        case _:
            source = random_branch_program(rng, cores=rng.randint(2, 3), depth=1, divergent=0.0)
    passes = [*standard_pipeline(), LowerSync()]
    if rng.random() < 0.7:
        passes.append(LowerBarriers())
    program = PassManager(passes).run(source, PassContext())
    yield program
    while True:
        yield miscounted(program, rng) if rng.random() < 0.8 else next(damaged(program, rng))


def miscounted(program: Program, rng: Random) -> Program:
    """Without a wait or signal, or with another value in it."""
    rows = program.semaphores
    if not len(rows):
        return program
    at = rng.randrange(len(rows))
    if rng.random() < 0.5:
        return program.replace(semaphores=rows.take(np.arange(len(rows)) != at))
    value = rows.value.copy()
    value[at] += rng.choice((-1, 1)) if value[at] > 1 else 1
    return program.replace(semaphores=rows.replace(value=value))


FAMILIES: dict[str, Callable[[Random], Iterator[Program]]] = {
    "lists": lists,
    "loops": judged,
    "branches": partial(judged, branches=0.7, divergent=0.1),
    "divergent": partial(judged, branches=0.7, divergent=0.8),
    "rings": partial(judged, moving=0.6, lines=0.4),
    "exchanges": partial(judged, exchanges=0.7, moving=0.3, lines=0.2, branches=0.3),
    "compiled": compiled,
    "compiled loops": compiled_loops,
    "compiled branches": compiled_branches,
    "semaphores": semaphores,
}


def programs(seed: int, first: int, end: int) -> Iterator[tuple[str, str, Program]]:
    """Those of a seed with the numbers from `first` to `end`: family, name and program."""
    names = list(FAMILIES)
    for batch in range(first // EACH, -(-end // EACH)):
        turn, at = divmod(batch, len(names))
        family = names[at]
        made = FAMILIES[family](Random(f"{seed} {family} {turn}"))
        for number, program in enumerate(islice(made, EACH), batch * EACH):
            if first <= number < end:
                yield family, f"{family}, seed {seed}, number {number}", program


def features(program: Program) -> list[str]:
    """What a program has."""
    edges, steps, meetings = program.edges, program.steps, program.meetings
    is_back = edges.target <= edges.source
    in_loop = np.zeros(len(program.blocks) + 1, np.int64)
    np.add.at(in_loop, edges.target[is_back], 1)
    np.add.at(in_loop, edges.source[is_back] + 1, -1)
    looped = np.cumsum(in_loop)[:-1][program.instructions.block] > 0
    forks = np.bincount(edges.source, minlength=len(program.blocks)) > 1
    forks[edges.target[is_back]] = False
    patterns, pattern = program.patterns, program.accesses.pattern
    strided = np.append(patterns.dim_end > patterns.dim_begin, False)[pattern]  # the last row: no pattern
    unknown = np.append(patterns.run == NONE, False)[pattern]
    members = [len(program.core_sets.members[each]) for each in program.core_sets.of]
    found = {
        f"{program.lnc} cores": True,
        "a loop": is_back.any(),
        "a branch": forks.any(),
        "divergence": program.blocks.divergent.any(),
        "a semaphore": len(program.semaphores),
        "a wait for back": program.semaphores.back.any(),
        "a subset barrier": min(members, default=program.lnc) < program.lnc,
        "a sendrecv": len(meetings),
        "a sendrecv in a loop": looped[meetings.instruction].any(),
        "strides": strided.any(),
        "strides in a loop": looped[program.accesses.instruction[strided]].any(),
        "a ring": (steps.modulus > 0).any(),
        "a ring with phase": (steps.phase > 0).any(),
        "a moving line": (steps.modulus == 0).any(),
        "a carried edge": program.dependences.carried.any(),
        "an atomic": program.accesses.atomic.any(),
        "unknown bytes": unknown.any(),
    }
    return [name for name, has in found.items() if has]
