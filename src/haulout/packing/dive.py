"""The valley dive: fill the lowest places first, and lose space only where nothing fits.

The skyline is the top of the placed rows, over the columns: a linked list of segments of equal floor. A segment with
higher neighbours on both sides is a valley. A row whose columns are all inside a valley can be placed exactly on its
floor. The best such row by a given key is placed, which splits the segment. When none fits, the valley is raised to
its lower neighbour; space is lost only there.

        |        |                 |        |
        |__    __|      place c    |__  _c__|      no row fits the rest: raise it to c's top or the lower wall,
           |__|         ------->      ||            whichever is lower

Valleys are disjoint and a row is inside at most one, so the order of visits does not change the result. Rows inside
[a, b) are found in a segment tree over the rows (sorted by first column) that keeps the best key and the least and
greatest last column below each node. n placements, at most 3n raises, O(log n) each in practice.

`fullest` narrows the choice to rows through the valley's column with the most bytes still to place.

Source: a skyline heuristic in the manner of best-fit strip packing (Burke, Kendall, Whitwell, "A new placement
heuristic for the orthogonal stock-cutting problem", 2004), on columns where every row's width and place are fixed.
"""

from __future__ import annotations

import numpy as np

from haulout.packing.instance import F64, Instance
from haulout.packing.kernels import add_to_range, cover, fullest_leaf
from haulout.packing.problem import I64, LIMIT
from haulout.support.jit import njit


def dive(instance: Instance, key: F64, fullest: bool) -> tuple[I64, int]:
    """Place every row by `key` (greater goes first); offsets and peak in units, peak -1 when it exceeds 2**62 bytes.

    Holes and pins are ignored.
    """
    offset = np.zeros(len(instance), np.int64)
    peak, left = _scan_dive(
        instance.first,
        instance.last,
        instance.size,
        instance.alignment,
        instance.segment,
        instance.start_of,
        key,
        instance.load,
        fullest,
        LIMIT // instance.unit,
        offset,
    )
    return offset, -1 if left else int(peak)


@njit
def _refresh(node: int, greatest: I64, least: I64, best: F64) -> None:
    """Recompute the ancestors of a leaf."""
    node //= 2
    while node >= 1:
        one, two = 2 * node, 2 * node + 1
        greatest[node] = max(greatest[one], greatest[two])
        least[node] = min(least[one], least[two])
        best[node] = max(best[one], best[two])
        node //= 2


@njit
def _best_inside(begin: int, end: int, low: int, high: int, greatest: I64, least: I64, best: F64, todo: I64) -> int:
    """Of rows begin..end with low <= last <= high, the one with the greatest key; -1 when there is none."""
    leaves = len(best) // 2
    found = -1
    key = -1e300
    depth = cover(begin, end, leaves, todo)
    while depth > 0:
        depth -= 1
        node = todo[depth]
        if best[node] <= key or greatest[node] < low or least[node] > high:
            continue
        if node >= leaves:
            key = best[node]
            found = node - leaves
            continue
        one, two = 2 * node, 2 * node + 1
        if best[one] > best[two]:  # the better child on top of the stack
            one, two = two, one
        todo[depth] = one
        todo[depth + 1] = two
        depth += 2
    return found


