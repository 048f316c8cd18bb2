"""extend_shared_lifetimes (order 81): one lifetime for every shared location, across all cores, fences included.

    A  all cores share one keyspace of functions                       (verified before every pass)
    B  no shared value is live into the entry
    C  spans: the blocks in which each core accesses each shared location, joined over all cores
    D  fences, by policy: brackets around groups, or the fewest that order every conflict between cores
    E  renumber: a dense index of barriers on every engine line

`analysis/lifetimes.py` derives the lifetimes from the fences: a location is held from the epoch of its first access
on any core to the epoch of its last. The pass adds no block and changes no address. It logs the results of its
analyses at debug level, in the reference's format (`--log-level debug`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from haulout.analysis.liveness import SharedLiveness, shared_liveness
from haulout.analysis.makespan import makespan
from haulout.analysis.phases import Phases, phases, shared_accesses
from haulout.analysis.straightline import fence_mask, fence_rows
from haulout.ir.edit import compact
from haulout.ir.enums import LINES, NONE
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.program import Program
from haulout.ir.schema import Ints
from haulout.passes.base import Pass, PassContext
from haulout.passes.fences.block_fences import fences_between, outside_atoms
from haulout.passes.fences.bracket import bracket_slots
from haulout.passes.fences.capacity import capacity_notes, free_storage, live_bytes
from haulout.passes.fences.choose import choose_slots
from haulout.passes.fences.exact_cover import block_weight, nest_slots, plan_nests
from haulout.passes.fences.freeing import add_freeing_fences
from haulout.passes.fences.loop_fences import round_slots
from haulout.passes.fences.slots import insert_fences, phase_slots
from haulout.passes.fences.spans import log_spans
from haulout.passes.joint_space import joint_bound, joint_peak
from haulout.passes.options import Bytes
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity, fail
from haulout.target import DEFAULT, Target, load_target

LOWERING = "lower_local_collectives"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExtendSharedLifetimes(Pass):
    """Places the fences that bound shared lifetimes and order accesses of different cores.

    Before: collectives are lowered (order 80); loops and forks nest (`ir/structure.py`). After: every conflict
    between cores whose `seq` differ is ordered by a fence (except inside a divergent fork, where no fence is
    allowed); barrier indices are dense; blocks are unchanged. Errors: `uninitialized-read` when a shared internal
    location is live into the entry.
    """

    name: ClassVar[str] = "extend_shared_lifetimes"
    order: ClassVar[int | None] = 81
    cross_core: ClassVar[bool] = True

    fences: Literal["bracket", "minimal"] = "minimal"
    """The policy: the reference's brackets, or the fewest fences that order every conflict."""
    capacity: Bytes | None = None
    """Bytes of DRAM for all cores: `minimal` adds fences where storage must be freed earlier to fit."""
    joint: bool = False
    """Whether the cores may share one space (`joint_space.py`), which may fit where partitions do not."""
    target: str = DEFAULT
    """The machine on which `minimal` compares placements of equal count: a preset, or FILE.toml."""

    def run(self, program: Program, context: PassContext) -> Program:
        """The steps of the module docstring."""
        blocks = len(program.blocks)
        log_spans(program, require_produced(program))
        if self.fences == "bracket":
            program = self._bracket(program, context)
        else:
            program = self._minimal(program, context)
        if log.isEnabledFor(logging.DEBUG):
            for name in made_fences(program, self.name):
                log.debug("Inserted new CB %s", name)
        program = renumber(program)
        if len(program.blocks) != blocks:
            fail("internal-error", f"fences changed the number of blocks from {blocks} to {len(program.blocks)}")
        return program

    def _bracket(self, program: Program, context: PassContext) -> Program:
        program = drop_barriers(program, {self.name})
        program = insert_fences(program, bracket_slots(program), self.name)
        if has_seq(program):
            # Inside a bracket, a conflict between cores also needs a rendezvous between the two accesses.
            found = outside_atoms(program, phases(program, fence_rows(program)))
            program = self._insert(program, found)
            if found.needed.any():
                context.note(
                    "added-rendezvous",
                    f"{int(found.needed.sum())} fences were added inside brackets to order conflicts between cores",
                )
        context.count(self.name, fences=len(fence_rows(program)) // program.lnc)
        return program

    def _minimal(self, program: Program, context: PassContext) -> Program:
        if not has_seq(program):
            context.note(
                "kept-fences",
                "the program has no seq: its barriers define its order; no fence is added or removed",
            )
            context.count(self.name, fences=len(fence_rows(program)) // program.lnc)
            return program
        target = load_target(self.target)
        if made_fences(program, LOWERING):
            count_makespans(context, lowered=makespan(program, target).makespan)
        bare = drop_barriers(program, {self.name, LOWERING})
        found = outside_atoms(bare, phases(bare, fence_rows(bare)))
        program = self._place(bare, found, target, context)
        if program.structure:
            program = self._cheapest(bare, program, target, context)
        else:
            context.count(self.name, longest_chain=int(found.needed.sum()))
        least = len(fence_rows(program)) // program.lnc
        if self.capacity is not None:
            program = self._free_storage(bare, program, self.capacity, target, context)
            context.count(self.name, capacity_fences=len(fence_rows(program)) // program.lnc - least)
        program, added = add_freeing_fences(program, f"{self._stem(program)}_freeing", self.name, target, self._peak)
        if added:
            context.count(self.name, freeing_fences=added)
        context.count(self.name, fences=len(fence_rows(program)) // program.lnc)
        return program

    def _peak(self, program: Program) -> int:
        """The bytes that all cores together need at least, in partitions or in one space."""
        parts = live_bytes(program)[0]
        return min(parts, joint_bound(program)) if self.joint else parts

    def _cheapest(self, bare: Program, by_phases: Program, target: Target, context: PassContext) -> Program:
        """The cheapest of three placements in loops and forks: phases inside blocks; the optimum on source time;
        rounds inside loops with the optimum for the remaining conflicts.

        The estimated time decides between equal costs, then the order above.
        """
        program, cost = by_phases, fence_runs(by_phases)
        stem = self._stem(bare)
        rounds = round_slots(bare, f"{stem}_round")
        for placement, prepared in (
            ("nests", bare),
            ("rounds", insert_fences(bare, rounds, self.name) if len(rounds.before) else None),
        ):
            plan = plan_nests(prepared) if prepared is not None else None
            if prepared is None or plan is None:
                continue
            covered = insert_fences(prepared, nest_slots(prepared, plan, f"{stem}_fence"), self.name)
            covered_cost = fence_runs(covered)
            if covered_cost > cost:
                continue
            time = makespan(covered, target).makespan
            count_makespans(context, **{placement: time})
            if covered_cost < cost or round(time, 3) < round(makespan(program, target).makespan, 3):
                program, cost = covered, covered_cost
                context.counters[f"{self.name}.placement"] = {placement: 1}
        context.count(self.name, fence_runs=round(cost))
        return program

    def _place(self, bare: Program, found: Phases, target: Target, context: PassContext) -> Program:
        """The fences that the phases need, placed by the cost model."""
        stem = self._stem(bare)
        chosen = choose_slots(
            bare,
            found,
            [f"{stem}_fence{k}" for k in range(int(found.needed.sum()))],
            self.name,
            target,
            fits=None if self.capacity is None else self._fits,
            finish=lambda program: insert_fences(program, fences_between(program, f"{stem}_block"), self.name),
            cost=fence_runs,
        )
        count_makespans(context, **chosen.makespans)
        context.counters[f"{self.name}.placement"] = {chosen.rule: 1}
        return chosen.program

    def _insert(self, program: Program, found: Phases) -> Program:
        stem = self._stem(program)
        names = [f"{stem}_fence{k}" for k in range(int(found.needed.sum()))]
        program = insert_fences(program, phase_slots(program, found, names), self.name)
        return insert_fences(program, fences_between(program, f"{stem}_block"), self.name)

    def _free_storage(
        self, bare: Program, program: Program, capacity: int, target: Target, context: PassContext
    ) -> Program:
        """The program, with more fences if its live bytes exceed the capacity."""
        if self._fits(program):
            return program
        stem = f"{self._stem(program)}_free"
        if program.structure:
            program, added = free_storage(program, capacity, stem, self.name)
        else:
            # Fences where storage must be free; then the fewest fences between them.
            cut, added = free_storage(bare, capacity, stem, self.name, finish=self._by_source)
            program = self._place(cut, phases(cut, fence_rows(cut)), target, context)
        context.diagnostics.extend(capacity_notes(program, added))
        return program

    def _fits(self, program: Program) -> bool:
        """Whether a program with its fences needs no more than the capacity."""
        assert self.capacity is not None
        if live_bytes(program)[0] <= self.capacity:
            return True
        needed = joint_peak(program) if self.joint else None
        return needed is not None and needed <= self.capacity

    def _by_source(self, program: Program) -> Program:
        """A program without loops and forks, with the fewest fences at source time."""
        found = phases(program, fence_rows(program))
        names = [f"{self._stem(program)}_fence{k}" for k in range(int(found.needed.sum()))]
        return insert_fences(program, phase_slots(program, found, names), self.name)

    def _stem(self, program: Program) -> str:
        return f"cb_sg{max(int(program.modules.subgraph[0]), 0)}"


def count_makespans(context: PassContext, **makespans: float) -> None:
    """Record estimates in microseconds as whole nanoseconds; a later one for a rule replaces the first."""
    noted = context.counters.setdefault(f"{ExtendSharedLifetimes.name}.makespan_ns", {})
    noted.update({rule: round(time * 1e3) for rule, time in makespans.items()})


def fence_runs(program: Program) -> float:
    """How often one core runs a fence: an unknown trip count is `ASSUMED_TRIP`, an arm runs every other time."""
    rows = fence_rows(program)
    blocks = program.instructions.block[rows[program.instruction_core[rows] == 0]].tolist()
    return float(sum(block_weight(program.structure, block) for block in blocks))


def has_seq(program: Program) -> bool:
    """Whether the program has a logical time that all cores share."""
    return bool(len(program.instructions)) and bool(np.all(program.instructions.seq != NONE))


def made_fences(program: Program, maker: str) -> list[str]:
    """Names of the fences that a pass made, in the order of the first core's list."""
    rows = program.barriers
    first_core = program.instruction_core[rows.instruction] == 0
    made = fence_mask(program) & (rows.made_by == program.strings.find(maker)) & first_core
    return [program.strings[name] for name in rows.name[made].tolist()]


def drop_barriers(program: Program, makers: set[str]) -> Program:
    """The program without the fences made by `makers`."""
    ids = [program.strings.find(name) for name in sorted(makers)]
    made = np.isin(program.barriers.made_by, [each for each in ids if each != NONE]) & fence_mask(program)
    keep = np.ones(len(program.instructions), bool)
    keep[program.barriers.instruction[made]] = False
    return compact(program, keep)[0]


def require_produced(program: Program) -> SharedLiveness:
    """Liveness of the shared locations; raises when an internal one is live into the entry.

    That is the case if a path, with at least one iteration of each loop, leads to a read of it on any core before any
    core writes it: the value has no producer.
    """
    touched = np.flatnonzero(shared_accesses(program))
    live = shared_liveness(program, touched)
    early = live.live_into_entry()
    if early:
        raise HauloutError(
            *(
                Diagnostic(
                    "uninitialized-read",
                    Severity.ERROR,
                    "a shared value is live into the entry: it is read before any core writes it",
                    (
                        instruction_label(program, _first_read(program, touched, location, block)),
                        location_label(program, location),
                    ),
                    help=("write the location before this read, or give it kind=input",),
                )
                for location, block in early
            )
        )
    return live


def _first_read(program: Program, touched: Ints, location: int, block: int) -> int:
    """The instruction that reads a location first in a block, on any core."""
    accesses = program.accesses
    row = accesses.instruction[touched]
    here = program.instructions.block[row] % (len(program.blocks) // program.lnc) == block
    mine = here & (program.owner[accesses.location[touched]] == location) & ~accesses.write[touched]
    reads = row[mine]
    return int(reads[np.argmin(program.instructions.seq[reads])])


def renumber(program: Program) -> Program:
    """Give the barriers of every engine line of every core a dense index from 0, in list order."""
    log.debug("Renumbering core barriers.")
    rows = program.barriers.instruction
    line = program.instruction_core[rows].astype(np.int64) * LINES + program.instructions.engine[rows]
    order = np.argsort(line, kind="stable")
    _, start, count = np.unique(line[order], return_index=True, return_counts=True)
    index = np.empty(len(rows), np.int64)
    index[order] = np.arange(len(rows)) - np.repeat(start, count)
    return program.replace(barriers=program.barriers.replace(index=index))
