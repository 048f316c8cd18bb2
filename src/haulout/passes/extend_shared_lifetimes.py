"""extend_shared_lifetimes (order 81): one lifetime for every shared location, across all cores, fences included.

    A  all cores share one keyspace of functions                       (verified before every pass)
    B  no shared value is live into the entry
    C  spans: who touches which shared location, joined over all cores
    D  fences, by policy: brackets around groups, or the fewest that order every conflict between cores
    E  renumber: a dense index of barriers on every engine line

The lifetime itself is read off the fences by `analysis/lifetimes.py`: a location is held from the epoch of its first
access on any core to the epoch of its last. No block is added. No address is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from haulout.analysis.loops import Loops, find_loops
from haulout.analysis.phases import Phases, phases, shared_accesses
from haulout.analysis.straightline import fence_mask, fence_rows
from haulout.ir.edit import compact
from haulout.ir.enums import LINES, NONE, Kind
from haulout.ir.program import Program
from haulout.ir.verify import instruction_label, location_label
from haulout.passes.base import Pass, PassContext
from haulout.passes.fences.bracket import bracket_slots
from haulout.passes.fences.capacity import free_storage
from haulout.passes.fences.loops import loop_slots
from haulout.passes.fences.nests import block_weight, nest_slots, plan_nests
from haulout.passes.fences.slots import insert_fences, phase_slots
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity, fail

LOWERING = "lower_local_collectives"


@dataclass(frozen=True)
class ExtendSharedLifetimes(Pass):
    """Places the fences that bound shared lifetimes and order accesses of different cores.

    Before: collectives are lowered (order 80), straight-line. After: every conflict between cores whose `seq` differ
    is ordered by a fence; barrier indices are dense; blocks are as they were. Errors: `uninitialized-read` when a
    shared internal location is live into the entry.
    """

    name: ClassVar[str] = "extend_shared_lifetimes"
    order: ClassVar[int | None] = 81
    cross_core: ClassVar[bool] = True

    fences: Literal["bracket", "minimal"] = "minimal"
    capacity: int | None = None
    """Bytes of DRAM for all cores: `minimal` adds fences where storage must be freed earlier to fit."""

    def run(self, program: Program, context: PassContext) -> Program:
        """The recipe of the module's text."""
        find_loops(program)  # refuses control flow that is no nest of loops
        blocks = len(program.blocks)
        require_produced(program)
        if self.fences == "bracket":
            program = self._bracket(program, context)
        else:
            program = self._minimal(program, context)
            if self.capacity is not None and has_seq(program):
                program = self._free_storage(program, self.capacity, context)
        program = renumber(program)
        if len(program.blocks) != blocks:
            fail("internal-error", f"fences changed the number of blocks from {blocks} to {len(program.blocks)}")
        return program

    def _bracket(self, program: Program, context: PassContext) -> Program:
        program = drop_barriers(program, {self.name})
        program = insert_fences(program, bracket_slots(program), self.name)
        if has_seq(program):
            # Inside its bracket a writer needs a rendezvous before a reader on another core; where none is, add it.
            found = phases(program, fence_rows(program))
            program = self._insert(program, found, context)
            if found.needed.any():
                context.note(
                    "added-rendezvous",
                    f"{int(found.needed.sum())} fences were added inside brackets: conflicts between cores had none",
                )
        context.count(self.name, fences=len(fence_rows(program)) // program.lnc)
        return program

    def _minimal(self, program: Program, context: PassContext) -> Program:
        if not has_seq(program):
            context.note(
                "kept-fences",
                "the program has no seq: its order is what its barriers say, and no fence is added or taken away",
            )
            context.count(self.name, fences=len(fence_rows(program)) // program.lnc)
            return program
        bare = drop_barriers(program, {self.name, LOWERING})
        found = phases(bare, fence_rows(bare))
        program = self._insert(bare, found, context)
        loops = find_loops(program)
        if loops:
            return self._cheapest(bare, program, loops, context)
        fences = len(fence_rows(program)) // program.lnc
        context.count(self.name, fences=fences, longest_chain=int(found.needed.sum()))
        return program

    def _cheapest(self, bare: Program, by_phases: Program, loops: Loops, context: PassContext) -> Program:
        """With loops: the exact optimum on source time, unless phases, which differ between cores, beat it."""
        program, cost = by_phases, fence_runs(by_phases, loops)
        plan = plan_nests(bare, loops)
        if plan is not None:
            covered = insert_fences(bare, nest_slots(bare, plan, f"{self._stem(bare)}_fence"), self.name)
            if (covered_cost := fence_runs(covered, loops)) < cost:
                program, cost = covered, covered_cost
        context.count(self.name, fences=len(fence_rows(program)) // program.lnc, fence_runs=round(cost))
        return program

    def _insert(self, program: Program, found: Phases, context: PassContext) -> Program:
        stem = self._stem(program)
        names = [f"{stem}_fence{k}" for k in range(int(found.needed.sum()))]
        program = insert_fences(program, phase_slots(program, found, names), self.name)
        return insert_fences(program, loop_slots(program, f"{stem}_loop"), self.name)

    def _free_storage(self, program: Program, capacity: int, context: PassContext) -> Program:
        program, added = free_storage(program, capacity, f"{self._stem(program)}_free", self.name)
        if added:
            names = ", ".join(fence.name for fence in added)
            freed = sum(fence.freed for fence in added)
            context.note(
                "capacity-fence", f"added for the capacity: {names}; the peaks of all cores fall by {freed} bytes"
            )
        context.count(self.name, capacity_fences=len(added), fences=len(added))
        return program

    def _stem(self, program: Program) -> str:
        return f"cb_sg{max(int(program.modules.subgraph[0]), 0)}"


def fence_runs(program: Program, loops: Loops) -> float:
    """How often one core meets at a fence, trip counts not known taken as `ASSUMED_TRIP`."""
    rows = fence_rows(program)
    blocks = program.instructions.block[rows[program.instruction_core[rows] == 0]].tolist()
    return float(sum(block_weight(loops, block) for block in blocks))


def has_seq(program: Program) -> bool:
    """Whether the program has a logical time that all cores share."""
    return bool(len(program.instructions)) and bool(np.all(program.instructions.seq != NONE))


def drop_barriers(program: Program, makers: set[str]) -> Program:
    """The program without the fences that some passes made; the user's stay."""
    ids = [program.strings.find(name) for name in sorted(makers)]
    made = np.isin(program.barriers.made_by, [each for each in ids if each != NONE]) & fence_mask(program)
    keep = np.ones(len(program.instructions), bool)
    keep[program.barriers.instruction[made]] = False
    return compact(program, keep)[0]


def require_produced(program: Program) -> None:
    """Raise when an internal shared location is read before any core writes it: nothing can produce that value."""
    touched = np.flatnonzero(shared_accesses(program))
    accesses, locations = program.accesses, program.locations
    owner = program.owner[accesses.location[touched]]
    internal = locations.kind[owner] == Kind.INTERNAL
    touched, owner = touched[internal], owner[internal]
    row = accesses.instruction[touched]
    first_block = program.starts("blocks", "functions")
    block = program.instructions.block[row] - first_block[program.instruction_function[row]]
    # sort by owner location, block, time, writes first: the first row of each group must be a write
    order = np.lexsort((~accesses.write[touched], program.instructions.seq[row], block, owner))
    first = np.ones(len(order), bool)
    first[1:] = owner[order[1:]] != owner[order[:-1]]
    bad = order[first & ~accesses.write[touched[order]]]
    if len(bad):
        raise HauloutError(
            *(
                Diagnostic(
                    "uninitialized-read",
                    Severity.ERROR,
                    "a shared value is live into the entry: it is read before any core writes it",
                    (
                        instruction_label(program, int(row[at])),
                        location_label(program, int(owner[at])),
                    ),
                    help=("write the location before this read, or give it kind=input",),
                )
                for at in bad.tolist()
            )
        )


def renumber(program: Program) -> Program:
    """Give the barriers of every engine line of every core a dense index from 0, in list order."""
    rows = program.barriers.instruction
    line = program.instruction_core[rows].astype(np.int64) * LINES + program.instructions.engine[rows]
    order = np.argsort(line, kind="stable")
    _, start, count = np.unique(line[order], return_index=True, return_counts=True)
    index = np.empty(len(rows), np.int64)
    index[order] = np.arange(len(rows)) - np.repeat(start, count)
    return program.replace(barriers=program.barriers.replace(index=index))
