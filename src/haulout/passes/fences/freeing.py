"""Fences that pay: they free so many bytes that they are worth their time, though no conflict needs them.

With the fewest fences an epoch may be long, and what another core reads in it is held to its end. A fence directly
after the last access of a large buffer by another core, or before the first, may lower the peak by far more than it
costs. It is added if the bytes live at one time fall by at least `LEAST_GAIN`, or `FIRST_GAIN` if there is no other
fence, and the estimated time rises by at most `TIME_FOR_BYTES` of that; then the next one is looked for.
`capacity.py` finds fences for a given number of bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from haulout.analysis.makespan import makespan
from haulout.analysis.straightline import fence_rows
from haulout.ir.program import Program
from haulout.passes.fences.capacity import candidates
from haulout.passes.fences.exact_cover import NestPlan, nest_slots
from haulout.passes.fences.slots import insert_fences
from haulout.target import Target

LEAST_GAIN = 0.02
"""Of the bytes live at one time: what a fence must free, ..."""
FIRST_GAIN = 0.2
"""... and what the first one must: cores that never meet cannot wait for each other, whatever delays one of them."""
LEAST_BYTES = 1 << 16
"""And in bytes, of all cores together."""
TIME_FOR_BYTES = 0.25
"""A fence that frees a part of the bytes may cost so much of that part of the time: 1 % for 4 %."""
MAX_ADDED = 3
MAX_TRIED = 12
"""Places that are tried for each fence, those of the largest buffers."""


def add_freeing_fences(
    program: Program, stem: str, made_by: str, target: Target, peak: Callable[[Program], int]
) -> tuple[Program, int]:
    """The program with fences `<stem>0`, `<stem>1`, ... that pay, and how many these are.

    `peak` gives the bytes that all cores together need at least.
    """
    time = makespan(program, target).makespan
    added = 0
    while added < MAX_ADDED:
        live = peak(program)
        least = LEAST_GAIN if len(fence_rows(program)) else FIRST_GAIN
        wanted = live - max(int(live * least), LEAST_BYTES)
        if wanted < 0:
            break
        best: tuple[int, float, Program] | None = None
        for place in candidates(program, wanted // program.lnc, MAX_TRIED):
            tried = insert_fences(program, nest_slots(program, NestPlan([place], 0.0), f"{stem}{added}_"), made_by)
            left = peak(tried)
            if left > wanted or (best is not None and left >= best[0]):
                continue
            longer = makespan(tried, target).makespan
            if longer <= time * (1 + TIME_FOR_BYTES * (1 - left / live)):
                best = left, longer, tried
        if best is None:
            break
        _, time, program = best
        added += 1
    return program, added
