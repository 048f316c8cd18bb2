"""How many fences a program needs when its lists may be reordered, and the phases of every instruction.

`phases.py` finds the fewest fences for the lists as they are. Here only data flow counts: conflicts, inside a core
and between cores, and dependences. An edge between cores has weight 1, an edge inside a core weight 0. With K the
weight of the heaviest path, an instruction has a range of *phases*:

    earliest   the weight of the heaviest path to it: one scan forward in source time
    latest     K less that of the heaviest path from it: the same scan backward

Both are phases: every edge leads from a lower phase to a higher one, or stays inside a core and a phase. So the lists
sorted by phase, stably, are a topological order with K fences. No order needs fewer: the edges of weight 1 on the
heaviest path need a fence each, one after the other.

*Cuts* of source time limit how far instructions move: phases do not fall across a cut, so what is behind it comes in
no earlier phase than anything before it. Without cuts there are the fewest fences; many cuts keep the lists near the
given ones.

Inside a phase instructions have *times*: each has its place between the cuts around it, as a part of the distance,
or the time of what it depends on if that is later. What waits for a fence thus comes at its place *one part later*,
among the instructions of that part: engines that would wait for each other there have work.

Accesses are kept in chains as in `phases.py`, one for each (owner location, core, read or write). Phases may fall
along a chain, so each access has the largest phase of its chain so far: a walk ends where that is too small to
matter. A write of a whole location conflicts with all accesses before it and so stands for them: its chains start
again. After `WALK_LIMIT` tests the rest of a chain counts without a test: a phase may then be too large, which costs
a fence, never order. Atomic accesses count as ordinary ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.dependences import touched_owner
from haulout.analysis.order_scan import WALK_LIMIT
from haulout.analysis.overlap import Extents, _scan_meets, extents
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.jit import njit, plain_if_small

STEPS = 1 << 12
"""Times in a phase."""


class FlowPhases(NamedTuple):
    """The range of phases of every instruction, as times: phase k has times from `k * STEPS` on."""

    earliest: Ints
    latest: Ints
    simultaneous: int
    """Conflicts of two cores with equal `seq`, which no fence orders; they count as no edges."""


class _Flow(NamedTuple):
    """A program as the scan reads it; columns over instructions but for those of accesses."""

    segment: Ids
    core: Ids
    seq: Ints
    access_starts: Ids
    instruction: Ids
    """Of each access; the next three too."""
    owner: Ids
    """NONE: the operand is no access."""
    write: Bools
    covers: Bools
    """It writes its whole location."""


class FlowScan:
    """A program prepared for scans with several windows. Each of its instructions must have a `seq`.

    Blocks are segments: nothing moves from one to another.
    """

    def __init__(self, program: Program) -> None:
        instructions, accesses = program.instructions, program.accesses
        rows = len(instructions)
        self.segment: Ids = (instructions.block % max(len(program.blocks) // program.lnc, 1)).astype(np.int32)
        """Of every instruction its block, as a number that all cores share."""
        self.cores = program.lnc
        self._order: Ids = np.lexsort((instructions.seq, self.segment)).astype(np.int32)
        time = np.stack([self.segment, instructions.seq])[:, self._order]
        self._starts: Ints = np.flatnonzero(np.append(True, np.any(time[:, 1:] != time[:, :-1], axis=0))[:rows])
        # The gather of an arm stays the last of its block, the join of a loop or a fork the first.
        self._last, self._first = instructions.gather, instructions.join
        edges = program.dependences.take(~program.dependences.carried)
        by_producer = np.argsort(edges.producer, kind="stable")
        every = np.arange(rows + 1)
        self._producers = np.searchsorted(edges.instruction, every).astype(np.int64), edges.producer
        self._consumers = (
            np.searchsorted(edges.producer[by_producer], every).astype(np.int64),
            edges.instruction[by_producer],
        )
        self._x = x = extents(program)
        owner = touched_owner(program)
        whole = x.exact & (x.low == 0) & (x.high == program.locations.size[accesses.location])
        self._flow = _Flow(
            self.segment,
            program.instruction_core.astype(np.int32),
            instructions.seq,
            program.access_starts.astype(np.int32),
            accesses.instruction,
            np.where(owner == NONE, NONE, np.unique(owner, return_inverse=True)[1]).astype(np.int32),
            accesses.write,
            accesses.write & whole,
        )

    def phases(self, cuts: Ints) -> FlowPhases:
        """The phases with cuts of source time: each is the place of an instruction in the order of source time."""
        rows = len(self.segment)
        work = (rows + len(self._flow.owner)) * self.cores
        cuts = self._starts[np.searchsorted(self._starts, cuts, side="right") - 1]
        within = self._within(cuts)
        with plain_if_small(_scan_flow, work):
            earliest, clashes = _scan_flow(
                self._x, self._flow, self._order, *self._producers, self._last, self.cores, cuts, within
            )
            back = self._order[::-1].copy(), *self._consumers, self._first, self.cores, rows - cuts[::-1]
            behind, _ = _scan_flow(self._x, self._flow, *back, STEPS - 1 - within)
        needed = np.zeros(int(self.segment.max(initial=0)) + 1, np.int64)
        np.maximum.at(needed, self.segment, behind // STEPS)
        return FlowPhases(earliest, (needed[self.segment] + 1) * STEPS - 1 - behind, clashes)

    def _within(self, cuts: Ints) -> Ints:
        """Of every instruction its place between the cuts around it and those of its segment, from 0 to `STEPS`."""
        every = np.arange(len(self.segment))
        parting = np.flatnonzero(np.diff(self.segment[self._order], prepend=NONE))
        begins = np.union1d(parting, cuts[cuts < len(every)])
        part = np.searchsorted(begins, every, side="right") - 1
        length = np.diff(np.append(begins, len(every)))
        # the cores' instructions of one time have one place
        time = self._starts[np.searchsorted(self._starts, every, side="right") - 1]
        within = np.empty(len(every), np.int64)
        within[self._order] = (time - begins[part]) * STEPS // length[part]
        return within


@njit
def _after(time: int, weight: int, within: int) -> int:
    """The first time for an instruction after one at `time`, at its own place if that is in an earlier phase."""
    return (time // STEPS + 1) * STEPS + within if weight else time


@njit
def _scan_flow(
    x: Extents,
    flow: _Flow,
    order: Ids,
    link_starts: Ints,
    links: Ids,
    pinned: Bools,
    cores: int,
    cuts: Ints,
    within: Ints,
) -> tuple[Ints, int]:
    """The weight of the heaviest path to each instruction, and the number of conflicts of cores with equal `seq`.

    `order` is ascending by (segment, source time, row); `links` are the producers of each instruction. In descending
    order and with consumers: the heaviest path *from* each instruction. What is `pinned` comes after all others of
    its core in its segment.
    """
    owners = 0
    for access in range(len(flow.owner)):
        owners = max(owners, flow.owner[access] + 1)
    head = np.full((owners, cores, 2), -1, np.int32)
    present, uses = np.empty((owners, cores), np.int32), np.zeros(owners, np.int32)  # the cores with a head, rising
    previous = np.full(len(flow.owner), -1, np.int32)
    peak = np.zeros(len(flow.owner), np.int64)
    phase = np.zeros(len(order), np.int64)
    top = np.zeros(cores, np.int64)
    clashes = 0
    part, reached, floor, following = -1, 0, 0, 0
    for at in range(len(order)):
        row = order[at]
        core, segment = flow.core[row], flow.segment[row]
        if segment != part:
            part, reached, floor = segment, 0, 0
            top[:] = 0
        while following < len(cuts) and cuts[following] <= at:
            floor = reached // STEPS
            following += 1
        best = floor * STEPS + within[row]
        if pinned[row]:
            best = max(best, top[core])
        for k in range(link_starts[row], link_starts[row + 1]):
            if flow.segment[links[k]] == segment:
                best = max(best, phase[links[k]])
        first, end = flow.access_starts[row], flow.access_starts[row + 1]
        for a in range(first, end):
            owner = flow.owner[a]
            if owner < 0:
                continue
            for use in range(uses[owner]):
                other = present[owner, use]
                weight = 0 if other == core else 1
                for chain in range(2 if flow.write[a] else 1):
                    b = head[owner, other, chain]
                    tests = 0
                    while b >= 0 and flow.segment[flow.instruction[b]] == segment:
                        clash = weight == 1 and flow.seq[flow.instruction[b]] == flow.seq[row]
                        if not clash and _after(peak[b], weight, within[row]) <= best:
                            break
                        if tests == WALK_LIMIT:
                            best = max(best, _after(peak[b], weight, within[row]))
                            break
                        behind = _after(phase[flow.instruction[b]], weight, within[row])
                        if clash or behind > best:
                            tests += 1
                            if _scan_meets(x, min(a, b), max(a, b)):
                                if clash:
                                    clashes += 1
                                else:
                                    best = behind
                        b = previous[b]
        phase[row] = best
        top[core] = max(top[core], best)
        reached = max(reached, best)
        for a in range(first, end):
            owner = flow.owner[a]
            if owner < 0:
                continue
            if flow.covers[a]:
                for use in range(uses[owner]):
                    head[owner, present[owner, use]] = -1
                uses[owner] = 0
            if head[owner, core, 0] < 0 and head[owner, core, 1] < 0:
                use = uses[owner]
                while use > 0 and present[owner, use - 1] > core:
                    present[owner, use] = present[owner, use - 1]
                    use -= 1
                present[owner, use] = core
                uses[owner] += 1
            chain = 0 if flow.write[a] else 1
            b = head[owner, core, chain]
            previous[a] = b
            peak[a] = best
            if b >= 0 and flow.segment[flow.instruction[b]] == segment:
                peak[a] = max(best, peak[b])
            head[owner, core, chain] = a
    return phase, clashes
