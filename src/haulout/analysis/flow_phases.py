"""The number of fences that a program needs when its lists may be reordered, and a phase for every instruction.

`phases.py` finds the fewest fences for the lists as they are. Here only data flow counts: conflicts, inside a core and
between cores, and dependences. An edge between cores has weight 1, an edge inside a core weight 0. The *phase* of an
instruction is the largest weight of a path to it. With the lists sorted by phase, every edge leads from a lower phase
to a higher one, or forward in the list of one core, so the order is topological, and the number of fences is the
largest phase. No order needs fewer: the edges of weight 1 on the longest path need a fence each, one after the other.

1. `behind`: the longest path *from* each instruction, one scan backward in source time;
2. `phase`: forward, as in `phases.py` between the least possible and the largest one that adds no fence: an instruction
   enters the phase that some core has entered by its source time, unless `behind` forbids it. So it leaves its place
   in the source only if it must.

A *window* limits how far instructions move: two that are further apart in source time keep their order, as if by an
edge of weight 0. Every window gives a topological order; a wide one has fewer fences, a narrow one shorter lifetimes.

Accesses are kept in chains as in `phases.py`. Along a chain phases may fall here, so each access has the largest phase
of its chain so far: the walk ends where that is too small to matter. A write of a whole location conflicts with all
accesses before it, and what comes after it needs no look at those: its chains start again. After `WALK_LIMIT` tests
the rest of a chain counts without a test: a phase may then be too large, which costs a fence, never order.
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


class FlowPhases(NamedTuple):
    """A phase for every instruction."""

    phase: Ids
    needed: Ids
    """Of every segment: its largest phase."""


class Flow(NamedTuple):
    """A program as the scans read it; columns over instructions but for those of accesses."""

    order: Ids
    """Instructions by (segment, source time, core, list order)."""
    segment: Ids
    """Its block, as a number that all cores share."""
    core: Ids
    seq: Ints
    first: Bools
    """It stays the first of its core in its segment: the join of a loop or of a fork."""
    last: Bools
    """It stays the last one: the gather of an arm."""
    access_starts: Ids
    instruction: Ids
    """Of each access; the next three too."""
    owner: Ids
    """NONE: the operand is no access."""
    sort: Ids
    """0 a write, 1 a read."""
    covers: Bools
    """It writes its whole location."""
    producer_starts: Ints
    producers: Ids
    consumer_starts: Ints
    consumers: Ids
    cores: int


class FlowScan:
    """A program prepared for scans with several windows. Its instructions must have a `seq`."""

    def __init__(self, program: Program) -> None:
        self.x = extents(program)
        self.flow = _flow(program)
        self.rows = len(program.instructions)
        self.segments = int(self.flow.segment.max(initial=0)) + 1

    def phases(self, window: int) -> FlowPhases | None:
        """Phases with a window, in instructions of all cores; None: two cores have a conflict with equal `seq`, which
        no fence orders.
        """
        flow, none = self.flow, np.zeros(self.rows, np.int32)
        turned = flow._replace(order=flow.order[::-1].copy())
        work = (self.rows + len(flow.owner)) * flow.cores
        with plain_if_small(_scan_flow, work):
            behind, clash = _scan_flow(self.x, turned, flow.consumer_starts, flow.consumers, window, none, False)
            if clash:
                return None
            needed = np.zeros(self.segments, np.int32)
            np.maximum.at(needed, flow.segment, behind)
            latest = (needed[flow.segment] - behind).astype(np.int32)
            phase, _ = _scan_flow(self.x, flow, flow.producer_starts, flow.producers, window, latest, True)
        np.maximum.at(needed, flow.segment, phase)
        return FlowPhases(phase, needed)


def _flow(program: Program) -> Flow:
    instructions, accesses = program.instructions, program.accesses
    rows = len(instructions)
    segment: Ids = (instructions.block % max(len(program.blocks) // program.lnc, 1)).astype(np.int32)
    owner = touched_owner(program)
    x = extents(program)
    # Atomic accesses count as ordinary ones: those that a program has keep their order.
    sort = (~accesses.write).astype(np.int32)
    size = program.locations.size[accesses.location]
    covers = (sort == 0) & x.exact & (x.low == 0) & (x.high == size) & (owner != NONE)
    edges = program.dependences.take(~program.dependences.carried)
    by_producer = np.argsort(edges.producer, kind="stable")
    every = np.arange(rows + 1)
    return Flow(
        np.lexsort((instructions.seq, segment)).astype(np.int32),
        segment,
        program.instruction_core.astype(np.int32),
        instructions.seq,
        instructions.join,
        instructions.gather,
        program.access_starts.astype(np.int32),
        accesses.instruction,
        np.where(owner == NONE, NONE, np.unique(owner, return_inverse=True)[1]).astype(np.int32),
        sort,
        covers,
        np.searchsorted(edges.instruction, every).astype(np.int64),
        edges.producer,
        np.searchsorted(edges.producer[by_producer], every).astype(np.int64),
        edges.instruction[by_producer],
        program.lnc,
    )


@njit
def _scan_flow(
    x: Extents, flow: Flow, link_starts: Ints, links: Ids, window: int, latest: Ids, follow: bool
) -> tuple[Ids, int]:
    """The weight of the heaviest path to each instruction, and the number of conflicts with equal `seq`.

    With `follow`, an instruction also enters the phase that some core entered at an earlier source time, as far as
    `latest` lets it. With the order turned round and consumers for `links`: paths *from* each instruction.
    """
    rows = len(flow.order)
    owners = 0
    for access in range(len(flow.owner)):
        owners = max(owners, flow.owner[access] + 1)
    head = np.full((owners, flow.cores, 2), -1, np.int32)
    previous = np.full(len(flow.owner), -1, np.int32)
    peak = np.zeros(len(flow.owner), np.int32)
    phase = np.zeros(rows, np.int32)
    top = np.zeros(flow.cores, np.int32)
    clashes = 0
    part, begin, floor = -1, 0, 0
    # Phase that some core has entered before this source time, and at it.
    entered, entering, time = 0, 0, np.int64(-1)
    for at in range(rows):
        row = flow.order[at]
        core, segment = flow.core[row], flow.segment[row]
        if segment != part:
            part, begin, floor = segment, at, 0
            entered, entering, time = 0, 0, np.int64(-1)
            top[:] = 0
        if flow.seq[row] != time:
            time, entered = flow.seq[row], entering
        if at - window - 1 >= begin:
            floor = max(floor, phase[flow.order[at - window - 1]])
        best = floor
        if follow and not flow.first[row]:
            best = max(best, min(entered, latest[row]))
        if follow and flow.last[row]:
            best = max(best, top[core])
        for k in range(link_starts[row], link_starts[row + 1]):
            if flow.segment[links[k]] == segment:
                best = max(best, phase[links[k]])
        for a in range(flow.access_starts[row], flow.access_starts[row + 1]):
            owner = flow.owner[a]
            if owner < 0:
                continue
            for other in range(flow.cores):
                weight = 0 if other == core else 1
                for chain in range(2):
                    if flow.sort[a] == 1 and chain == 1:
                        continue  # two reads
                    b = head[owner, other, chain]
                    tests = 0
                    while b >= 0 and flow.segment[flow.instruction[b]] == segment:
                        same_time = weight == 1 and flow.seq[flow.instruction[b]] == flow.seq[row]
                        if not same_time and peak[b] + weight <= best:
                            break
                        if tests == WALK_LIMIT:
                            best = max(best, peak[b] + weight)
                            break
                        if same_time or phase[flow.instruction[b]] + weight > best:
                            tests += 1
                            if _scan_meets(x, min(a, b), max(a, b)):
                                if not same_time:
                                    best = phase[flow.instruction[b]] + weight
                                else:
                                    clashes += 1
                        b = previous[b]
        phase[row] = best
        entering = max(entering, best)
        top[core] = max(top[core], best)
        for a in range(flow.access_starts[row], flow.access_starts[row + 1]):
            owner = flow.owner[a]
            if owner < 0:
                continue
            if flow.covers[a]:
                head[owner] = -1
            b = head[owner, core, flow.sort[a]]
            previous[a] = b
            peak[a] = best
            if b >= 0 and flow.segment[flow.instruction[b]] == segment:
                peak[a] = max(best, peak[b])
            head[owner, core, flow.sort[a]] = a
    return phase, clashes
