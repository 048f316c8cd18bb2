"""Sets of positions as rows of a table: up to `MOST` half-open intervals, ascending and apart.

Row i of a table has the interval `table[i, 2 * k]:table[i, 2 * k + 1]` for each k; unused ones begin and end at
`END`. A set that would need more intervals loses its shortest ones: sets are claims, and to claim less is safe.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.schema import Column
from haulout.support.jit import njit

MOST = 4
"""Intervals of a set."""
WIDTH = 2 * MOST
END = np.iinfo(np.int32).max


@njit
def clear(table: Column, row: int) -> None:
    """Make a set empty."""
    for k in range(8):
        table[row, k] = 2147483647


@njit
def assign(table: Column, row: int, begin: int, end: int) -> None:
    """Make a set one interval, or empty."""
    for k in range(8):
        table[row, k] = 2147483647
    if begin < end:
        table[row, 0] = begin
        table[row, 1] = end


@njit
def is_empty(table: Column, row: int) -> bool:
    """True if a set has no position."""
    return bool(table[row, 0] == 2147483647)


@njit
def equal(one: Column, i: int, other: Column, j: int) -> bool:
    """True if two sets are equal."""
    for k in range(8):
        if one[i, k] != other[j, k]:
            return False
        if one[i, k] == 2147483647:
            return True
    return True


@njit
def copy(target: Column, i: int, source: Column, j: int) -> None:
    """Assign a set."""
    for k in range(8):
        target[i, k] = source[j, k]


@njit
def _shorten(list_: Column, count: int) -> int:
    """Remove the shortest intervals of a long list until it is short enough; its new length."""
    while count > 4:
        shortest = 0
        for k in range(1, count):
            if list_[2 * k + 1] - list_[2 * k] < list_[2 * shortest + 1] - list_[2 * shortest]:
                shortest = k
        for k in range(2 * shortest, 2 * count - 2):
            list_[k] = list_[k + 2]
        count -= 1
    return count


@njit
def _store(target: Column, i: int, list_: Column, count: int) -> None:
    for k in range(2 * count):
        target[i, k] = list_[k]
    for k in range(2 * count, 8):
        target[i, k] = 2147483647


@njit
def contains(one: Column, i: int, other: Column, j: int) -> bool:
    """True if the first set has all positions of the second."""
    at = 0
    for k in range(4):
        begin = other[j, 2 * k]
        if begin == 2147483647:
            return True
        while at < 4 and one[i, 2 * at + 1] < other[j, 2 * k + 1]:
            at += 1
        if at == 4 or one[i, 2 * at] > begin:
            return False
    return True


@njit
def unite(target: Column, i: int, source: Column, j: int, room: Column) -> None:
    """Add the positions of one set to another; `room` holds 4 * MOST numbers."""
    if source[j, 0] == 2147483647:
        return
    if target[i, 0] == 2147483647:
        for k in range(8):
            target[i, k] = source[j, k]
        return
    count = a = b = 0
    while True:
        begin_a = 2147483647 if a == 4 else int(target[i, 2 * a])
        begin_b = 2147483647 if b == 4 else int(source[j, 2 * b])
        if begin_a == 2147483647 and begin_b == 2147483647:
            break
        if begin_a <= begin_b:
            begin, end = begin_a, int(target[i, 2 * a + 1])
            a += 1
        else:
            begin, end = begin_b, int(source[j, 2 * b + 1])
            b += 1
        if count > 0 and begin <= room[2 * count - 1]:
            room[2 * count - 1] = max(int(room[2 * count - 1]), end)
        else:
            room[2 * count] = begin
            room[2 * count + 1] = end
            count += 1
    _store(target, i, room, _shorten(room, count))


@njit
def add(target: Column, i: int, begin: int, end: int, room: Column, pair: Column) -> None:
    """Add an interval to a set; `pair` is a table of one row."""
    if begin < end:
        assign(pair, 0, begin, end)
        unite(target, i, pair, 0, room)


@njit
def intersect(target: Column, i: int, source: Column, j: int, room: Column) -> None:
    """Remove the positions from a set that another one does not have."""
    count = a = b = 0
    while a < 4 and b < 4 and target[i, 2 * a] != 2147483647 and source[j, 2 * b] != 2147483647:
        begin = max(int(target[i, 2 * a]), int(source[j, 2 * b]))
        end = min(int(target[i, 2 * a + 1]), int(source[j, 2 * b + 1]))
        if begin < end:
            room[2 * count] = begin
            room[2 * count + 1] = end
            count += 1
        if target[i, 2 * a + 1] <= source[j, 2 * b + 1]:
            a += 1
        else:
            b += 1
    _store(target, i, room, _shorten(room, count))


@njit
def clip(target: Column, i: int, begin: int, end: int, room: Column, pair: Column) -> None:
    """Keep the positions of an interval only."""
    assign(pair, 0, begin, end)
    intersect(target, i, pair, 0, room)
