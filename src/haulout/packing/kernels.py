"""Kernels that the kernels of this package share: overlap of live ranges, walks of a segment tree.

A segment tree is an array: node k has the children 2k and 2k + 1, and leaf i is node `leaves + i`. A tree of maxima
that takes additions to ranges has two: `most`, the greatest value below each node, and `pending`, what was added to
the node as a whole; `most` includes the node's own `pending` and not that of the nodes above.
"""

from __future__ import annotations

from haulout.packing.problem import I64
from haulout.support.jit import njit


@njit
def ranges_overlap(i: int, j: int, range_of: I64, range_first: I64, range_last: I64) -> bool:
    """Whether a range of row i overlaps a range of row j."""
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
def cover(begin: int, end: int, leaves: int, nodes: I64) -> int:
    """Fill `nodes` with the fewest nodes that cover the leaves begin..end; how many they are."""
    count = 0
    one, two = begin + leaves, end + leaves
    while one < two:
        if one % 2:
            nodes[count] = one
            count += 1
            one += 1
        if two % 2:
            two -= 1
            nodes[count] = two
            count += 1
        one //= 2
        two //= 2
    return count


@njit
def add_to_range(begin: int, end: int, amount: int, most: I64, pending: I64, nodes: I64) -> None:
    """Add `amount` to the leaves begin..end; `nodes` is room to work in."""
    leaves = len(most) // 2
    for k in range(cover(begin, end, leaves, nodes)):
        most[nodes[k]] += amount
        pending[nodes[k]] += amount
    for leaf in (begin + leaves, end - 1 + leaves):
        node = leaf // 2
        while node >= 1:
            most[node] = max(most[2 * node], most[2 * node + 1]) + pending[node]
            node //= 2


@njit
def fullest_leaf(begin: int, end: int, most: I64, pending: I64, nodes: I64) -> tuple[int, int]:
    """The leaf of begin..end with the greatest value, and that value; (-1, 0) when the range is empty."""
    leaves = len(most) // 2
    found, value = -1, 0
    for k in range(cover(begin, end, leaves, nodes)):
        load = most[nodes[k]]
        above = nodes[k] // 2
        while above >= 1:
            load += pending[above]
            above //= 2
        if found < 0 or load > value:
            found, value = nodes[k], load
    if found < 0:
        return -1, 0
    while found < leaves:
        found = 2 * found if most[2 * found] >= most[2 * found + 1] else 2 * found + 1
    return found - leaves, value
