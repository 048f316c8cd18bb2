"""lower_barriers: every `core_barrier` becomes instructions that signal and wait, on counts that only grow.

    pe    nop signal=[[barrier.here,1]]                                          nop wait=[[barrier.go,1]]
    dma0  nop signal=[[barrier.here,1]]                                          nop wait=[[barrier.go,1]]
    sync    nop wait=[[barrier.here,2]]         nop wait=[[barrier.met,N-1]]
                remote_signal=[[other,          signal=[[barrier.go,1]]
                barrier.met,1],...]

A barrier of all engines: each engine that the core uses says that its work is done; the *keeper*, on the line `sync`,
waits for them, tells the keepers of the other cores, waits for as many of them, and lets the engines go on. A barrier
of one engine is the two middle instructions, on that engine.

1. Refuse what counts cannot follow: cores that meet unequally often (`sync/arms.py`).
2. Write the instructions (`sync/meeting.py`). Counters belong to an engine and a set of participants, and are shared
   by all their barriers.
3. Every wait is for all that its own core has issued to that counter before: a constant, or, where a loop or an arm
   issues to it, `wait_back=[[COUNTER,0]]`. (The signals that a core sends mirror the ones that it gets.)

Why two barriers in a row are no trouble: docs/design/lower-sync.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haulout.ir.labels import instruction_label
from haulout.ir.program import Program
from haulout.ir.schema import Bools
from haulout.ir.semaphores import semaphore_use
from haulout.passes.base import Pass, PassContext
from haulout.passes.options import Count
from haulout.passes.sync.arms import check_arms_meet_equally
from haulout.passes.sync.meeting import lower_meetings
from haulout.support.diagnostics import fail


@dataclass(frozen=True)
class LowerBarriers(Pass):
    """Lowers every `core_barrier` to `nop`s with `signal`, `remote_signal`, `wait` and `wait_back`.

    Before: barriers match, as the checker demands; behind `lower_sync`, which reads the order that they make. After:
    no `core_barrier`; whatever waited for a barrier, or was waited for by it, still does; the attribute `barrier`
    holds the name. No core has more than `semaphores` semaphores, those that were there included. Errors:
    `barrier-mismatch` for a barrier on a core that is no participant; `bad-input` where cores that take different
    arms meet unequally often; `too-few-semaphores`.
    """

    name: ClassVar[str] = "lower_barriers"
    semaphores: Count = 32
    """How many a core may use, those of `lower_sync` included."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Refuse, write, count."""
        if not len(program.barriers):
            return program
        _check_participants(program)
        check_arms_meet_equally(program)
        before, met = len(program.instructions), len(program.barriers)
        program, waits, relative = lower_meetings(program)
        context.count(
            self.name,
            barriers=met,
            instructions=len(program.instructions) - before,
            waits=waits,
            relative=relative,
            semaphores=self._count(program),
        )
        return program

    def _count(self, program: Program) -> int:
        """The largest number of semaphores on a core; `too-few-semaphores` when it is too large."""
        use = semaphore_use(program)
        own = program.instruction_core[use.waits.instruction]
        pairs = np.unique(
            np.stack([np.append(use.signals.core, own), np.append(use.signals.name, use.waits.name)]), axis=1
        )
        many = np.bincount(pairs[0], minlength=program.lnc)
        core = int(many.argmax())
        if many[core] > self.semaphores:
            names = ", ".join(use.names[name] for name in pairs[1][pairs[0] == core].tolist())
            fail(
                "too-few-semaphores",
                f"core {core} uses {many[core]} semaphores and has {self.semaphores}: {names}",
                help=[f"allow semaphores={many[core]}, or fewer to lower_sync, so that more are left to barriers"],
            )
        return int(many[core])


def _check_participants(program: Program) -> None:
    barriers = program.barriers
    core = program.instruction_core[barriers.instruction].astype(np.uint64)
    outside: Bools = (barriers.cores != 0) & (barriers.cores >> core & np.uint64(1) == 0)
    for at in np.flatnonzero(outside)[:1].tolist():
        row = int(barriers.instruction[at])
        fail(
            "barrier-mismatch",
            f"a barrier stands on core {program.instruction_core[row]}, which is not one of its participants",
            instruction_label(program, row),
        )
