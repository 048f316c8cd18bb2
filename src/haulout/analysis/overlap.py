"""Whether two byte patterns overlap: exact, without listing bytes.

Runs of `a` and `b` overlap when some starts differ by less than a run:

    -run_a  <  start_a - start_b  <  run_b      with  start = offset + sum(stride * i),  0 <= i < count

So the question is whether a sum of bounded multiples of the strides of both is in an interval. Negative strides are
reversed, equal strides of the two become one dimension (i - j has `count_a + count_b - 1` values), then the strides
are tried from the largest down, with the interval narrowed by the reach of the smaller ones. Nested strides, the
usual case, leave one or two choices a level. After `STEP_LIMIT` steps the search answers yes: callers here may add
order, never lose it. (The checker has a test of its own.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.verify_operands import pattern_hulls
from haulout.support.jit import njit

STEP_LIMIT = 4096
MAX_DIMS = 32


class Extents(NamedTuple):
    """The columns of operands and patterns that the scan reads."""

    low: Ints
    """First byte of each access inside its location."""
    high: Ints
    """The end of its bytes."""
    exact: Bools
    """The access covers every byte between."""
    pattern: Ids
    """Row of `patterns`; NONE: whole."""
    offset: Ints
    run: Ints
    dim_begin: Ids
    dim_end: Ids
    dim_stride: Ints
    dim_count: Ints


def extents(program: Program) -> Extents:
    """Columns of all accesses; `?`, and a pattern that moves with an iteration, cover their whole location."""
    accesses, patterns = program.accesses, program.patterns
    size = program.locations.size[accesses.location]
    low, high = (np.append(values, 0) for values in pattern_hulls(program))
    run = np.append(patterns.run, NONE)
    dims = np.append(patterns.dim_end - patterns.dim_begin, 0)
    whole = run[accesses.pattern] == NONE
    whole[program.steps.access] = True
    return Extents(
        np.where(whole, 0, low[accesses.pattern]),
        np.where(whole, size, high[accesses.pattern]),
        whole | (dims[accesses.pattern] == 0),
        np.where(whole, NONE, accesses.pattern).astype(np.int32),
        patterns.offset,
        patterns.run,
        patterns.dim_begin,
        patterns.dim_end,
        program.dims.stride,
        program.dims.count,
    )


@njit
def _scan_conflict(one: int, other: int) -> bool:
    """Whether accesses of two sorts (`ir/atomics.py`) conflict when they touch a common byte: one of them writes, and
    they are not two atomics of one kind.
    """
    return not (one & 1 and other & 1) and (one < 2 or one >> 1 != other >> 1)


@njit
def _scan_meets(x: Extents, a: int, b: int) -> bool:
    """Whether accesses `a` and `b`, of one location, touch a common byte."""
    if x.high[a] <= x.low[b] or x.high[b] <= x.low[a]:
        return False
    if x.exact[a] and x.exact[b]:
        return True
    stride = np.empty(MAX_DIMS, np.int64)
    reach = np.empty(MAX_DIMS, np.int64)
    size = 0
    # low/high of `start_a - start_b` that means a common byte, both included, after negative strides are turned.
    low = np.int64(0)
    high = np.int64(0)
    for side in range(2):
        access = a if side == 0 else b
        if x.exact[access]:
            run = x.high[access] - x.low[access]
        else:
            row = x.pattern[access]
            run = x.run[row]
            if size + x.dim_end[row] - x.dim_begin[row] > MAX_DIMS:
                return True
            for dim in range(x.dim_begin[row], x.dim_end[row]):
                step = abs(x.dim_stride[dim])
                if step == 0:
                    continue
                at = 0
                while at < size and stride[at] != step:
                    at += 1
                if at == size:
                    stride[size] = step
                    reach[size] = 0
                    size += 1
                reach[at] += x.dim_count[dim] - 1
        if side == 0:
            low -= x.low[access] + run - 1
            high -= x.low[access]
        else:
            low += x.low[access]
            high += x.low[access] + run - 1
    # `a` counts up from its lowest start, `b` from its highest start down, so that all terms are positive:
    # sum(a) - sum(b) = sum(a) + sum(b') - total_b.
    total = np.int64(0)
    if not x.exact[b]:
        row = x.pattern[b]
        total = x.high[b] - x.run[row] - x.low[b]
    low += total
    high += total
    for i in range(1, size):
        for j in range(i, 0, -1):
            if stride[j] > stride[j - 1]:
                stride[j], stride[j - 1] = stride[j - 1], stride[j]
                reach[j], reach[j - 1] = reach[j - 1], reach[j]
    below = np.zeros(MAX_DIMS + 1, np.int64)
    for i in range(size - 1, -1, -1):
        below[i] = below[i + 1] + stride[i] * reach[i]
    # Depth first: at level i choose the multiple of stride[i]; lows[i], highs[i] is what is left to reach.
    lows = np.empty(MAX_DIMS + 1, np.int64)
    highs = np.empty(MAX_DIMS + 1, np.int64)
    choice = np.empty(MAX_DIMS, np.int64)
    last = np.empty(MAX_DIMS, np.int64)
    lows[0], highs[0] = low, high
    level = 0
    entering = True
    for _ in range(STEP_LIMIT):
        if entering:
            if level == size:
                if lows[level] <= 0 <= highs[level]:
                    return True
                entering = False
                level -= 1
                if level < 0:
                    return False
                choice[level] += 1
                continue
            first = lows[level] - below[level + 1]
            choice[level] = 0 if first <= 0 else (first + stride[level] - 1) // stride[level]
            last[level] = -1 if highs[level] < 0 else min(reach[level], highs[level] // stride[level])
        if choice[level] > last[level]:
            level -= 1
            if level < 0:
                return False
            choice[level] += 1
            entering = False
            continue
        moved = choice[level] * stride[level]
        lows[level + 1] = lows[level] - moved
        highs[level + 1] = highs[level] - moved
        level += 1
        entering = True
    return True
