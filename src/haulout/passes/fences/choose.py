"""Choose between placements with equally many fences by the cost model.

The phases give the number of fences and leave slack: a range of rows for each fence on each core. Five rules to use
it have the same count and are all correct:

    source     at one source time on every core (taken when no other is better)
    earliest   every instruction in its least phase: fences as late as possible
    latest     every instruction in its largest phase: fences as early as possible
    fill       cores that would wait run later instructions instead (`analysis/balance.py`)
    even       the best of these, with each fence moved to balance the two phases beside it

Each is estimated on the target (`analysis/makespan.py`) and the shortest is taken. With a capacity, only placements
that fit count. If none fits, it is `source`, because the fences that free storage are at source time too.
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
from haulout.passes.fences.slots import Gaps, cut_slots, gaps, insert_fences, source_time
from haulout.target.model import Target

BALANCED = 0.99
"""With at least this balance, `even` is not tried."""


class Choice(NamedTuple):
    """The chosen placement."""

    program: Program
    """With the fences."""
    rule: str
    makespans: dict[str, float]
    """Rule -> estimate in microseconds; equal placements have one entry."""


def choose_slots(
    program: Program,
    phases: Phases,
    names: list[str],
    made_by: str,
    target: Target,
    *,
    fits: Callable[[Program], bool] | None = None,
    finish: Callable[[Program], Program] = lambda program: program,
    cost: Callable[[Program], float] = lambda program: 0.0,
) -> Choice:
    """The program with the fences that its phases need, placed by the rule with the shortest estimate.

    `fits` says whether a finished program fits into the capacity; None: there is none.
    In a program with loops or forks `finish` adds the fences between blocks, and `cost` is the cost of the fences of
    a finished program; the estimate decides between equal costs only.
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
        whole = built(found, cuts) if has_regions or fits is not None else None
        if whole is not None and has_regions:
            estimate = makespan(whole, target)
        else:
            estimate = judge.estimate(cuts.astype(np.int32))
        time = makespans[rule] = estimate.makespan
        fitting = fits is None or whole is None or fits(whole)
        # Estimates that differ by less than a nanosecond are equal.
        key = (0.0 if whole is None else cost(whole), not fitting, round(time, 3) if fitting else 0.0)
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
