"""Branch and bound for a capacity C: place everything below C, or prove that it cannot be done.

Every unplaced row has a least offset. The floor of a column is the lowest least offset of its unplaced rows: nothing
more is placed below it. A row is *ready* when its least offset is the floor of all its columns; the other unplaced
rows of these columns then go above it. A decision takes a ready row and has two branches:

    left     place the row at its least offset; the unplaced rows that conflict with it rise to its top
    right    place it elsewhere: pushed down as far as possible it would rest on an unplaced row, so its least offset
             rises to the lowest top that such a row can have (or, with segments, to the next segment)

Pinned rows are obstacles: least offsets never overlap them. A pinned row has a left branch only.

A branch fails when a column's floor plus its bytes to place exceed C. With `packed` it also fails when the rows of a
column exceed C if stacked in the order of their least offsets, each at or above its own. A failure adds weight to its
column. The next decision is in the valley column with the fewest ready rows over its weight, a little more when it
has slack. It takes the row with the greatest key, with noise after the first rounds. Restarts follow Luby's sequence;
keys take turns. An exhausted search proves that no placement exists.

A node costs O(rows + columns). A trail records every change; backtracking undoes it from there.

Sources: the left/right scheme follows the packing view of Moffitt, "MiniMalloc: a lightweight memory allocator for
hardware-accelerated machine learning", ASPLOS 2023; weights: Boussemart et al., "Boosting systematic search by
weighting constraints", 2004; restarts: Luby, Sinclair, Zuckerman, 1993.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.packing.instance import F64, I32
from haulout.packing.kernels import ranges_overlap
from haulout.packing.problem import I64
from haulout.support.jit import njit

SOLVED, INFEASIBLE, GAVE_UP = 1, 0, -1
_MASK = 2**31 - 1


class Shape(NamedTuple):
    """The instance: bytes of a row; its columns, all and by ranges; the rows of a column (`rows_of`, `rows`).

    `obstacles[obstacle_of[i]:obstacle_of[i + 1]]`: the pinned rows that row i overlaps in time, by ascending offset.
    """

    size: I64
    alignment: I64
    segment: I64
    pinned: I64
    obstacle_of: I64
    obstacles: I32
    first: I64
    last: I64
    start_of: I64
    range_of: I64
    range_first: I64
    range_last: I64
    rows_of: I64
    rows: I32


class Node(NamedTuple):
    """Per row: `least` offset, `placed`. Per column: `floor`, bytes (`rest`) and rows (`open`) to place."""

    least: I64
    placed: I64
    floor: I64
    rest: I64
    open: I64


@njit
def _scan_search(
    shape: Shape,
    capacity: int,
    keys: F64,
    packed: bool,
    noise: float,
    seed: int,
    first_limit: int,
    steps: int,
    weight: F64,
    offset: I64,
    counters: I64,
) -> int:
    """1 and `offset` filled; 0: proved infeasible; -1: `steps` (nodes and failures) are spent.

    `counters` gain nodes, failures, restarts.
    """
    rows, columns = len(shape.size), len(weight)
    node = Node(
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(columns, np.int64),
        np.zeros(columns, np.int64),
        np.zeros(columns, np.int64),
    )
    trail = np.empty((1 << 14, 2), np.int64)
    decided = np.empty((2 * rows + 16, 2), np.int64)  # row, length of the trail before
    touched = np.empty(columns, np.int64)
    stamp = np.zeros(columns, np.int64)
    now = 0
    valley = np.zeros(columns, np.int64)
    ready = np.zeros(rows, np.int64)
    change = np.zeros(columns + 1, np.int64)
    line = np.empty((rows, 2), np.int64)
    random = seed * 69069 & _MASK  # a linear congruence modulo 2**31; products stay within int64
    fails = 0
    restart = 0
    while True:
        _reset(shape, node)
        for s in range(columns):
            if node.rest[s] > capacity:
                return 0
        for b in range(rows):
            if node.least[b] + shape.size[b] > capacity:
                return 0
        key = keys[restart % len(keys)]
        loud = noise if restart >= len(keys) else 0.0
        limit = fails + first_limit * _luby(restart + 1)
        length = depth = placed = 0
        while placed < rows:
            s = _choose_column(shape, node, capacity, weight, valley, ready, change)
            b = -1
            best = -1.0
            for k in range(shape.rows_of[s], shape.rows_of[s + 1]):
                c = shape.rows[k]
                if ready[c]:
                    value = key[c]
                    if loud > 0.0:
                        random = (random * 1103515245 + 12345) & _MASK
                        value += loud * random / 2147483648.0
                    if value > best:
                        best = value
                        b = c
            if depth + 1 >= len(decided):
                decided = _longer(decided, depth, 2 * len(decided))
            decided[depth, 0], decided[depth, 1] = b, length
            depth += 1
            counters[0] += 1
            left = True
            while True:
                if length + 2 * rows + 3 * columns + 8 > len(trail):
                    trail = _longer(trail, length, 2 * len(trail) + 2 * rows + 3 * columns)
                now += 1
                if left:
                    failed, length, marks = _place(
                        shape, node, capacity, packed, b, trail, length, touched, stamp, now
                    )
                    placed += 1
                else:
                    failed, length, marks = _push_up(shape, node, capacity, b, trail, length, touched)
                if failed < 0:
                    failed, length = _propagate(shape, node, capacity, packed, touched, marks, trail, length, line)
                if failed < 0:
                    break
                fails += 1
                steps -= 1
                counters[1] += 1
                weight[failed] += 1.0
                if depth == 0:
                    return 0
                depth -= 1
                b = decided[depth, 0]
                placed -= _undo(shape, node, trail, decided[depth, 1], length)
                length = decided[depth, 1]
                left = False
            steps -= 1
            if fails >= limit or steps <= 0:
                break
        if placed == rows:
            for c in range(rows):
                offset[c] = node.least[c]
            return 1
        if steps <= 0:
            return -1
        restart += 1
        counters[2] += 1
        heaviest = 0.0
        for s in range(columns):
            heaviest = max(heaviest, weight[s])
        if heaviest > 1e6:
            for s in range(columns):
                weight[s] = 1.0 + (weight[s] - 1.0) * 1e-3


@njit
def _longer(pairs: I64, used: int, length: int) -> I64:
    """A copy of the first `used` pairs with room for `length`; a loop, as Numba compiles `a[:n] = b[:n]` slowly."""
    longer = np.empty((length, 2), np.int64)
    for k in range(used):
        longer[k, 0], longer[k, 1] = pairs[k, 0], pairs[k, 1]
    return longer


@njit
def _luby(i: int) -> int:
    """Element i (from 1) of 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ..."""
    while True:
        k = 1
        while (1 << k) - 1 < i:
            k += 1
        if (1 << k) - 1 == i:
            return 1 << (k - 1)
        i -= (1 << (k - 1)) - 1


@njit
def _reset(shape: Shape, node: Node) -> None:
    """Nothing is placed."""
    node.placed[:] = 0
    node.floor[:] = 1 << 62
    node.rest[:] = 0
    node.open[:] = 0
    for b in range(len(shape.size)):
        node.least[b] = _lowest(shape, b, 0) if shape.pinned[b] < 0 else shape.pinned[b]
        for r in range(shape.range_of[b], shape.range_of[b + 1]):
            for s in range(shape.range_first[r], shape.range_last[r]):
                node.floor[s] = min(node.floor[s], node.least[b])
                node.rest[s] += shape.size[b]
                node.open[s] += 1


@njit
def _lowest(shape: Shape, c: int, at: int) -> int:
    """The least offset from `at` on that suits row c: aligned, within a segment, clear of pinned rows.

    One pass over the pinned rows suffices: the offset only grows, and those passed lie below it.
    """
    align, segment, size = shape.alignment[c], shape.segment[c], shape.size[c]
    k, end = shape.obstacle_of[c], shape.obstacle_of[c + 1]
    while True:
        if align > 1:
            at = (at + align - 1) // align * align
        if segment > 0 and at % segment + size > segment:
            at = (at // segment + 1) * segment
        while k < end:
            pin = shape.obstacles[k]
            k += 1
            if at + size > shape.pinned[pin] and at < shape.pinned[pin] + shape.size[pin]:
                at = shape.pinned[pin] + shape.size[pin]
                break
        else:
            return at


@njit
def _choose_column(shape: Shape, node: Node, capacity: int, weight: F64, valley: I64, ready: I64, change: I64) -> int:
    """Mark ready rows; the column to decide in."""
    columns = len(weight)
    s = 0
    while s < columns:  # a valley: columns of equal floor between higher ones, or ones with nothing to place
        if node.open[s] == 0:
            valley[s] = 0
            s += 1
            continue
        end, f = s + 1, node.floor[s]
        while end < columns and node.open[end] > 0 and node.floor[end] == f:
            end += 1
        walled = (s == 0 or node.open[s - 1] == 0 or node.floor[s - 1] > f) and (
            end == columns or node.open[end] == 0 or node.floor[end] > f
        )
        valley[s:end] = 1 if walled else 0
        s = end
    change[:] = 0
    for c in range(len(ready)):
        ready[c] = 0
        if node.placed[c]:
            continue
        least = node.least[c]
        if node.floor[shape.first[c]] != least or node.floor[shape.last[c] - 1] != least:
            continue
        ready[c] = 1
        for r in range(shape.range_of[c], shape.range_of[c + 1]):
            s, end = shape.range_first[r], shape.range_last[r]
            while s < end and node.floor[s] == least:
                s += 1
            if s < end:
                ready[c] = 0
                break
        if ready[c]:
            for r in range(shape.range_of[c], shape.range_of[c + 1]):
                change[shape.range_first[r]] += 1
                change[shape.range_last[r]] -= 1
    chosen = backup = -1
    lowest = 1e300
    standing = 0  # ready rows of the column
    for s in range(columns):
        standing += change[s]
        if standing == 0:
            continue
        backup = s
        if valley[s]:
            slack = capacity - node.floor[s] - node.rest[s]
            score = (standing + (0.0 if slack == 0 else 0.5 + slack * 4.0 / capacity)) / weight[s]
            if score < lowest:
                lowest = score
                chosen = s
    return chosen if chosen >= 0 else backup


@njit
def _overlap(shape: Shape, b: int, c: int) -> bool:
    """Whether rows b and c share a column."""
    if shape.last[c] <= shape.first[b] or shape.last[b] <= shape.first[c]:
        return False
    return ranges_overlap(b, c, shape.range_of, shape.range_first, shape.range_last)


@njit
def _place(
    shape: Shape,
    node: Node,
    capacity: int,
    packed: bool,
    b: int,
    trail: I64,
    length: int,
    touched: I64,
    stamp: I64,
    now: int,
) -> tuple[int, int, int]:
    """Left branch. The column that failed or -1, the trail's length, and how many columns are touched."""
    top = node.least[b] + shape.size[b]
    node.placed[b] = 1
    trail[length, 0], trail[length, 1] = 3 * b, 0
    length += 1
    failed = -1
    marks = 0
    for r in range(shape.range_of[b], shape.range_of[b + 1]):
        for s in range(shape.range_first[r], shape.range_last[r]):
            trail[length, 0], trail[length, 1] = 3 * s + 1, node.floor[s]
            length += 1
            node.floor[s] = top
            node.rest[s] -= shape.size[b]
            node.open[s] -= 1
            if top + node.rest[s] > capacity:
                failed = s
            stamp[s] = now
            touched[marks] = s
            marks += 1
    if failed >= 0:
        return failed, length, marks
    for c in range(shape.start_of[shape.last[b]]):
        old = node.least[c]
        if node.placed[c] or old >= top or not _overlap(shape, b, c):
            continue
        trail[length, 0], trail[length, 1] = 3 * c + 2, old
        length += 1
        node.least[c] = _lowest(shape, c, top)
        if node.least[c] + shape.size[c] > capacity:
            return shape.first[c], length, marks
        for r in range(shape.range_of[c], shape.range_of[c + 1]):
            for s in range(shape.range_first[r], shape.range_last[r]):
                # the floor is the least offset of some row; it can only change when that row's did
                if stamp[s] != now and node.floor[s] == old:
                    stamp[s] = now
                    touched[marks] = s
                    marks += 1
    return -1, length, marks


