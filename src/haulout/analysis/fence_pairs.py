"""What each fence is for: the conflicts between cores that it alone orders.

A conflict that crosses one fence of the list needs that fence; one that crosses several does not need any one of
them. So the accesses of one epoch are compared with those of the next. In a loop the last epoch of an iteration also
meets the first ones of the next iteration: there a fence is crossed by what is later in the list and by what is
earlier. Loops that have fences in a region inside them are compared in list order alone.

For each access the last conflicting one of each core and sort (read, write) is found, as in `phases.py`: enough to
say which operations need the fence, and no list of all pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.analysis.overlap import Extents, _scan_conflict, _scan_meets, extents
from haulout.analysis.phases import shared_accesses
from haulout.analysis.straightline import epochs, fence_rows
from haulout.ir.atomics import access_sorts
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.jit import njit, plain_if_small


class FencePairs(NamedTuple):
    """A row for each pair of conflicting accesses."""

    fence: Ids
    """The fence, an instruction of the first core."""
    earlier: Ids
    """Accesses."""
    later: Ids
    carried: Bools
    """Whether the later one is in the next iteration of a loop."""


class _Shared(NamedTuple):
    """Accesses that conflicts between cores are among, by owner location and row."""

    access: Ids
    owner: Ids
    core: Ids
    sort: Ids


def fence_pairs(program: Program) -> FencePairs:
    """The conflicts that one fence alone orders, by fence."""
    access = np.flatnonzero(shared_accesses(program))
    owner = program.owner[program.accesses.location[access]]
    access = access[np.argsort(owner, kind="stable")]
    row = program.accesses.instruction[access]
    shared = _Shared(
        access.astype(np.int32),
        program.owner[program.accesses.location[access]].astype(np.int32),
        program.instruction_core[row].astype(np.int32),
        access_sorts(program)[access],
    )
    epoch = epochs(program)
    here = epoch[row]
    rows = fence_rows(program)
    fences = rows[program.instruction_core[rows] == 0]
    order = np.argsort(here, kind="stable")
    ends = np.searchsorted(here[order], epoch[fences, None] + np.arange(3))
    found: list[tuple[int, Ids, bool]] = []
    x, seen = extents(program), np.empty((program.lnc, int(shared.sort.max(initial=0)) + 1), np.int64)

    def look(fence: int, earlier: Ints, later: Ints, carried: bool) -> None:
        if len(earlier) and len(later):
            # Both are sorted by owner, and accesses of one owner are compared pair by pair.
            owners = shared.owner[earlier]
            first, last = (np.searchsorted(owners, shared.owner[later], side) for side in ("left", "right"))
            with plain_if_small(_scan_pairs, len(earlier) + len(later) + int((last - first).sum())):
                found.append((fence, _scan_pairs(x, shared, earlier, later, seen), carried))

    for fence, (begin, middle, end) in zip(fences.tolist(), ends.tolist(), strict=True):
        look(fence, order[begin:middle], order[middle:end], False)
    structure, blocks = program.structure, len(program.blocks) // program.lnc
    block, regions = program.instructions.block, structure.region_of
    for number, loop in structure.loops.items():
        inside = fences[(block[fences] >= loop.begin) & (block[fences] < loop.end)]
        if not len(inside) or any(regions[at] != number for at in block[inside].tolist()):
            continue
        within = np.flatnonzero((block[row] % blocks >= loop.begin) & (block[row] % blocks < loop.end))
        parts = [within[here[within] == epoch[inside[0]] + at] for at in range(len(inside) + 1)]
        look(int(inside[-1]), parts[-2], parts[0], True)
        look(int(inside[0]), parts[-1], parts[1], True)
    pairs = np.concatenate([np.empty((0, 2), np.int32), *(made for _, made, _ in found)])
    counts = [len(made) for _, made, _ in found]
    fence = np.repeat(np.array([each for each, _, _ in found], np.int32), counts)
    carried = np.repeat(np.array([each for _, _, each in found], bool), counts)
    return FencePairs(fence, pairs[:, 0], pairs[:, 1], carried)


@njit
def _scan_pairs(x: Extents, shared: _Shared, earlier: Ints, later: Ints, seen: Ints) -> Ids:
    """[pair, 2]: for each access of `later` the last one of each core and sort among `earlier` that conflicts.

    `seen` [core, sort] is room for the last access of `later` that has found one.
    """
    seen[:] = -1
    pairs = np.empty((64, 2), np.int32)
    count = 0
    begin = 0
    for number in range(len(later)):
        b = later[number]
        while begin < len(earlier) and shared.owner[earlier[begin]] < shared.owner[b]:
            begin += 1
        end = begin
        while end < len(earlier) and shared.owner[earlier[end]] == shared.owner[b]:
            end += 1
        for at in range(end - 1, begin - 1, -1):
            a = earlier[at]
            if shared.core[a] == shared.core[b] or seen[shared.core[a], shared.sort[a]] == number:
                continue
            if not _scan_conflict(shared.sort[a], shared.sort[b]):
                continue
            one, two = shared.access[a], shared.access[b]
            if not _scan_meets(x, min(one, two), max(one, two)):
                continue
            seen[shared.core[a], shared.sort[a]] = number
            if count == len(pairs):
                grown = np.empty((2 * count, 2), np.int32)
                grown[:count] = pairs
                pairs = grown
            pairs[count, 0], pairs[count, 1] = one, two
            count += 1
    return pairs[:count]
