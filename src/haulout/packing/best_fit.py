"""Best fit by gaps: rows in a given order, each into a gap that the rows placed so far leave it.

One pass over the placed rows that meet the new one, in the order of their offsets, sees its gaps from below: the
tightest one that is large enough is taken (or the lowest: first fit), else the place above all of them. Unlike the
dive it honours pinned rows, which are placed before all others, and the holes of live ranges.

Which placed rows meet the new one is found in one of two ways, whichever is estimated to cost less:

    line   all placed rows are kept in the order of their offsets, and looked at: O(n) a row, with a small constant
    tree   a tournament tree over the rows, sorted by first column, keeps the greatest last column of the placed rows
           below each node; those found are sorted by offset: O(k log n) a row that meets k others

In the order of decreasing size, and of decreasing lifetime, this is what XLA does (its global decreasing size best
fit heap), so the better of the two is never worse than XLA's.

`settle` takes a placement, from a dive say, and places the rows again in the order of their offsets, lowest place
first: no row goes higher than it was, and rows fall into holes that the dive did not see.
"""

from __future__ import annotations

import numpy as np

from haulout.packing.instance import Instance
from haulout.packing.problem import I64, LIMIT
from haulout.support.jit import njit

_TREE = 250
"""What it costs to find and sort a row that is met, where looking at one on the line costs 1."""


def best_fit(instance: Instance, order: I64, *, tight: bool = True) -> tuple[I64, int]:
    """Place rows in `order`, pinned ones first; offsets and peak in units, peak -1 when 2**62 was passed."""
    pinned = instance.pinned[order] >= 0
    offset = np.zeros(len(instance), np.int64)
    scan = _scan_line if len(instance) ** 2 <= _TREE * instance.meetings else _scan_tree
    peak = scan(
        np.concatenate([order[pinned], order[~pinned]]),
        instance.first,
        instance.last,
        instance.size,
        instance.alignment,
        instance.segment,
        instance.pinned,
        instance.start_of,
        instance.range_of,
        instance.range_first,
        instance.range_last,
        instance.has_holes,
        tight,
        LIMIT // instance.unit,
        offset,
    )
    return offset, int(peak)


def cost(instance: Instance) -> int:
    """About how many rows a best fit looks at: some 10**9 a second."""
    return min(len(instance) ** 2, _TREE * instance.meetings)


def settle(instance: Instance, offset: I64) -> tuple[I64, int]:
    """Let every row fall as far as it can, lowest first."""
    return best_fit(instance, np.argsort(offset, kind="stable"), tight=False)


def xla_orders(instance: Instance) -> list[I64]:
    """Decreasing size then lifetime, and decreasing lifetime then size; ties by the problem's order."""
    return [
        np.lexsort((instance.buffer, -instance.duration, -instance.size)),
        np.lexsort((instance.buffer, -instance.size, -instance.duration)),
    ]


@njit
def _conflict(i: int, j: int, range_of: I64, range_first: I64, range_last: I64) -> bool:
    """Whether a range of row i meets a range of row j."""
    x, y = range_of[i], range_of[j]
    while x < range_of[i + 1] and y < range_of[j + 1]:
        if range_last[x] <= range_first[y]:
            x += 1
        elif range_last[y] <= range_first[x]:
            y += 1
        else:
            return True
    return False


@njit
def _collect(end: int, begin: int, greatest: I64, todo: I64, met: I64) -> int:
    """Fill `met` with the placed rows below `end` whose last column is beyond `begin`; how many they are."""
    leaves = len(greatest) // 2
    depth = found = 0
    one, two = leaves, end + leaves
    while one < two:  # nodes that cover the rows exactly
        if one % 2:
            todo[depth] = one
            depth += 1
            one += 1
        if two % 2:
            two -= 1
            todo[depth] = two
            depth += 1
        one //= 2
        two //= 2
    while depth > 0:
        depth -= 1
        node = todo[depth]
        if greatest[node] <= begin:
            continue
        if node >= leaves:
            met[found] = node - leaves
            found += 1
        else:
            todo[depth] = 2 * node
            todo[depth + 1] = 2 * node + 1
            depth += 2
    return found


