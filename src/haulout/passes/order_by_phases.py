"""order_by_phases: the lists of all cores in an order that needs fewer fences, or less time or storage with as many.

The fewest fences of `extend_shared_lifetimes` are those of the given lists. Most of their order is a choice of the
front end: only conflicts and dependences must keep theirs. `analysis/flow_phases.py` finds the phases of every
instruction by data flow, and each list sorted by phase needs as many fences as the largest phase.

1. Orders: the given one; for every instruction in its earliest phase, and in its latest, those with source time cut
   into `PARTS`; and the one with the fewest cuts, found one by one, with which the peak has `ROOM`.
2. Each gets the edges and the fences that it needs, an estimate of its makespan, and one of its peak, the sum over
   all cores.
3. Time, storage and fences count alike: the order with the smallest product is taken, where each fence counts as
   `FENCE`. The makespan may be at most `WORSE` times that of the given order, the peak `ROOM` times, and more where
   time is saved for it. A product that is hardly smaller (`PROMISE`) moves nothing. With a capacity, an order that
   fits is better than one that does not.
4. Edges between tensors that share storage may change the time of both, so this order and the given one are compiled
   to the end, and compared once more by what comes out. If another order promised more than that, it is compiled too.
5. New `seq`: by (block, time, old `seq`), the same on all cores. Conflicting pairs keep their order, so every read
   still sees the writes that it saw; the checker compares the two programs (`check_reordered`).

Nothing moves where the order is the user's, or not known: without `seq`; with a barrier that no pass made, a
`sendrecv` or a semaphore; with a conflict of two cores at one `seq`; with addresses, which may overlap; with views of
nothing; or where `seq` falls along a list, or a block has one that is not below those of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from haulout.analysis.flow_phases import STEPS, FlowScan
from haulout.analysis.makespan import makespan
from haulout.analysis.phases import phases
from haulout.analysis.straightline import fence_rows
from haulout.checker import check_reordered
from haulout.ir.builder import reorder_instructions
from haulout.ir.enums import NONE, DependenceKind, Space
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.passes.anti_dependency_analyzer import AntiDependencyAnalyzerPostSharedDram
from haulout.passes.assign_queues import AssignQueues
from haulout.passes.base import Pass, PassContext
from haulout.passes.coloring_allocator_dram_shared import ColoringAllocatorDramShared
from haulout.passes.extend_shared_lifetimes import (
    LOWERING,
    ExtendSharedLifetimes,
    count_makespans,
    drop_barriers,
    has_seq,
    made_fences,
)
from haulout.passes.fences.block_fences import fences_between, outside_atoms
from haulout.passes.fences.capacity import live_bytes
from haulout.passes.fences.slots import Slots, insert_fences, phase_slots
from haulout.passes.options import Bytes
from haulout.passes.order_cores import order_cores
from haulout.passes.sync_shared_allocations import SyncSharedAllocations
from haulout.support.diagnostics import HauloutError, fail
from haulout.target import DEFAULT, Target, load_target

PARTS = (1, 4, 16)
"""Source time is cut into so many equal parts, between which phases do not fall."""
WORSE = 1.01
"""The makespan may not be more than this times that of the given order, ..."""
ROOM = 1.1
"""... the peak not more than this ..."""
ROOM_FOR_TIME = 0.25
"""... and this part of the makespan that is saved, ..."""
FENCE = 1.005
"""... each fence counts as that much of both, for the estimate does not know how far apart cores arrive at it, ..."""
GAIN = 0.995
"""... and the product of all must be at most this times that of the given order ..."""
PROMISE = 0.95
"""... as compiled; before addresses it must be at most this times, for addresses make estimates worse."""
MOST_COMPILED = 3
"""Orders that are compiled, as long as one of those left promises more than what came out."""
GRID = 16
"""Places that are tried for a cut that lowers the peak, ..."""
MOST_CUTS = 4
"""... of which there are at most so many ..."""
WORK = 60_000
"""... and in a long program fewer: places times instructions."""


class _Order(NamedTuple):
    """What an order is worth with its fences."""

    fences: int
    makespan: float
    """Microseconds, to the nanosecond."""
    peak: int

    def fits(self, capacity: int | None) -> bool:
        """Whether the peak is within the capacity."""
        return capacity is None or self.peak <= capacity

    @property
    def product(self) -> float:
        """Time, storage and fences."""
        return self.makespan * self.peak * FENCE**self.fences

    def key(self, capacity: int | None) -> tuple[bool, float, int]:
        """The smallest for the best order."""
        return not self.fits(capacity), self.product, self.fences

    def better(self, given: _Order, capacity: int | None, gain: float) -> bool:
        """Whether it is worth to leave the given order for this one."""
        fits, fitted = self.fits(capacity), given.fits(capacity)
        saved = 1 - self.makespan / max(given.makespan, 1e-3)
        bounded = saved >= 1 - WORSE and self.peak <= (ROOM + ROOM_FOR_TIME * max(saved, 0.0)) * given.peak
        gains = bounded and self.product <= gain * given.product
        return (fits or not fitted) and (gains or fits > fitted)


@dataclass(frozen=True)
class OrderByPhases(Pass):
    """Moves instructions inside their blocks, if that makes the program faster or smaller.

    Before: collectives are lowered (order 80); loops and forks nest. After: conflicting pairs have the order that
    they had, inside a core and between cores, and their edges; `seq` follows the lists. If something moved, the
    fences of order 80 are gone, and order 81 must place its own.
    """

    name: ClassVar[str] = "order_by_phases"
    cross_core: ClassVar[bool] = True

    capacity: Bytes | None = None
    """Bytes of DRAM for all cores."""
    target: str = DEFAULT
    """The machine for which orders are compared: a preset, or FILE.toml."""

    def run(self, program: Program, context: PassContext) -> Program:
        """Judge the orders, keep the best."""
        best = self._best(program, context) if _may_move(program) else None
        if best is None:
            context.count(self.name, moved=0)
            return program
        if made_fences(program, LOWERING):
            # Order 81 cannot estimate them any more.
            count_makespans(context, lowered=makespan(program, load_target(self.target)).makespan)
        return best

    def _best(self, program: Program, context: PassContext) -> Program | None:
        """The best order other than the given one; None if that is the best."""
        target = load_target(self.target)
        bare = drop_barriers(program, {LOWERING, ExtendSharedLifetimes.name})
        orders = _Orders(bare)
        if not orders.free:
            return None
        given = _measured(_given_fences(bare), target)
        found: list[tuple[_Order, _Moved, Program]] = []
        seen = {np.arange(len(bare.instructions), dtype=np.int32).tobytes()}
        for latest in (False, True):
            for cuts in (*orders.even_cuts(), *orders.cuts_within(latest, int(ROOM * given.peak))):
                moved = orders.moved(cuts, latest)
                if moved.origin.tobytes() in seen:
                    continue
                seen.add(moved.origin.tobytes())
                # What the order of an engine implied before may need an edge now.
                linked = order_cores(moved.program, set(DependenceKind), removable_fences=False)[0]
                if not _producers_come_first(linked):
                    continue
                order = _measured(moved.fenced(linked), target)
                if order.better(given, self.capacity, PROMISE):
                    found.append((order, moved, linked))
        if not found:
            return None
        before = self._compiled(program, target)
        best: tuple[_Order, _Moved, Program] | None = None
        for promised, moved, linked in sorted(found, key=lambda each: each[0].key(self.capacity))[:MOST_COMPILED]:
            if best is not None and best[0].key(self.capacity) <= promised.key(self.capacity):
                break
            if wrong := check_reordered(bare, moved.program, moved.origin):
                fail("internal-error", f"{self.name} changed the order of a conflict", notes=[wrong[0].message])
            made = self._compiled(linked, target)
            if made is None or (before is not None and not made.better(before, self.capacity, GAIN)):
                continue
            if best is None or made.key(self.capacity) < best[0].key(self.capacity):
                best = made, moved, linked
        if best is None:
            return None
        after, moved, linked = best
        context.count(
            self.name,
            moved=int(np.count_nonzero(moved.origin != np.arange(len(moved.origin)))),
            fences_before=given.fences if before is None else before.fences,
            fences_after=after.fences,
        )
        return linked

    def _compiled(self, program: Program, target: Target) -> _Order | None:
        """A program with its final fences, addresses and edges; None where it does not fit."""
        passes = (
            ExtendSharedLifetimes(capacity=self.capacity, joint=True, target=self.target),
            AssignQueues(target=self.target),
            ColoringAllocatorDramShared(capacity=self.capacity, target=self.target),
            SyncSharedAllocations(),
            AntiDependencyAnalyzerPostSharedDram(fences_are_final=True),
        )
        placed, context = program, PassContext()
        try:
            for each in passes:
                placed = each.run(placed, context)
        except HauloutError:
            return None
        dram = placed.locations.take(placed.locations.space <= Space.DRAM_SHARED)
        peak = int((dram.address + dram.size)[dram.address != NONE].max(initial=0))
        time = round(makespan(placed, target).makespan, 3)
        return _Order(len(fence_rows(placed)) // program.lnc, time, peak)


def _may_move(program: Program) -> bool:
    """Whether the order of the lists is free but for conflicts and dependences."""
    barriers, locations = program.barriers, program.locations
    made = [program.strings.find(name) for name in (LOWERING, ExtendSharedLifetimes.name)]
    users = ~np.isin(barriers.made_by, [each for each in made if each != NONE])
    if not has_seq(program) or users.any() or len(program.meetings) or len(program.semaphores):
        return False
    touched = program.accesses.location
    if np.any(locations.address[touched] != NONE) or np.any(program.owner[touched] == NONE):
        return False
    return _follows_seq(program)


def _follows_seq(program: Program) -> bool:
    """Whether `seq` rises along the lists, and all those of a block, on every core, are below those of the next."""
    blocks = len(program.blocks) // program.lnc
    block, seq = program.instructions.block % blocks, program.instructions.seq
    if np.any((np.diff(seq) < 0) & (np.diff(program.instructions.block) == 0)):
        return False
    low, high = np.full(blocks, np.iinfo(np.int64).max), np.full(blocks, np.iinfo(np.int64).min)
    np.minimum.at(low, block, seq)
    np.maximum.at(high, block, seq)
    used = np.flatnonzero(low <= high)
    function = program.blocks.function[used]
    same = function[1:] == function[:-1]
    return bool(np.all(low[used[1:]][same] > high[used[:-1]][same]))


def _in_atoms(program: Program) -> Bools:
    """Of every block of a core: whether it is in an arm of a divergent fork, where no fence is allowed."""
    divergent = program.structure.divergent_fork
    return np.array([divergent(block) != NONE for block in range(len(program.blocks) // program.lnc)], bool)


def sorted_by_time(program: Program, segment: Ids, time: Ints) -> tuple[Program, Ids]:
    """Each block sorted by time, stably, with new `seq` by (segment, time, old `seq`); and the old row of each
    instruction.
    """
    rows = program.instructions
    origin: Ids = np.lexsort((time, rows.block)).astype(np.int32)
    position = np.empty(len(origin), np.int32)
    position[origin] = np.arange(len(origin), dtype=np.int32)
    by_time = np.lexsort((rows.seq, time, segment))
    keys = np.stack([segment[by_time], time[by_time], rows.seq[by_time]])
    step = np.any(keys[:, 1:] != keys[:, :-1], axis=0)
    seq = np.empty(len(origin), np.int64)
    seq[by_time] = int(rows.seq.min()) + np.append(0, np.cumsum(step))
    moved = program.replace(instructions=rows.replace(seq=seq).take(origin))
    return reorder_instructions(moved, position), origin


def _producers_come_first(program: Program) -> bool:
    """False where what gathers the dependences of a block has moved ahead of one that it would have to wait for."""
    rows = program.dependences
    return bool((rows.producer < rows.instruction)[~rows.carried].all())


class _Moved(NamedTuple):
    """Lists that are sorted by (block, phase)."""

    program: Program
    origin: Ids
    """Of each instruction: its row in the given order."""
    phase: Ids

    def fenced(self, program: Program) -> Program:
        """`program`, which is this one or has more edges, with a fence of all cores where a phase begins."""
        phase = self.phase
        blocks, block = len(program.blocks) // program.lnc, program.instructions.block.astype(np.int64)
        needed = np.zeros(blocks, np.int64)
        np.maximum.at(needed, block % blocks, phase)
        segment = np.repeat(np.arange(blocks), needed)
        number = np.arange(len(segment)) - np.repeat(np.cumsum(needed) - needed, needed) + 1
        wanted = (np.arange(program.lnc) * blocks + segment[:, None]).ravel()
        most = int(needed.max(initial=0)) + 1
        before = np.searchsorted(block * most + phase, wanted * most + np.repeat(number, program.lnc))
        names = [f"fence{k}" for k in range(len(segment)) for _ in range(program.lnc)]
        return _with_fences(program, Slots(before.astype(np.int32), wanted.astype(np.int32), names))


class _Orders:
    """The orders of a program without fences."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._scan, self._atoms = FlowScan(program), _in_atoms(program)
        self._rows = len(program.instructions)
        self.free = not self._scan.phases(_even_cuts(self._rows, 1)).simultaneous
        """Whether no two cores conflict at one `seq`."""

    def moved(self, cuts: Ints, latest: bool) -> _Moved:
        """Every instruction in its earliest or latest phase, with some cuts of source time."""
        flow = self._scan.phases(cuts)
        time = np.where(self._atoms[self._scan.segment], 0, flow.latest if latest else flow.earliest)
        tried, origin = sorted_by_time(self._program, self._scan.segment, time)
        return _Moved(tried, origin, (time[origin] // STEPS).astype(np.int32))

    def even_cuts(self) -> Iterator[Ints]:
        """Those between equal parts."""
        return (_even_cuts(self._rows, parts) for parts in PARTS)

    def cuts_within(self, latest: bool, most: int) -> Iterator[Ints]:
        """The fewest cuts, found one by one, with which the peak is at most so many bytes, if there are any."""
        grid = _even_cuts(self._rows, min(GRID, WORK // max(self._rows, 1)))
        chosen: tuple[int, ...] = ()
        peak = self._peak((), latest)
        while peak > most and len(chosen) < MOST_CUTS:
            tries = [tuple(sorted({*chosen, place})) for place in grid.tolist()]
            left, best = min(((self._peak(cuts, latest), cuts) for cuts in tries), default=(peak, chosen))
            if left >= peak:
                return
            peak, chosen = left, best
        if chosen and peak <= most:
            yield np.array(chosen, np.int64)

    def _peak(self, cuts: tuple[int, ...], latest: bool) -> int:
        moved = self.moved(np.array(cuts, np.int64), latest)
        return live_bytes(moved.fenced(moved.program))[0]


def _even_cuts(rows: int, parts: int) -> Ints:
    return np.arange(1, parts) * rows // max(parts, 1)


def _given_fences(program: Program) -> Program:
    """The lists as they are, with the fewest fences at source time."""
    found = outside_atoms(program, phases(program, fence_rows(program)))
    names = [f"fence{k}" for k in range(int(found.needed.sum()))]
    return _with_fences(program, phase_slots(program, found, names))


def _with_fences(program: Program, slots: Slots) -> Program:
    placed = insert_fences(program, slots, OrderByPhases.name)
    return insert_fences(placed, fences_between(placed, "block_fence"), OrderByPhases.name)


def _measured(placed: Program, target: Target) -> _Order:
    fences = len(fence_rows(placed)) // placed.lnc
    return _Order(fences, round(makespan(placed, target).makespan, 3), live_bytes(placed)[0])
