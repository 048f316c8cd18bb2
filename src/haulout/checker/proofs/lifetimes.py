"""When a location is in use: its first and its last access on each queue of each core.

A queue is in order, so these say all: every access of one location comes before every access of another exactly when
its last on each queue comes before the other's first on each queue.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.ir.schema import Ids, Ints
from haulout.support.jit import njit


class Lifetimes(NamedTuple):
    """The first and the last access of each location on each queue, location by location."""

    starts: Ints
    first: Ids
    last: Ids


@njit
def scan_lifetimes(number: Ids, queue: Ids, locations: int, queues: int) -> Lifetimes:
    """Group accesses by (location, queue), keeping the outer two; `number` is each access's location."""
    begin = np.zeros(locations + 1, np.int64)
    for a in range(len(number)):
        begin[number[a] + 1] += 1
    for n in range(locations):
        begin[n + 1] += begin[n]
    fill = begin[:-1].copy()
    grouped = np.empty(len(number), np.int32)
    for a in range(len(number)):
        grouped[fill[number[a]]] = a
        fill[number[a]] += 1
    starts = np.zeros(locations + 1, np.int64)
    first, last = np.empty(len(number), np.int32), np.empty(len(number), np.int32)
    stamp = np.full(queues, -1, np.int64)
    where = np.zeros(queues, np.int64)
    rows = 0
    for n in range(locations):
        for k in range(begin[n], begin[n + 1]):
            a = grouped[k]
            if stamp[queue[a]] != n:
                stamp[queue[a]] = n
                where[queue[a]] = rows
                first[rows] = a
                rows += 1
            last[where[queue[a]]] = a
        starts[n + 1] = rows
    return Lifetimes(starts, first[:rows].copy(), last[:rows].copy())
