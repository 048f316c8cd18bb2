"""Do two patterns that move with loops meet, at some distance of iterations? In closed form, without iterations.

A pattern that moves stands in iteration k at `start + step * k`, or on a ring at `start + step * ((k + phase) mod
m)`; rows of bytes repeat at the strides of its dimensions. Loops that are around one of the two alone are further
dimensions: any of their iterations may be meant. Iterations i of the one and j of the other meet when

    -(run of the other - 1)  <=  (other's place in j) - (one's place in i) + (some sum of strides)  <=  run of the one
    - 1

With equal steps only the distance j - i counts; with one step 0 the iterations of the other that hit are an interval;
else each multiple of the greatest common divisor in the range is one linear equation, whose solutions have one
parameter (extended Euclid). On rings the phases repeat, so one period of each is tried.

The answer may be "yes" where they do not meet, when the exact answer would take too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, lcm

FAR = 1 << 60
"""Of trip counts and distances: no limit."""
MOST = 4096
"""Cases that are tried one by one."""

Dims = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Moving:
    """A pattern and how it moves with one loop."""

    start: int
    run: int
    dims: Dims
    """(Stride, count); strides may be negative."""
    step: int
    ring: tuple[int, int, int]
    """(Step, modulus, phase); modulus 1: none."""
    last: int
    """Its last iteration."""


def meet(one: Moving, other: Moving, low: int, high: int) -> bool:
    """Whether they meet in iterations i and j with `low <= j - i <= high`; low is not negative."""
    dims = _joined([*other.dims, *((-stride, count) for stride, count in one.dims)])
    first, end = 1 - other.run - other.start + one.start, one.run - 1 - other.start + one.start
    if one.ring[1] == other.ring[1] == 1:
        near, far = low, min(high, other.last)
        if one.step == other.step:
            # The distance is one more dimension.
            if near > far:
                return False
            shift = one.step * near
            return _sums(_joined([*dims, (one.step, far - near + 1)]), first - shift, end - shift)
        cases = 1
        for _, count in dims:
            cases *= count
        if cases > MOST:
            return True

        def found(begin: int, stop: int) -> bool:
            return line(one.step, other.step, begin, stop, one.last, other.last, low, high)

        return _try(dims, first, end, found)
    if one.step or other.step:
        count, apart = min(one.last, other.last - low) + 1, min(high, other.last) - low + 1
        if count <= 0 or apart <= 0:
            return False
        if count * apart > MOST:
            return True
        pairs = [(i, j) for i in range(count) for j in range(i + low, min(i + high, other.last) + 1)]
    else:
        period = lcm(one.ring[1], other.ring[1])
        if period * period > MOST:
            return True
        far = min(high, low + period - 1)
        pairs = [
            (i, i + d) for d in range(low, far + 1) for i in range(min(period, one.last + 1)) if i + d <= other.last
        ]
    moved = {_place(other, j) - _place(one, i) for i, j in pairs}
    return any(_sums(dims, first - each, end - each) for each in moved)


def _place(pattern: Moving, iteration: int) -> int:
    step, modulus, phase = pattern.ring
    return pattern.step * iteration + step * ((iteration + phase) % modulus)


def _joined(dims: Sequence[tuple[int, int]]) -> Dims:
    """Dimensions of more than one place, the largest strides first; `?` counts are never longer than their use."""
    kept = [(stride, count) for stride, count in dims if count > 1 and stride]
    return tuple(sorted(kept, key=lambda dim: -abs(dim[0])))


def _sums(dims: Dims, low: int, high: int) -> bool:
    """Whether some sum of strides is in a range."""
    if low > high:
        return False
    if not dims:
        return low <= 0 <= high
    rest = dims[1:]
    least = sum(min(0, stride * (count - 1)) for stride, count in rest)
    most = sum(max(0, stride * (count - 1)) for stride, count in rest)
    stride, count = dims[0]
    # low <= stride * x + (least .. most) <= high
    begin, end = low - most, high - least
    if stride < 0:
        stride, begin, end = -stride, -end, -begin
        first, last = max(0, -(-begin // stride)), min(count - 1, end // stride)
        return any(_sums(rest, low + stride * x, high + stride * x) for x in range(first, last + 1))
    first, last = max(0, -(-begin // stride)), min(count - 1, end // stride)
    return any(_sums(rest, low - stride * x, high - stride * x) for x in range(first, last + 1))


def _try(dims: Dims, low: int, high: int, found: Callable[[int, int], bool]) -> bool:
    """Whether a sum of strides leaves a range for which `found` holds."""
    if not dims:
        return found(low, high)
    (stride, count), rest = dims[0], dims[1:]
    return any(_try(rest, low - stride * x, high - stride * x, found) for x in range(count))


def line(s: int, t: int, low: int, high: int, most_i: int, most_j: int, near: int, far: int) -> bool:
    """Whether integers 0 <= i <= most_i, 0 <= j <= most_j, near <= j - i <= far have low <= t * j - s * i <= high."""
    near, far = max(near, -most_i), min(far, most_j)
    if most_i < 0 or most_j < 0 or low > high or near > far:
        return False
    if s == t:
        if s == 0:
            return low <= 0 <= high
        if s < 0:
            s, low, high = -s, -high, -low
        return max(near, -(-low // s)) <= min(far, high // s)
    if s == 0 or t == 0:
        if s == 0:
            step, first, last = t, max(0, near), min(most_j, most_i + far)
        else:
            step, first, last = -s, max(0, -far), min(most_i, most_j - near)
        if step < 0:
            step, low, high = -step, -high, -low
        return max(first, -(-low // step)) <= min(last, high // step)
    divisor = gcd(s, t)
    begin, end = -(-low // divisor), high // divisor
    if end - begin >= MOST:
        return True
    a, b = t // divisor, s // divisor  # a * j - b * i = w has the solutions j = j0 + b * x, i = i0 + a * x
    inverse = pow(a, -1, abs(b)) if abs(b) > 1 else 0
    for w in range(begin, end + 1):
        j0 = w * inverse % abs(b) if abs(b) > 1 else 0
        i0 = (a * j0 - w) // b
        first, last = -FAR * FAR, FAR * FAR
        for factor, at, least, most in ((b, j0, 0, most_j), (a, i0, 0, most_i), (b - a, j0 - i0, near, far)):
            if factor == 0:
                if not least <= at <= most:
                    first, last = 1, 0
                continue
            x, y = least - at, most - at
            if factor < 0:
                factor, x, y = -factor, -y, -x
            first, last = max(first, -(-x // factor)), min(last, y // factor)
        if first <= last:
            return True
    return False
