"""order_by_phases: the lists of all cores in an order that needs fewer fences.

The fewest fences of `extend_shared_lifetimes` are those of the given lists. Most of their order is a choice of the
front end: only conflicts and dependences must keep theirs. `analysis/flow_phases.py` finds the phases of every
instruction by data flow, and a stable sort of each list by phase needs as many fences as the largest phase.

1. Orders: the given one, and one for each window: all instructions, half of them, a quarter, ... (`flow_phases.py`).
2. Each gets its fences at source time, an estimate of its makespan and of its peak.
3. The shortest is kept, if it is shorter than the given order and its peak, rounded up, is at most `PEAK_LIMIT` times
   that of the given one: fences cost time, so they are worth time, and memory that is short is not spent on them.
4. New `seq`: by (block, phase, old `seq`), the same on all cores. The order of each conflicting pair stays what it was,
   so every read still sees the writes that it saw; the checker compares the two programs (`check_reordered`).

Nothing moves where the order is the user's or where time is not known: without `seq`; with a barrier, a `sendrecv` or a
semaphore that no pass made; with a conflict of two cores at one `seq`; with addresses, which may overlap; or where the
`seq` of one block are not all before those of the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from haulout.analysis.flow_phases import FlowScan
from haulout.analysis.makespan import makespan
from haulout.analysis.phases import phases
from haulout.analysis.straightline import fence_rows
from haulout.checker import check_reordered
from haulout.ir.builder import reorder_instructions
from haulout.ir.enums import NONE, DependenceKind
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.passes.base import Pass, PassContext
from haulout.passes.extend_shared_lifetimes import LOWERING, ExtendSharedLifetimes, drop_barriers, has_seq
from haulout.passes.fences.block_fences import fences_between, outside_atoms
from haulout.passes.fences.capacity import live_bytes
from haulout.passes.fences.slots import insert_fences, phase_slots
from haulout.passes.options import Bytes
from haulout.passes.order_cores import order_cores
from haulout.support.diagnostics import fail
from haulout.target import DEFAULT, Target, load_target

PEAK_LIMIT = 1.01
LEAST_WINDOW = 8
"""In instructions of one core: a narrower one changes little."""


class _Judged(NamedTuple):
    """An order with its fences at source time."""

    program: Program
    """Without the fences."""
    fences: int
    makespan: float
    """In microseconds, to the nanosecond."""
    peak: int


@dataclass(frozen=True)
class OrderByPhases(Pass):
    """Moves instructions so that fewer fences are needed, if that makes the program faster and not larger.

    Before: collectives are lowered (order 80); loops and forks nest. After: every list has the instructions that it
    had, in the same blocks; conflicting pairs have the order that they had, inside a core and between cores, and their
    edges; `seq` follows the lists. If something moved, the fences of order 80 are gone: order 81 places its own.
    """

    name: ClassVar[str] = "order_by_phases"
    cross_core: ClassVar[bool] = True

    capacity: Bytes | None = None
    """Bytes of DRAM for all cores: an order that fits is better than one that does not."""
    target: str = DEFAULT
    """The machine for which the orders are compared: a preset, or FILE.toml."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Judge the orders, keep the best."""
        if not _may_move(program):
            context.count(self.name, moved=0)
            return program
        target = load_target(self.target)
        bare = drop_barriers(program, {LOWERING, ExtendSharedLifetimes.name})
        best = self._best(bare, target, context)
        if best is None:
            context.count(self.name, moved=0)
            return program
        return best

    def _best(self, bare: Program, target: Target, context: PassContext) -> Program | None:
        """The best order other than the given one; None if that is the best."""
        scan = FlowScan(bare)
        window = len(bare.instructions)
        found = scan.phases(window)
        if found is None or not _may_need_fewer(bare, found.needed):
            return None
        given = _judge(bare, target)
        chosen: _Judged | None = None
        origin: Ids = np.arange(window, dtype=np.int32)
        last: Ids | None = None
        while found is not None and window >= LEAST_WINDOW * bare.lnc:
            if last is None or not np.array_equal(found.phase, last):
                last = found.phase
                program, order = _sorted(bare, scan.flow.segment, found.phase)
                each = _judge(program, target)
                if each.fences >= given.fences:
                    break
                if self._key(each, given) < self._key(chosen or given, given):
                    chosen, origin = each, order
            window //= 2
            found = scan.phases(window)
        if chosen is None:
            return None
        if wrong := check_reordered(bare, chosen.program, origin):
            fail("internal-error", f"{self.name} changed the order of a conflict", notes=[wrong[0].message])
        # Instructions that have moved may need edges that the order of their engines implied before.
        moved = order_cores(chosen.program, set(DependenceKind), removable_fences=False)[0]
        final = _judge(moved, target)
        if self._key(final, given) >= self._key(given, given):
            return None
        context.count(
            self.name,
            moved=int(np.count_nonzero(origin != np.arange(len(origin)))),
            fences_given=given.fences,
            fences=final.fences,
        )
        return moved

    def _key(self, each: _Judged, given: _Judged) -> tuple[bool, bool, float, int]:
        """What is smaller for the better of two orders."""
        fits = self.capacity is None or each.peak <= self.capacity
        return not fits, each.peak > PEAK_LIMIT * given.peak, each.makespan, each.fences


