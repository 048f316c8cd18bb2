"""The validator: one sweep over time, sharing no code with any search.

A placement is right when every pinned buffer is where it must be, every offset is a non-negative multiple of its
buffer's alignment, no buffer ends above the capacity, and no two buffers that are live at one moment share a byte.

The last is the sweep. Births and deaths are visited in the order of time, deaths first. Buffers that are live and
apart have distinct offsets, so the live set is a set of ranks of offsets: a complete binary tree over the ranks
with a bit a node, saying whether anything below it is live. At a birth, only the next live buffer below and the
next above can overlap first; both are found by climbing and descending the tree. O(n log n).
"""

from __future__ import annotations

import numpy as np

from haulout.passes.allocator.problem import I64, Problem
from haulout.support.diagnostics import Diagnostic, Severity
from haulout.support.jit import interpreted, njit

_SMALL = 200


def violations(problem: Problem, offset: I64, capacity: int | None = None) -> list[Diagnostic]:
    """What is wrong with a placement; empty when it is right. At most one finding of each kind."""
    found: list[Diagnostic] = []

    def report(code: str, message: str) -> None:
        found.append(Diagnostic(code, Severity.ERROR, message))

    if offset.shape != problem.size.shape:
        report("bad-input", f"{len(offset)} offsets for {len(problem)} buffers")
        return found
    for b in np.flatnonzero((problem.pinned >= 0) & (offset != problem.pinned))[:1].tolist():
        report("moved-pin", f"buffer {b} is pinned at {problem.pinned[b]} but placed at {offset[b]}")
    for b in np.flatnonzero((offset < 0) | (offset % problem.alignment != 0))[:1].tolist():
        report("misaligned", f"buffer {b} at {offset[b]} is not at a multiple of {problem.alignment[b]}")
    taken = problem.occupies
    if capacity is not None:
        for b in np.flatnonzero(taken & (offset > capacity - problem.size))[:1].tolist():
            end = int(offset[b]) + int(problem.size[b])
            report("over-capacity", f"buffer {b} ends at {end}, above the capacity {capacity}")
    pair = overlapping_pair(problem, offset, taken)
    if pair is not None:
        one, other = (f"buffer {b} at [{offset[b]}, {int(offset[b]) + int(problem.size[b])})" for b in pair)
        report("overlapping-storage", f"{one} and {other} share bytes while both are live")
    return found


def overlapping_pair(problem: Problem, offset: I64, taken: np.ndarray) -> tuple[int, int] | None:
    """Two buffers that are live at one moment and share a byte, or None."""
    ranges = np.flatnonzero((problem.upper > problem.lower) & taken[problem.owner])
    if len(ranges) < 2:
        return None
    owner = problem.owner[ranges]
    time = np.concatenate([problem.upper[ranges], problem.lower[ranges]])
    event = np.argsort(time, kind="stable")
    rank = np.unique(offset, return_inverse=True)[1].astype(np.int64)
    if len(ranges) <= _SMALL:
        with interpreted():
            one, other = _scan_sweep(event, owner, rank, offset, problem.size)
    else:
        one, other = _scan_sweep(event, owner, rank, offset, problem.size)
    return None if one < 0 else (min(int(one), int(other)), max(int(one), int(other)))


@njit
def _scan_sweep(event: I64, owner: I64, rank: I64, offset: I64, size: I64) -> tuple[int, int]:
    """Visit events (below len(owner): the death of that range, else a birth); the first overlap, or (-1, -1)."""
    ranges = len(owner)
    leaves = 1
    while leaves < rank.max() + 1:
        leaves *= 2
    occupied = np.zeros(2 * leaves, np.bool_)
    holder = np.full(leaves, -1, np.int64)
    for e in event:
        birth = e >= ranges
        b = owner[e - ranges if birth else e]
        node = leaves + rank[b]
        if not birth:
            occupied[node] = False
            while node > 1:
                node //= 2
                occupied[node] = occupied[2 * node] or occupied[2 * node + 1]
            continue
        if occupied[node]:
            return holder[rank[b]], b
        for side in range(2):  # 0: the next live buffer above; 1: the next below
            x = node
            while x > 1 and (x % 2 != side or not occupied[x ^ 1]):
                x //= 2
            if x == 1:
                continue
            x ^= 1
            while x < leaves:
                x = 2 * x + side
                if not occupied[x]:
                    x ^= 1
            other = holder[x - leaves]
            low, high = (b, other) if side == 0 else (other, b)
            if size[low] > offset[high] - offset[low]:
                return other, b
        holder[rank[b]] = b
        while node >= 1 and not occupied[node]:
            occupied[node] = True
            node //= 2
    return -1, -1
