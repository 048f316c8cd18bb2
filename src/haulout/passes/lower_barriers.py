"""lower_barriers: every `core_barrier` becomes instructions that signal and wait, on counts that only grow.

    pe    nop signal=[[barrier.here,1]]                                          nop wait=[[barrier.go,1]]
    dma0  nop signal=[[barrier.here,1]]                                          nop wait=[[barrier.go,1]]
    sync    nop wait=[[barrier.here,2]]         nop wait=[[barrier.met,N-1]]
                remote_signal=[[other,          signal=[[barrier.go,1]]
                barrier.met,1],...]

A barrier of all engines: each engine that the core uses signals that its work is done. The *keeper*, on the line
`sync`, waits for these signals, signals the keepers of the other cores, waits for their signals, and then signals the
engines to continue. A barrier of one engine is the two middle instructions, on that engine.

1. Refuse programs that counts cannot express: arms with different barriers (`sync/arm_barriers.py`). 2. Write the
instructions (`sync/emit_barriers.py`). All barriers of one engine and one set of participants share their
   counters.
3. Every wait is for all signals that its own core has issued to that counter before: a constant, or, where a loop or
an
   arm issues to it, `wait_back=[[COUNTER,0]]`. (A core receives as many signals as it sends.)

docs/design/lower-sync.md explains why two barriers in a row are sound.
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
from haulout.passes.sync.arm_barriers import check_equal_barriers
from haulout.passes.sync.emit_barriers import emit_barriers
from haulout.support.diagnostics import fail


@dataclass(frozen=True)
class LowerBarriers(Pass):
    """Lowers every `core_barrier` to `nop`s with `signal`, `remote_signal`, `wait` and `wait_back`.

    Before: barriers match, as the checker demands; runs after `lower_sync`, which uses the order of barriers. After:
    no `core_barrier`; every dependence on a barrier, and of a barrier, still holds; the attribute `barrier` has the
    barrier's name. No core has more than `semaphores` semaphores, existing ones included. Errors: `barrier-mismatch`
    for a barrier on a core that does not participate; `bad-input` if the arms of a divergent fork have different
    barriers; `too-few-semaphores`.
    """

    name: ClassVar[str] = "lower_barriers"
    semaphores: Count = 32
    """The most that a core may use, those of `lower_sync` included."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Check, write the instructions, count."""
        if not len(program.barriers):
            return program
        _check_participants(program)
        check_equal_barriers(program)
        before, met = len(program.instructions), len(program.barriers)
        program, waits, relative = emit_barriers(program)
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
        """The largest number of semaphores on a core; `too-few-semaphores` when it exceeds the option."""
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
                help=[f"allow semaphores={many[core]}, or give lower_sync fewer, which leaves more for barriers"],
            )
        return int(many[core])


def _check_participants(program: Program) -> None:
    barriers = program.barriers
    outside: Bools = ~program.core_sets.has(program.instruction_core[barriers.instruction])
    for at in np.flatnonzero(outside)[:1].tolist():
        row = int(barriers.instruction[at])
        fail(
            "barrier-mismatch",
            f"core {program.instruction_core[row]} has a barrier in which it does not participate",
            instruction_label(program, row),
        )
