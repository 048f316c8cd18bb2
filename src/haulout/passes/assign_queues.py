"""assign_queues: every DMA instruction on the queue that lets it start first.

A front end gives out the queues in turn, so a short copy may come behind a long one that it does not need. Here the
lists and fences are final, and the makespan estimate takes, for each DMA instruction in list order, the queue with
the earliest start; of several, the one that is free last, which leaves the others for what is ready earlier. Only
queues that the program uses already are given out.

The order of a queue is order that no edge repeats. So the edges are completed for the new queues, as for a program
that has none. If the estimate of the result is not lower by `GAIN`, the queues stay.

They stay also where they may be meant: without `seq`, or with a barrier that no pass made, a `sendrecv` or a
semaphore, as in `order_by_phases`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.analysis.makespan import first_free_queues, makespan
from haulout.ir.enums import NONE, DependenceKind, Engine
from haulout.ir.program import Program
from haulout.ir.schema import Bools
from haulout.passes.base import Pass, PassContext
from haulout.passes.order_cores import order_cores
from haulout.target import DEFAULT, load_target

GAIN = 0.999
"""The makespan must be at most this times the one before."""


@dataclass(frozen=True)
class AssignQueues(Pass):
    """Moves DMA instructions to other queues, if that makes the program faster.

    Before: fences are final (order 81); accesses of one core that conflict by location are ordered. After: the same,
    with other queues and more edges.
    """

    name: ClassVar[str] = "assign_queues"

    target: str = DEFAULT
    """The machine for which times are estimated: a preset, or FILE.toml."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Choose the queues, complete the edges, compare."""
        target, movable, engine = load_target(self.target), _movable(program), program.instructions.engine
        chosen = first_free_queues(program, target, movable) if movable.any() else engine
        moved = int(np.count_nonzero(chosen != engine))
        if moved:
            tried = program.replace(instructions=program.instructions.replace(engine=chosen))
            tried, _ = order_cores(tried, set(DependenceKind), removable_fences=True)
            if makespan(tried, target).makespan <= GAIN * makespan(program, target).makespan:
                context.count(self.name, moved=moved)
                return tried
        context.count(self.name, moved=0)
        return program


def _movable(program: Program) -> Bools:
    """The DMA instructions, where queues have no meaning of their own."""
    rows, barriers = program.instructions, program.barriers
    users = np.any(barriers.made_by == NONE) or len(program.meetings) or len(program.semaphores)
    work = (rows.engine >= Engine.DMA0) & (rows.engine <= Engine.DMA15)
    work[barriers.instruction] = False
    if users or np.any(rows.seq[work] == NONE):
        return np.zeros(len(rows), bool)
    return work