def _may_move(program: Program) -> bool:
    """Whether the order of the lists is free but for conflicts and dependences."""
    barriers, locations = program.barriers, program.locations
    made = [program.strings.find(name) for name in (LOWERING, ExtendSharedLifetimes.name)]
    users = ~np.isin(barriers.made_by, [each for each in made if each != NONE])
    if not has_seq(program) or users.any() or len(program.meetings) or len(program.semaphores):
        return False
    if np.any(locations.address[program.accesses.location] != NONE):
        return False
    return _blocks_in_order(program)


def _blocks_in_order(program: Program) -> bool:
    """Whether all `seq` of each block, on every core, are below those of the next block of the function."""
    blocks = len(program.blocks) // program.lnc
    block, seq = program.instructions.block % blocks, program.instructions.seq
    low = np.full(blocks, np.iinfo(np.int64).max)
    high = np.full(blocks, np.iinfo(np.int64).min)
    np.minimum.at(low, block, seq)
    np.maximum.at(high, block, seq)
    used = np.flatnonzero(low <= high)
    function = program.blocks.function[used]
    same = function[1:] == function[:-1]
    return bool(np.all(low[used[1:]][same] > high[used[:-1]][same]))


def _may_need_fewer(bare: Program, needed: Ids) -> bool:
    """Whether the lists as they are need more fences than some order."""
    return int(phases(bare, fence_rows(bare)).needed.sum()) > int(needed.sum())


def _sorted(program: Program, segment: Ids, phase: Ids) -> tuple[Program, Ids]:
    """Each list by (block, phase), stably, and `seq` by (block, phase, old `seq`) from the first one on; and the old
    row of each instruction.
    """
    rows = program.instructions
    order = np.lexsort((phase, rows.block)).astype(np.int32)
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    by_time = np.lexsort((rows.seq, phase, segment))
    keys = np.stack([segment[by_time], phase[by_time], rows.seq[by_time]])
    step = np.any(keys[:, 1:] != keys[:, :-1], axis=0)
    seq = np.empty(len(order), np.int64)
    seq[by_time] = int(rows.seq.min()) + np.append(0, np.cumsum(step))
    moved = rows.replace(seq=seq).take(order)
    return reorder_instructions(program.replace(instructions=moved), position), order


def _judge(program: Program, target: Target) -> _Judged:
    """The program with the fewest fences for its lists, at source time."""
    found = outside_atoms(program, phases(program, fence_rows(program)))
    names = [f"fence{k}" for k in range(int(found.needed.sum()))]
    placed = insert_fences(program, phase_slots(program, found, names), OrderByPhases.name)
    placed = insert_fences(placed, fences_between(placed, "block_fence"), OrderByPhases.name)
    time = round(makespan(placed, target).makespan, 3)
    return _Judged(program, len(fence_rows(placed)) // program.lnc, time, live_bytes(placed)[0])
