"""Paths between pairs of nodes of a graph without cycles, exactly.

Nodes are renumbered by their topological position. The sources of all questions are taken 512 at a time, near ones
together: a bit for each, and one pass over the arcs from the first source to the last target carries the bits along.
The cost is (nodes + arcs) * sources / 64 steps at most, and needs 64 bytes a node.
"""

from __future__ import annotations

import numpy as np

from haulout.checker.columns import distinct, grouped
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.jit import njit

WORDS = 8
_BLOCK = 64 * WORDS


def queried(source: Ids, target: Ids, position: Ids, first: Ids, second: Ids, *, through: bool = False) -> Bools:
    """Whether there is a path from `first[i]` to `second[i]`, of one arc or more; with `through` of two or more.

    `source`, `target` are the arcs, `position` a topological order of all nodes on paths that matter.
    """
    found = np.zeros(len(first), bool)
    begin, end = position[first], position[second]
    asked = np.flatnonzero((begin >= 0) & (begin < end))
    if not len(asked):
        return found
    asked = asked[np.argsort(begin[asked], kind="stable")]
    begin, end = begin[asked], end[asked]
    placed = (position[source] >= 0) & (position[target] >= 0)
    starts, rows = grouped(position[target[placed]], len(position))
    before = position[source[placed]][rows]
    sources = distinct(begin)
    # Questions of block b: those whose source is one of the b-th 512.
    block = np.searchsorted(sources, begin) // _BLOCK
    blocks = int(block[-1]) + 1
    bounds = np.searchsorted(block, np.arange(blocks + 1))
    found[asked] = _carried(starts, before, sources, begin, end, bounds, through)
    return found


@njit
def _carried(starts: Ints, before: Ids, sources: Ids, begin: Ids, end: Ids, bounds: Ints, through: bool) -> Bools:
    """The answers; `bounds` cuts the questions into blocks of sources."""
    found = np.zeros(len(begin), np.bool_)
    size = len(starts) - 1
    bit = np.full(size, -1, np.int32)
    reached = np.zeros((size, WORDS), np.uint64)  # sources with a path to each node
    further = np.zeros((size if through else 1, WORDS), np.uint64)  # with a path of two arcs or more
    one = np.uint64(1)
    for block in range(len(bounds) - 1):
        first = block * _BLOCK
        last = min(first + _BLOCK, len(sources))
        low = sources[first]
        high = low
        for k in range(bounds[block], bounds[block + 1]):
            high = max(high, end[k])
        for k in range(first, last):
            bit[sources[k]] = k - first
        for node in range(low, high + 1):
            for word in range(WORDS):
                reached[node, word] = 0
                if through:
                    further[node, word] = 0
            for k in range(starts[node], starts[node + 1]):
                other = before[k]
                if other < low:
                    continue
                for word in range(WORDS):
                    reached[node, word] |= reached[other, word]
                    if through:
                        further[node, word] |= reached[other, word]
            for k in range(starts[node], starts[node + 1]):
                other = before[k]
                if other >= low and bit[other] >= 0:
                    reached[node, bit[other] // 64] |= one << np.uint64(bit[other] % 64)
        for k in range(bounds[block], bounds[block + 1]):
            place = bit[begin[k]]
            mask = one << np.uint64(place % 64)
            if through:
                found[k] = (further[end[k], place // 64] & mask) != 0
            else:
                found[k] = (reached[end[k], place // 64] & mask) != 0
        for k in range(first, last):
            bit[sources[k]] = -1
    return found