@njit
def _scan_dive(
    first: I64,
    last: I64,
    size: I64,
    alignment: I64,
    segment: I64,
    start_of: I64,
    key: F64,
    load: I64,
    fullest: bool,
    limit: int,
    offset: I64,
) -> tuple[int, int]:
    """Fill `offset`; the peak, and how many rows are left when a floor exceeds `limit` (0: all are placed)."""
    rows, columns = len(first), len(load)
    leaves = 1
    while leaves < rows:
        leaves *= 2
    greatest = np.empty(2 * leaves, np.int64)
    least = np.empty(2 * leaves, np.int64)
    best = np.empty(2 * leaves, np.float64)
    for i in range(leaves):  # a loop: Numba compiles `a[i:j] = b` in a second, most of it for the error message
        inside = i < rows
        greatest[leaves + i] = last[i] if inside else -1
        least[leaves + i] = last[i] if inside else 1 << 62
        best[leaves + i] = key[i] if inside else -1e300
    for node in range(leaves - 1, 0, -1):
        greatest[node] = max(greatest[2 * node], greatest[2 * node + 1])
        least[node] = min(least[2 * node], least[2 * node + 1])
        best[node] = max(best[2 * node], best[2 * node + 1])
    stems = 1
    while stems < columns:
        stems *= 2
    if not fullest:
        stems = 1
    most = np.empty(2 * stems, np.int64)
    pending = np.zeros(2 * stems, np.int64)
    if fullest:
        for s in range(stems):
            most[stems + s] = load[s] if s < columns else -1
        for node in range(stems - 1, 0, -1):
            most[node] = max(most[2 * node], most[2 * node + 1])

    # segments by their start column: floor, end, neighbours
    floor = np.zeros(columns + 1, np.int64)
    end = np.zeros(columns + 1, np.int64)
    before = np.empty(columns + 1, np.int64)
    after = np.empty(columns + 1, np.int64)
    before[0] = after[0] = -1
    end[0] = columns
    todo = np.empty(160, np.int64)
    work = np.empty(4 * rows + 16, np.int64)
    work[0] = 0
    waiting = 1
    left = rows
    peak = 0
    while waiting > 0 and left > 0:
        waiting -= 1
        a = work[waiting]
        b, f, p, q = end[a], floor[a], before[a], after[a]
        if b <= a:  # swallowed by a neighbour since it was put on the list
            continue
        wall_before = 1 << 62 if p < 0 else floor[p]
        wall_after = 1 << 62 if q < 0 else floor[q]
        if wall_before < f or wall_after < f:
            continue
        c = -1
        if wall_before > f and wall_after > f:
            if fullest and b - a > 1:
                peak_column = fullest_leaf(a, b, most, pending, todo)[0]
                c = _best_inside(
                    start_of[a], start_of[peak_column + 1], peak_column + 1, b, greatest, least, best, todo
                )
            if c < 0:
                c = _best_inside(start_of[a], start_of[b], a, b, greatest, least, best, todo)
        if c < 0:
            # join the lower neighbour, at its floor (which is our own floor when the two are level)
            if p < 0 and q < 0:
                break
            if wall_before <= wall_after:
                end[p], after[p] = b, q
                if q >= 0:
                    before[q] = p
                end[a] = a
                work[waiting] = p
            else:
                floor[a], end[a], after[a] = wall_after, end[q], after[q]
                if after[q] >= 0:
                    before[after[q]] = a
                end[q] = q
                work[waiting] = a
            waiting += 1
            continue
        at = (f + alignment[c] - 1) // alignment[c] * alignment[c]
        if segment[c] > 0 and at % segment[c] + size[c] > segment[c]:
            at = (at // segment[c] + 1) * segment[c]
        if size[c] > limit - at:
            break
        top = at + size[c]
        offset[c] = at
        peak = max(peak, top)
        left -= 1
        node = leaves + c
        greatest[node], least[node], best[node] = -1, 1 << 62, -1e300
        _refresh(node, greatest, least, best)
        lo, hi = first[c], last[c]
        if fullest:
            add_to_range(lo, hi, -size[c], most, pending, todo)

        # split [a, b) into [a, lo) at f, [lo, hi) at top, [hi, b) at f
        if hi < b:
            floor[hi], end[hi], before[hi], after[hi] = f, b, lo, q
            if q >= 0:
                before[q] = hi
            q = hi
        if lo > a:
            end[a], after[a] = lo, lo
            p = a
        floor[lo], end[lo], before[lo], after[lo] = top, hi, p, q
        if p >= 0:
            after[p] = lo
        if q >= 0:
            before[q] = lo
        if waiting + 5 > len(work):
            longer = np.empty(2 * len(work), np.int64)
            for k in range(waiting):
                longer[k] = work[k]
            work = longer
        for s in (after[q] if q == hi and hi < b else q, before[p] if p == a and lo > a else p, lo):
            if s >= 0:
                work[waiting] = s
                waiting += 1
        if hi < b:
            work[waiting] = hi
            waiting += 1
        if lo > a:
            work[waiting] = a
            waiting += 1
    return peak, left