@njit
def _push_up(
    shape: Shape, node: Node, capacity: int, b: int, trail: I64, length: int, touched: I64
) -> tuple[int, int, int]:
    """Right branch; returns as `_place`."""
    if shape.pinned[b] >= 0:
        return shape.first[b], length, 0
    lowest = 1 << 62
    if shape.segment[b] > 0:
        lowest = (node.least[b] // shape.segment[b] + 1) * shape.segment[b]
    for c in range(shape.start_of[shape.last[b]]):
        if not node.placed[c] and c != b and _overlap(shape, b, c):
            lowest = min(lowest, node.least[c] + shape.size[c])
    if lowest > capacity - shape.size[b]:
        return shape.first[b], length, 0
    trail[length, 0], trail[length, 1] = 3 * b + 2, node.least[b]
    length += 1
    node.least[b] = _lowest(shape, b, lowest)
    if node.least[b] + shape.size[b] > capacity:
        return shape.first[b], length, 0
    marks = 0
    for r in range(shape.range_of[b], shape.range_of[b + 1]):
        for s in range(shape.range_first[r], shape.range_last[r]):
            touched[marks] = s
            marks += 1
    return -1, length, marks


@njit
def _propagate(
    shape: Shape,
    node: Node,
    capacity: int,
    packed: bool,
    touched: I64,
    marks: int,
    trail: I64,
    length: int,
    line: I64,
) -> tuple[int, int]:
    """Raise the floors of touched columns to their least offsets; the column that failed or -1, trail's length."""
    for q in range(marks):
        s = touched[q]
        if node.open[s] == 0:
            continue
        lowest = 1 << 62
        waiting = 0
        for k in range(shape.rows_of[s], shape.rows_of[s + 1]):
            c = shape.rows[k]
            if node.placed[c]:
                continue
            least = node.least[c]
            lowest = min(lowest, least)
            if packed:
                line[waiting, 0], line[waiting, 1] = least, shape.size[c]
                waiting += 1
            elif least == node.floor[s]:
                break  # nothing is lower
        if lowest > node.floor[s]:
            trail[length, 0], trail[length, 1] = 3 * s + 1, node.floor[s]
            length += 1
            node.floor[s] = lowest
        if lowest + node.rest[s] > capacity:
            return s, length
        if packed and _is_overfull(capacity - lowest - node.rest[s], lowest, line, waiting):
            return s, length
    return -1, length


@njit
def _is_overfull(slack: int, top: int, line: I64, waiting: int) -> bool:
    """Whether rows (least offset, size) put one after the other from `top`, in the order of least offsets, leave
    gaps of more than `slack` between them.
    """
    while waiting > 0:
        end = top
        later = 1 << 62
        kept = 0
        for j in range(waiting):
            least = line[j, 0]
            if least <= top:
                end += line[j, 1]
            else:
                later = min(later, least)
                line[kept, 0], line[kept, 1] = least, line[j, 1]
                kept += 1
        waiting = kept
        if end > top:
            top = end
        elif kept:
            slack -= later - top
            top = later
            if slack < 0:
                return True
    return False


@njit
def _undo(shape: Shape, node: Node, trail: I64, keep: int, length: int) -> int:
    """Take back what is on the trail beyond `keep`; how many rows that unplaced."""
    unplaced = 0
    while length > keep:
        length -= 1
        what, old = trail[length, 0], trail[length, 1]
        i = what // 3
        if what % 3 == 0:
            node.placed[i] = 0
            unplaced += 1
            for r in range(shape.range_of[i], shape.range_of[i + 1]):
                for s in range(shape.range_first[r], shape.range_last[r]):
                    node.rest[s] += shape.size[i]
                    node.open[s] += 1
        elif what % 3 == 1:
            node.floor[i] = old
        else:
            node.least[i] = old
    return unplaced
