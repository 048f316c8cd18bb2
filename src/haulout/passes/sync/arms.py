"""Where cores may take different arms of a branch, do they meet in equal number whichever they take?

Barriers of one engine meet by index. A core that skips one meets the others at the wrong places from then on, and
counts that only grow would never come together again. So both arms of a `divergent` branch must hold, on each engine
and in order, barriers of the same participants. A loop counts when its trips are known, a branch inside when its own
arms agree.
"""

from __future__ import annotations

from haulout.ir.enums import NONE
from haulout.ir.labels import instruction_label, place
from haulout.ir.program import Program
from haulout.passes.sync.nest import Nest
from haulout.support.diagnostics import Label, bad_input

Meets = tuple[object, ...]
"""Barriers of one engine in order: each its participants; a loop the tuple (trips, header, body)."""


def check_arms_meet_equally(program: Program, nest: Nest) -> None:
    """`bad-input` at the first divergent branch of a core whose arms do not meet equally often."""
    barriers = program.barriers
    if not len(barriers):
        return
    found = nest.found
    for branch in found.branches:
        if branch.divergent:
            arms = [found.regions[arm] for arm in branch.arms]
            last = arms[-1]
            begin, end = int(nest.starts[arms[0].first]), int(nest.starts[last.last + 1])
            inside = (barriers.instruction >= begin) & (barriers.instruction < end)
            for engine in sorted(set(program.instructions.engine[barriers.instruction[inside]].tolist())):
                _Meets(program, nest, engine).branch(branch.fork)


class _Meets:
    """What is met on one engine, arms that disagree being refused."""

    def __init__(self, program: Program, nest: Nest, engine: int) -> None:
        self.program, self.nest = program, nest
        mine = program.instructions.engine[program.barriers.instruction] == engine
        self.cores = dict(
            zip(program.barriers.instruction[mine].tolist(), program.barriers.cores[mine].tolist(), strict=True)
        )

    def block(self, block: int) -> Meets:
        """Of one block."""
        rows = range(int(self.nest.starts[block]), int(self.nest.starts[block + 1]))
        return tuple(self.cores[row] for row in rows if row in self.cores)

    def sequence(self, begin: int, end: int) -> Meets:
        """Of blocks `begin:end` of one region and all inside of it."""
        nest, regions = self.nest, self.nest.found.regions
        met: Meets = ()
        block = begin
        while block < end:
            if block in nest.loop_at:
                item = regions[nest.loop_at[block]]
                header, body = self.block(block), self.sequence(block + 1, item.last + 1)
                if (header or body) and item.trip == NONE:
                    self._refuse(block, "a loop in it, of which it is not known how often it turns, holds barriers")
                if header or body:
                    met += ((item.trip, header, body),)
                block = item.last + 1
                continue
            met += self.block(block)
            if block in nest.branch_at:
                met += self.branch(block)
                block = nest.found.branches[nest.branch_at[block]].join
            else:
                block += 1
        return met

    def branch(self, fork: int) -> Meets:
        """Of either arm."""
        branch = self.nest.found.branches[self.nest.branch_at[fork]]
        arms = [self.nest.found.regions[arm] for arm in branch.arms]
        first, *others = [self.sequence(arm.first, arm.last + 1) for arm in arms]
        if first != (others[0] if others else ()):
            self._refuse(fork, "its arms do not hold the same core_barriers in the same order")
        return first

    def _refuse(self, block: int, why: str) -> None:
        program = self.program
        name = program.strings[int(program.blocks.name[block])]
        span = place(program, NONE, int(program.blocks.text_line[block]))
        rows = [row for row in self.cores if row >= self.nest.starts[block]]
        bad_input(
            f"cores may take different arms around block ^{name}, and {why}: their counts would not come together",
            Label(f"^{name} on core {program.block_core[block]}", span),
            *(instruction_label(program, row) for row in rows[:1]),
        )
