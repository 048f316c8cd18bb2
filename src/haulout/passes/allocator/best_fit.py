"""Best fit by gaps: rows in a given order, each into a gap that the rows placed so far leave it.

The placed rows are kept in the order of their offsets. One pass over those that conflict with the new row meets its
gaps from below; the tightest one that is large enough is taken (or the lowest: first fit), else the place above all
of them. Unlike the dive it honours pinned rows, which are placed before all others, and the holes of live ranges.
O(n) a row.

In the order of decreasing size, and of decreasing lifetime, this is what XLA does (its global decreasing size best
fit heap), so the better of the two is never worse than XLA's.

`settle` takes a placement, from a dive say, and places the rows again in the order of their offsets, lowest place
first: no row goes higher than it was, and rows fall into holes that the dive did not see.
"""

from __future__ import annotations

import numpy as np

from haulout.passes.allocator.instance import Instance
from haulout.passes.allocator.problem import I64, LIMIT
from haulout.support.jit import njit


def best_fit(instance: Instance, order: I64, *, tight: bool = True) -> tuple[I64, int]:
    """Place rows in `order`, pinned ones first; offsets and peak in units, peak -1 when 2**62 was passed."""
    pinned = instance.pinned[order] >= 0
    offset = np.zeros(len(instance), np.int64)
    peak = _scan_best_fit(
        np.concatenate([order[pinned], order[~pinned]]),
        instance.first,
        instance.last,
        instance.size,
        instance.alignment,
        instance.pinned,
        instance.range_of,
        instance.range_first,
        instance.range_last,
        instance.has_holes,
        tight,
        LIMIT // instance.unit,
        offset,
    )
    return offset, int(peak)


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
def _scan_best_fit(
    order: I64,
    first: I64,
    last: I64,
    size: I64,
    alignment: I64,
    pinned: I64,
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
        begin, end, need, align = first[row], last[row], size[row], alignment[row]
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
                        if at[j] - place >= need:
                            chosen = place
                            gap = at[j] - reach
                            if not tight:
                                break
                    reach = max(reach, top[j])
            if chosen < 0:
                chosen = (reach + align - 1) // align * align
        if need > limit - chosen:
            return -1
        offset[row] = chosen
        peak = max(peak, chosen + need)
        slot = np.searchsorted(at[:placed], chosen, side="right")
        for j in range(placed, slot, -1):
            low[j], high[j], at[j], top[j], who[j] = low[j - 1], high[j - 1], at[j - 1], top[j - 1], who[j - 1]
        low[slot], high[slot], at[slot], top[slot], who[slot] = begin, end, chosen, chosen + need, row
    return peak
