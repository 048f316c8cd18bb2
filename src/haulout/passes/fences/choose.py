"""Which of several equally good placements: the cost model has the last word.

The phases say how many fences there must be, and leave slack: where in a core's list each may stand. Five ways to
use it have the same count and are all correct:

    source     at the time of the source, on every core alike (the one kept when no other is better)
    earliest   every instruction in its least phase: fences stand as late as can be
    latest     every instruction in its largest phase: fences stand as early as can be
    fill       what a core would wait, it works (`analysis/balance.py`)
    even       the best of these, each fence moved to where the two phases beside it take least

Each is estimated on the target (`analysis/makespan.py`) and the shortest is taken. With a capacity, of those whose
live bytes fit; where none does, it is `source`, because the fences that free storage stand at source time, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from haulout.analysis.balance import even, fill, work_of
from haulout.analysis.makespan import Estimator, makespan
from haulout.analysis.phases import Phases
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.passes.fences.capacity import live_bytes
from haulout.passes.fences.slots import Gaps, cut_slots, gaps, insert_fences, source_time
from haulout.target.model import Target

BALANCED = 0.99
"""A balance from which on nothing is gained by moving fences one by one."""


class Choice(NamedTuple):
    """What was chosen."""

    program: Program
    """With the fences."""
    rule: str
    makespans: dict[str, float]
    """Rule -> the estimate, in microseconds, of those that were looked at; equal placements once."""


def choose_slots(
    program: Program,
    phases: Phases,
    names: list[str],
    made_by: str,
    target: Target,
    *,
    capacity: int | None = None,
    finish: Callable[[Program], Program] = lambda program: program,
    cost: Callable[[Program], float] = lambda program: 0.0,
) -> Choice:
    """The program with the fences that its phases need, placed by the rule that is estimated to be the fastest.

    In a program with loops or forks `finish` adds what is needed between blocks, and `cost` says how much a
    finished program pays for its fences: the estimate decides between equal costs only.
    """
    judge = Estimator(program, target)
    has_regions = bool(program.structure)
    makespans: dict[str, float] = {}
    seen: list[Ints] = []
    best: tuple[tuple[float, bool, float], str, Gaps, Ints, float] | None = None

    def built(found: Gaps, cuts: Ints) -> Program:
        return finish(insert_fences(program, cut_slots(program, phases, found, cuts, names), made_by))

    def look(rule: str, found: Gaps, cuts: Ints) -> None:
        nonlocal best
        if any(np.array_equal(cuts, other) for other in seen):
            return
        seen.append(cuts)
        whole = built(found, cuts) if has_regions or capacity is not None else None
        if whole is not None and has_regions:
            estimate = makespan(whole, target)
        else:
            estimate = judge.estimate(cuts.astype(np.int32))
        time = makespans[rule] = estimate.makespan
        fits = capacity is None or whole is None or live_bytes(whole)[0] <= capacity
        # The estimate counts to a nanosecond: what differs by rounding alone is equal.
        key = (0.0 if whole is None else cost(whole), not fits, round(time, 3) if fits else 0.0)
        if best is None or key < best[0]:
            best = key, rule, found, cuts, estimate.balance

    by_source = gaps(program, phases, phases.phase)
    look("source", by_source, source_time(program, by_source))
    assert best is not None
    if len(by_source.segment):
        late, early = gaps(program, phases, phases.earliest), gaps(program, phases, phases.latest)
        look("earliest", late, late.high)
        look("latest", early, early.low)
        work = work_of(program, phases, judge.columns.duration, early.number, early.begin, early.low, early.end)
        look("fill", early, fill(work))
        if best[4] < BALANCED:
            look("even", early, even(work, best[3]))
    _, rule, found, cuts, _ = best
    return Choice(built(found, cuts), rule, makespans)
