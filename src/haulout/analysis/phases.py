"""The number of fences that cross-core conflicts need, and their places: P2 of the design's theory, with slack.

`seq` orders the instructions of all cores. A conflict between two cores is an edge from the earlier to the later; the
list order of each core gives the other edges. The *phase* of an instruction is the largest number of cross-core edges
on a path to it. With K the largest phase, K fences are necessary (a path with K cross-core edges crosses K fences one
after the other) and sufficient (fence k goes, on each core, between phases k - 1 and k).

1. `earliest`: longest path from the start, one scan forward;
2. `latest`: K less the longest path to the end, the same scan backward;
3. `phase`: between the two, as close to source time as possible: when one core enters phase k, the others follow at
   their next instruction that may, so that no core waits at a fence for unrelated work.

The range from `earliest` to `latest` is slack: `passes/fences/choose.py` tries several rules to use it.

Permanent fences (the user's) cut the lists into segments. They order everything across segments, so each segment is a
problem of its own. In a program with loops or forks, so is every block (`passes/fences/block_fences.py` adds fences
between blocks). Conflicts are found as in `dependences.py`: a chain of accesses for each (owner location, core, sort
of access: read, write, atomic), walked from its end; phases never fall along a chain, so the first overlap decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.overlap import Extents, _scan_conflict, _scan_meets, extents
from haulout.ir.atomics import access_sorts, find_atomics
from haulout.ir.enums import NONE, Space
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.jit import njit, plain_if_small


class Phases(NamedTuple):
    """Phases of the instructions with shared accesses, in source order, and what each segment needs."""

    segment: Ids
    """Of every instruction of the program: the number of permanent fences and function ends before it."""
    closes: Bools
    """Of every instruction of the program: whether it is a permanent fence."""
    needed: Ids
    """Of every segment: the number of its fences, the longest chain of cross-core edges."""
    instruction: Ids
    """Instructions with shared accesses, by (seq, core, list order); the columns below go with it."""
    phase: Ids
    """The phase by source time; like the next two it never falls inside a segment of a core."""
    earliest: Ids
    """The least phase that it can have."""
    latest: Ids
    """The largest one that leaves the number of fences as it is."""
    reach: Ids
    """[instruction, core]: the last instruction of that core that must be in an earlier phase, unless every choice
    puts it there; NONE: none."""
    simultaneous: Ids
    """Pairs (a, b, a, b, ...) of conflicting accesses on two cores with equal `seq`: no fence orders them."""


def shared_accesses(program: Program) -> Bools:
    """Whether each access is to a DRAM location that two cores name; operands of barriers are no accesses."""
    accesses, locations = program.accesses, program.locations
    barrier = np.zeros(len(program.instructions), bool)
    barrier[program.barriers.instruction] = True
    owner = program.owner
    shared = np.zeros(len(locations), bool)
    views = np.flatnonzero(locations.remote_name != NONE)
    shared[views] = True
    shared[owner[views][owner[views] != NONE]] = True
    shared &= locations.space == Space.DRAM_SHARED
    mask: Bools = shared[accesses.location] & ~barrier[accesses.instruction] & (owner[accesses.location] != NONE)
    return mask


def phases(program: Program, permanent: Ids) -> Phases:
    """Phases of every instruction; `permanent` are the fences that stay, the same number on every core.

    Every instruction must have a `seq`.
    """
    instructions, accesses = program.instructions, program.accesses
    rows, core = len(instructions), program.instruction_core
    closes = np.zeros(rows, bool)
    closes[permanent] = True
    before = np.zeros(rows, np.int64)
    before[1:] = np.cumsum(closes[:-1])
    first = np.searchsorted(core, np.arange(program.lnc))
    base = before[np.minimum(first, max(rows - 1, 0))] if rows else first
    # Functions cut; where there are loops or forks, every block does. All cores have the same, in the same order.
    parts = len(program.blocks) if program.structure else len(program.functions)
    part = instructions.block if parts == len(program.blocks) else program.instruction_function
    segment: Ids = (before - base[core] + part % max(parts // program.lnc, 1)).astype(np.int32)
    chosen = np.flatnonzero(shared_accesses(program))
    # sort by (function, source time), then core and list order
    time = instructions.seq[accesses.instruction[chosen]]
    function = program.functions.name[program.instruction_function[accesses.instruction[chosen]]]
    picked: Ids = chosen[np.lexsort((time, function))].astype(np.int32)
    rows_of = accesses.instruction[picked]
    owner: Ids = np.unique(program.owner[accesses.location[picked]], return_inverse=True)[1].astype(np.int32)
    view = _View(
        picked,
        rows_of,
        owner,
        access_sorts(program)[picked],
        find_atomics(program).kind[picked],
        core[rows_of],
        instructions.seq[rows_of],
        segment[rows_of],
    )
    backward = _View(
        picked[::-1].copy(),
        rows_of[::-1].copy(),
        owner[::-1].copy(),
        view.sort[::-1].copy(),
        view.atomic[::-1].copy(),
        view.core[::-1].copy(),
        view.seq[::-1].copy(),
        view.segment[::-1].copy(),
    )
    x = extents(program)
    none = np.zeros(len(picked), np.int32)
    with plain_if_small(_scan_phases, len(picked) * program.lnc):
        earliest, clashes = _scan_phases(x, view, program.lnc, none, False)
        behind, _ = _scan_phases(x, backward, program.lnc, none, False)
        needed = np.zeros(int(segment.max(initial=0)) + 1, np.int32)
        np.maximum.at(needed, view.segment, earliest)
        latest = (needed[view.segment] - behind[::-1]).astype(np.int32)
        phase, _ = _scan_phases(x, view, program.lnc, latest, True)
        reach = _scan_reach(x, view, program.lnc, earliest, latest)
    first_of = np.ones(len(picked), bool)
    first_of[1:] = rows_of[1:] != rows_of[:-1]
    return Phases(
        segment,
        closes,
        needed,
        instruction=rows_of[first_of],
        phase=phase[first_of],
        earliest=earliest[first_of],
        latest=latest[first_of],
        reach=reach[first_of],
        simultaneous=clashes,
    )


class _View(NamedTuple):
    """Shared accesses in the order in which they are scanned."""

    access: Ids
    instruction: Ids
    owner: Ids
    sort: Ids
    """What the access does (`ir/atomics.py`)."""
    atomic: Ids
    """Its kind when it is atomic, else 0."""
    core: Ids
    seq: Ints
    segment: Ids


@njit
def _scan_chains(view: _View, cores: int) -> tuple[Ids, Ids, Ids, Ids]:
    """Empty chains of accesses: the last one of each, [owner, core, sort], and the one before each; and of each owner
    the cores that have chains, rising, [owner, number], and how many: few of many cores touch one location.
    """
    owners, sorts = 0, 2
    for at in range(len(view.access)):
        owners, sorts = max(owners, view.owner[at] + 1), max(sorts, view.sort[at] + 1)
    head, previous = np.full((owners, cores, sorts), -1, np.int32), np.full(len(view.access), -1, np.int32)
    return head, previous, np.empty((owners, cores), np.int32), np.zeros(owners, np.int32)


@njit
def _scan_enter(view: _View, at: int, head: Ids, previous: Ids, present: Ids, uses: Ids) -> None:
    """Put an access at the end of its chain."""
    owner, core = view.owner[at], view.core[at]
    previous[at] = head[owner, core, view.sort[at]]
    head[owner, core, view.sort[at]] = at
    use = uses[owner]
    while use > 0 and present[owner, use - 1] > core:
        use -= 1
    if use > 0 and present[owner, use - 1] == core:
        return
    for to in range(uses[owner], use, -1):
        present[owner, to] = present[owner, to - 1]
    present[owner, use] = core
    uses[owner] += 1


@njit
def _scan_end(view: _View, at: int) -> int:
    """The end of the accesses of the instruction whose first access is `at`."""
    end = at
    while end < len(view.access) and view.instruction[end] == view.instruction[at]:
        end += 1
    return end


@njit
def _scan_phases(x: Extents, view: _View, cores: int, latest: Ids, follow: bool) -> tuple[Ids, Ids]:
    """Number of cross-core edges on the longest path to each instruction, and conflicts with equal `seq`.

    With `follow`, an instruction also enters the phase that some core entered at an earlier source time, as far as
    `latest` lets it. In reverse order of the rows, without `follow`: longest paths *from* each instruction.
    """
    count = len(view.access)
    head, previous, present, uses = _scan_chains(view, cores)
    phase = np.zeros(count, np.int32)
    current = np.zeros(cores, np.int32)
    part = np.full(cores, -1, np.int32)
    clashes = np.empty(64, np.int32)
    clash = 0
    # Phase that some core has entered before this source time, and at it; in the furthest segment so far.
    entered, entering, time, furthest = 0, 0, np.int64(-1), -1
    at = 0
    while at < count:
        # All accesses of one instruction are judged before any is entered.
        end = _scan_end(view, at)
        core, segment = view.core[at], view.segment[at]
        if segment > furthest:
            furthest, entered, entering = segment, 0, 0
        if view.seq[at] != time:
            time, entered = view.seq[at], entering
        if part[core] != segment:
            part[core], current[core] = segment, 0
        best = current[core]
        if follow and segment == furthest:
            best = max(best, min(entered, latest[at]))
        for a in range(at, end):
            for use in range(uses[view.owner[a]]):
                other = present[view.owner[a], use]
                if other == core:
                    continue
                for chain in range(head.shape[2]):
                    if not _scan_conflict(view.sort[a], chain):
                        continue
                    b = head[view.owner[a], other, chain]
                    # A permanent fence orders accesses of other segments (perhaps against source order, which the
                    # checker reports).
                    while b >= 0 and view.segment[b] == segment:
                        same_time = view.seq[b] == view.seq[a]
                        if not same_time and phase[b] < best:
                            break
                        low, high = min(view.access[a], view.access[b]), max(view.access[a], view.access[b])
                        if _scan_meets(x, low, high):
                            if not same_time:
                                best = phase[b] + 1
                                break
                            # The checker notes results that depend on the order.
                            apart = view.atomic[a] == 0 or view.atomic[a] != view.atomic[b]
                            if apart and clash < len(clashes):
                                clashes[clash], clashes[clash + 1] = view.access[b], view.access[a]
                                clash += 2
                        b = previous[b]
        current[core] = best
        entering = max(entering, best) if segment == furthest else entering
        for a in range(at, end):
            phase[a] = best
            _scan_enter(view, a, head, previous, present, uses)
        at = end
    return phase, clashes[:clash]


@njit
def _scan_reach(x: Extents, view: _View, cores: int, earliest: Ids, latest: Ids) -> Ids:
    """[access, core]: the last instruction of another core, earlier in time, that the instruction conflicts with.

    Walks the chains of `_scan_phases`; a row whose latest phase is below this one's earliest ends the walk.
    """
    count = len(view.access)
    head, previous, present, uses = _scan_chains(view, cores)
    reach = np.full((count, cores), -1, np.int32)
    at = 0
    while at < count:
        end = _scan_end(view, at)
        core, segment = view.core[at], view.segment[at]
        for a in range(at, end):
            for use in range(uses[view.owner[a]]):
                other = present[view.owner[a], use]
                if other == core:
                    continue
                for chain in range(head.shape[2]):
                    if not _scan_conflict(view.sort[a], chain):
                        continue
                    b = head[view.owner[a], other, chain]
                    while b >= 0 and view.segment[b] == segment and latest[b] >= earliest[at]:
                        if view.instruction[b] <= reach[at, other]:
                            break
                        low, high = min(view.access[a], view.access[b]), max(view.access[a], view.access[b])
                        if view.seq[b] != view.seq[a] and _scan_meets(x, low, high):
                            reach[at, other] = view.instruction[b]
                            break
                        b = previous[b]
        for a in range(at, end):
            for other in range(cores):
                reach[a, other] = reach[at, other]
            _scan_enter(view, a, head, previous, present, uses)
        at = end
    return reach