@njit
def _scan_tree(
    order: I64,
    first: I64,
    last: I64,
    size: I64,
    alignment: I64,
    segment: I64,
    pinned: I64,
    start_of: I64,
    range_of: I64,
    range_first: I64,
    range_last: I64,
    holes: bool,
    tight: bool,
    limit: int,
    offset: I64,
) -> int:
    """Fill `offset`; the peak, or -1 when a row would end above `limit`."""
    rows = len(order)
    leaves = 1
    while leaves < rows:
        leaves *= 2
    greatest = np.full(2 * leaves, -1, np.int64)
    todo = np.empty(160, np.int64)
    met = np.empty(rows, np.int64)
    peak = 0
    for row in order:
        need, align, whole = size[row], alignment[row], segment[row]
        chosen = pinned[row]
        if chosen < 0:
            found = _collect(start_of[last[row]], first[row], greatest, todo, met)
            if holes:
                kept = 0
                for k in range(found):
                    if _conflict(row, met[k], range_of, range_first, range_last):
                        met[kept] = met[k]
                        kept += 1
                found = kept
            near = met[:found]
            near = near[np.argsort(offset[near])]
            reach = 0  # end of the rows met so far
            gap = (1 << 62) + 1
            for k in range(found + 1):
                floor = offset[near[k]] if k < found else 1 << 62
                if floor - reach >= need and floor - reach < gap:
                    place = (reach + align - 1) // align * align
                    if whole > 0 and place % whole + need > whole:
                        place = (place // whole + 1) * whole
                    if floor - place >= need:
                        chosen = place
                        gap = floor - reach
                        if not tight:
                            break
                if k < found:
                    reach = max(reach, floor + size[near[k]])
        if chosen < 0 or need > limit - chosen:
            return -1
        offset[row] = chosen
        peak = max(peak, chosen + need)
        node = leaves + row
        while node >= 1 and greatest[node] < last[row]:
            greatest[node] = last[row]
            node //= 2
    return peak


@njit
def _scan_line(
    order: I64,
    first: I64,
    last: I64,
    size: I64,
    alignment: I64,
    segment: I64,
    pinned: I64,
    start_of: I64,
    range_of: I64,
    range_first: I64,
    range_last: I64,
    holes: bool,
    tight: bool,
    limit: int,
    offset: I64,
) -> int:
    """Fill `offset`; the peak, or -1 when a row would end above `limit`."""
    rows = len(order)
    low = np.empty(rows, np.int64)  # the placed rows by offset: columns, bytes, row
    high = np.empty(rows, np.int64)
    at = np.empty(rows, np.int64)
    top = np.empty(rows, np.int64)
    who = np.empty(rows, np.int64)
    peak = 0
    for placed in range(rows):
        row = order[placed]
        begin, end, need, align, whole = first[row], last[row], size[row], alignment[row], segment[row]
        chosen = pinned[row]
        if chosen < 0:
            reach = 0  # end of the conflicting rows met so far
            gap = 1 << 62
            for j in range(placed):
                if low[j] < end and begin < high[j]:
                    if holes and not _conflict(row, who[j], range_of, range_first, range_last):
                        continue
                    if at[j] - reach >= need and at[j] - reach < gap:
                        place = (reach + align - 1) // align * align
                        if whole > 0 and place % whole + need > whole:
                            place = (place // whole + 1) * whole
                        if at[j] - place >= need:
                            chosen = place
                            gap = at[j] - reach
                            if not tight:
                                break
                    reach = max(reach, top[j])
            if chosen < 0:
                chosen = (reach + align - 1) // align * align
                if whole > 0 and chosen % whole + need > whole:
                    chosen = (chosen // whole + 1) * whole
        if need > limit - chosen:
            return -1
        offset[row] = chosen
        peak = max(peak, chosen + need)
        slot = np.searchsorted(at[:placed], chosen, side="right")
        for j in range(placed, slot, -1):
            low[j], high[j], at[j], top[j], who[j] = low[j - 1], high[j - 1], at[j - 1], top[j - 1], who[j - 1]
        low[slot], high[slot], at[slot], top[slot], who[slot] = begin, end, chosen, chosen + need, row
    return peak
