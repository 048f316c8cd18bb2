"""Whether two strided sets of bytes meet: exact, without listing runs.

Runs that start at p and at q, `run` and `run2` bytes long, have a byte in common when `-run2 < q - p < run`. With one
of the sets counted backwards the difference of the starts is a sum of multiples of all strides, none negative, so the
question is whether such a sum

    stride[0] * x[0] + stride[1] * x[1] + ...        0 <= x[d] <= last[d]

falls into an interval. Equal strides of the two sets are one dimension. Of one dimension that is a division. Of two,
some multiple of the larger stride must leave a small enough remainder modulo the other: how many of them do is the
difference of two sums of quotients, and an Euclidean algorithm gives these sums. Of more dimensions, the values of
the largest are tried in turn, those that the others can still complete: nested strides, the rule, leave one or two.
An interval without a multiple of the greatest common divisor of the strides is empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.jit import compiled_if_large, njit

_FEW = 1000
"""Pairs that plain Python decides as soon as compiled code is loaded."""


class Strided(NamedTuple):
    """Sets in normal form (`bytesets.py`), as columns."""

    offset: Ints
    run: Ints
    dim_begin: Ids
    dim_end: Ids
    """Set r has the dims `stride[k], repeats[k]` for k in `dim_begin[r]:dim_end[r]`."""
    stride: Ints
    repeats: Ints


def meeting(sets: Strided, left: Ints, right: Ints) -> Bools:
    """Which of the pairs of sets have a byte in common."""
    rank = int((sets.dim_end - sets.dim_begin).max(initial=0))
    with compiled_if_large(len(left), _FEW):
        return _scan_pairs(sets, left, right, 2 * rank + 1)


@njit
def _scan_pairs(sets: Strided, left: Ints, right: Ints, most: int) -> Bools:
    found = np.zeros(len(left), np.bool_)
    dims = np.zeros((7, most + 1), np.int64)
    for at in range(len(left)):
        found[at] = _meets(sets, left[at], right[at], dims)
    return found


@njit
def _meets(sets: Strided, first: int, second: int, dims: Ints) -> bool:
    """Whether two sets meet; `dims`: room for the rows below."""
    stride, last, reach, common, lows, highs, choice = dims[0], dims[1], dims[2], dims[3], dims[4], dims[5], dims[6]
    distance = int(sets.offset[second] - sets.offset[first])
    size = 0
    total = 0
    for side in range(2):
        row = first if side == 0 else second
        for k in range(sets.dim_begin[row], sets.dim_end[row]):
            step, more = int(sets.stride[k]), int(sets.repeats[k] - 1)
            if side == 0:
                total += step * more
            # Insert, the largest stride first.
            at = size
            while at > 0 and stride[at - 1] < step:
                at -= 1
            if at > 0 and stride[at - 1] == step:
                last[at - 1] += more
                continue
            for other in range(size, at, -1):
                stride[other], last[other] = stride[other - 1], last[other - 1]
            stride[at], last[at] = step, more
            size += 1
    low = total - distance - int(sets.run[second]) + 1
    high = total - distance + int(sets.run[first]) - 1
    # What the dims from each one on can add, and their greatest common divisor.
    reach[size] = 0
    common[size] = 0
    for at in range(size - 1, -1, -1):
        reach[at] = reach[at + 1] + stride[at] * last[at]
        common[at] = _gcd(stride[at], common[at + 1])
    lows[0], highs[0] = low, high
    choice[0] = -1
    level = 0
    while level >= 0:
        low, high = int(lows[level]), int(highs[level])
        if choice[level] < 0:
            # A level that is entered: decided at once, or its first value.
            left = size - level
            if high < 0 or low > reach[level] or (left > 0 and high // int(common[level]) * int(common[level]) < low):
                level -= 1
                continue
            if left == 0:
                return True
            if left == 1:
                if max(-(-low // int(stride[level])), 0) <= min(high // int(stride[level]), int(last[level])):
                    return True
                level -= 1
                continue
            if left == 2:
                if _two(
                    int(stride[level]), int(last[level]), int(stride[level + 1]), int(last[level + 1]), low, high
                ):
                    return True
                level -= 1
                continue
            choice[level] = max(-((int(reach[level + 1]) - low) // int(stride[level])), 0)
        else:
            choice[level] += 1
        if choice[level] > last[level] or choice[level] * stride[level] > high:
            level -= 1
            continue
        lows[level + 1] = low - choice[level] * stride[level]
        highs[level + 1] = high - choice[level] * stride[level]
        choice[level + 1] = -1
        level += 1
    return False


@njit
def _two(large: int, last: int, small: int, last2: int, low: int, high: int) -> bool:
    """Whether `low <= large * x + small * y <= high` for some x in 0..last, y in 0..last2."""
    first = max(-((small * last2 - low) // large), 0)
    final = min(high // large, last)
    if first > final:
        return False
    # For these x the highest y that is not above `high` is right if it is not below `low`, or is beyond last2.
    if high - large * first >= small * last2 or high - low >= small - 1:
        return True
    turns = final - first + 1
    rest = (high - large * final) % small
    step = large % small
    # Is (step * t + rest) % small <= high - low for some t < turns?
    return _quotients(turns, small, step, rest + small) != _quotients(
        turns, small, step, rest + small - high + low - 1
    )


@njit
def _quotients(turns: int, modulus: int, step: int, start: int) -> int:
    """The sum of `(step * t + start) // modulus` over t < turns; modulo 2**64 where that is more."""
    total = 0
    while True:
        half = turns // 2 * (turns - 1) if turns % 2 == 0 else (turns - 1) // 2 * turns
        total += half * (step // modulus) + turns * (start // modulus)
        step, start = step % modulus, start % modulus
        highest = step * turns + start
        if highest < modulus:
            return total
        turns, start = highest // modulus, highest % modulus
        modulus, step = step, modulus


@njit
def _gcd(one: int, other: int) -> int:
    while other:
        one, other = other, one % other
    return one
