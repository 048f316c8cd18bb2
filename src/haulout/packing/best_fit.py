"""Best fit by gaps: rows in a given order, each into a gap between the rows placed so far.

One pass over the placed rows that conflict with the new one, by ascending offset, finds its gaps. The tightest one
that is large enough is taken (or the lowest: first fit), else the place above all of them. Unlike the dive, best fit
respects pinned rows, which are placed before all others, and the holes of live ranges.

The placed rows that overlap the new one in time are found in one of two ways, the one with the lower estimated cost:

    line   scan all placed rows, which are kept by ascending offset: O(n) a row, with a small constant
    tree   search a segment tree over the rows, sorted by first column, that keeps the greatest last column of the
           placed rows below each node; sort what is found by offset: O(k log n) for k overlapping rows

By decreasing size, and by decreasing lifetime, this is XLA's algorithm (its global decreasing size best fit heap), so
the better of the two is never worse than XLA's.

`settle` places the rows of a finished placement again, by ascending offset and each as low as possible: no row rises,
and rows drop into holes that the dive ignored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.packing.instance import Instance
from haulout.packing.kernels import cover, ranges_overlap
from haulout.packing.problem import I64, LIMIT
from haulout.support.jit import njit

_TREE_COST = 250
"""Cost of finding and sorting one overlapping row in the tree; visiting a row on the line costs 1."""


class _Rows(NamedTuple):
    """The columns of an instance that the scans read."""

    first: I64
    last: I64
    size: I64
    alignment: I64
    segment: I64
    pinned: I64
    start_of: I64
    range_of: I64
    range_first: I64
    range_last: I64


def best_fit(instance: Instance, order: I64, *, tight: bool = True) -> tuple[I64, int]:
    """Place rows in `order`, pinned ones first; offsets and peak in units, peak -1 when it exceeds 2**62 bytes."""
    pinned = instance.pinned[order] >= 0
    offset = np.zeros(len(instance), np.int64)
    scan = _scan_line if len(instance) ** 2 <= _TREE_COST * instance.overlaps else _scan_tree
    rows = _Rows(*(getattr(instance, name) for name in _Rows._fields))
    order = np.concatenate([order[pinned], order[~pinned]])
    peak = scan(order, rows, instance.has_holes, tight, LIMIT // instance.unit, offset)
    return offset, int(peak)


def cost(instance: Instance) -> int:
    """Estimated number of rows that a best fit visits; it visits about 10**9 a second."""
    return min(len(instance) ** 2, _TREE_COST * instance.overlaps)


def settle(instance: Instance, offset: I64) -> tuple[I64, int]:
    """Drop every row as far as it can fall, the lowest row first."""
    return best_fit(instance, np.argsort(offset, kind="stable"), tight=False)


def xla_orders(instance: Instance) -> list[I64]:
    """Decreasing size then lifetime, and decreasing lifetime then size; ties by the problem's order."""
    return [
        np.lexsort((instance.buffer, -instance.duration, -instance.size)),
        np.lexsort((instance.buffer, -instance.size, -instance.duration)),
    ]


@njit
def _best_gap(rows: _Rows, row: int, near: I64, found: int, holes: bool, tight: bool, offset: I64) -> int:
    """The offset of `row` among the rows `near[:found]`, which ascend by offset; -1 when it would end above 2**62.

    The row goes into the tightest (or the lowest) gap that it fits, or above all rows.
    """
    need, align, segment = rows.size[row], rows.alignment[row], rows.segment[row]
    chosen = -1
    reach = 0  # end of the conflicting rows passed so far
    gap = (1 << 62) + 1
    for k in range(found + 1):
        if holes and k < found and not ranges_overlap(row, near[k], rows.range_of, rows.range_first, rows.range_last):
            continue
        floor = offset[near[k]] if k < found else 1 << 62
        if floor - reach >= need and floor - reach < gap:
            place = (reach + align - 1) // align * align
            if segment > 0 and place % segment + need > segment:
                place = (place // segment + 1) * segment
            if floor - place >= need:
                chosen = place
                gap = floor - reach
                if not tight:
                    break
        if k < found:
            reach = max(reach, floor + rows.size[near[k]])
    return chosen


@njit
def _collect(end: int, begin: int, greatest: I64, nodes: I64, near: I64) -> int:
    """Fill `near` with the placed rows below `end` whose last column is above `begin`; how many they are."""
    leaves = len(greatest) // 2
    found = 0
    depth = cover(0, end, leaves, nodes)
    while depth > 0:
        depth -= 1
        node = nodes[depth]
        if greatest[node] <= begin:
            continue
        if node >= leaves:
            near[found] = node - leaves
            found += 1
        else:
            nodes[depth] = 2 * node
            nodes[depth + 1] = 2 * node + 1
            depth += 2
    return found


@njit
def _scan_tree(order: I64, rows: _Rows, holes: bool, tight: bool, limit: int, offset: I64) -> int:
    """Fill `offset`; the peak, or -1 when a row would end above `limit`."""
    leaves = 1
    while leaves < len(order):
        leaves *= 2
    greatest = np.full(2 * leaves, -1, np.int64)
    nodes = np.empty(160, np.int64)
    met = np.empty(len(order), np.int64)
    peak = 0
    for row in order:
        chosen = rows.pinned[row]
        if chosen < 0:
            found = _collect(rows.start_of[rows.last[row]], rows.first[row], greatest, nodes, met)
            near = met[:found]
            near = near[np.argsort(offset[near])]
            chosen = _best_gap(rows, row, near, found, holes, tight, offset)
        if chosen < 0 or rows.size[row] > limit - chosen:
            return -1
        offset[row] = chosen
        peak = max(peak, chosen + rows.size[row])
        node = leaves + row
        while node >= 1 and greatest[node] < rows.last[row]:
            greatest[node] = rows.last[row]
            node //= 2
    return peak


@njit
def _scan_line(order: I64, rows: _Rows, holes: bool, tight: bool, limit: int, offset: I64) -> int:
    """Fill `offset`; the peak, or -1 when a row would end above `limit`."""
    low = np.empty(len(order), np.int64)  # the placed rows by ascending offset: columns, row
    high = np.empty(len(order), np.int64)
    line = np.empty(len(order), np.int64)
    near = np.empty(len(order), np.int64)
    peak = 0
    for placed in range(len(order)):
        row = order[placed]
        begin, end = rows.first[row], rows.last[row]
        chosen = rows.pinned[row]
        if chosen < 0:
            found = 0
            for j in range(placed):
                if low[j] < end and begin < high[j]:
                    near[found] = line[j]
                    found += 1
            chosen = _best_gap(rows, row, near, found, holes, tight, offset)
        if chosen < 0 or rows.size[row] > limit - chosen:
            return -1
        offset[row] = chosen
        peak = max(peak, chosen + rows.size[row])
        slot = placed
        while slot > 0 and offset[line[slot - 1]] > chosen:
            low[slot], high[slot], line[slot] = low[slot - 1], high[slot - 1], line[slot - 1]
            slot -= 1
        low[slot], high[slot], line[slot] = begin, end, row
    return peak
