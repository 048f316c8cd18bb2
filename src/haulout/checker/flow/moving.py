"""Do two patterns that move with loops meet, at some distance of iterations? In closed form, without iterations.

A pattern that moves stands in iteration k at `start + step * k`, or on a ring at `start + step * ((k + phase) mod
m)`, or at the sum of both; rows of bytes repeat at the strides of its dimensions. Loops that are around one of the
two alone are further dimensions: any of their iterations may be meant. Iterations i of the one and j of the other
meet when

    -(run of the other - 1)  <=  (other's place in j) - (one's place in i) + (some sum of strides)  <=  run of the one
    - 1

    no rings      with equal steps only the distance j - i counts, one more dimension; with one step 0 iterations of
                  the other that hit are an interval; else each multiple of the greatest common divisor in the range
                  is one linear equation, whose solutions have one parameter (extended Euclid)
    rings alone   phases u and v occur at distance d when v - u = d modulo the greatest common divisor of the moduli:
                  what is left of the two rings are two dimensions
    ring + step   iterations of one remainder modulo the period of the rings have one phase: they move without rings

Whether a sum of strides is in a range (`sums`): dimensions that leave no gaps widen the range, multiples of a smaller
stride join it, two that are left take a Euclidean algorithm, of more the largest are tried. `strided_overlap.py` does
the same for many sets; here numbers may be larger than 64 bits, as trip counts need not be known.

The answer may be "yes" where they do not meet, when the exact one would take too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, lcm, prod

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
    """Its last iteration; negative: there is none."""


def meet(one: Moving, other: Moving, low: int, high: int) -> bool:
    """Whether they meet in iterations i and j with `low <= j - i <= high`; low is not negative."""
    if min(one.last, other.last) < 0 or low > min(high, other.last):
        return False
    dims = (*other.dims, *((-stride, count) for stride, count in one.dims))
    window = one.start - other.start - other.run + 1, one.start - other.start + one.run - 1
    if one.ring[1] == other.ring[1] == 1:
        return _linear(dims, window, (one.step, other.step), (one.last, other.last), (low, high))
    if (one.last + 1) * (min(high, other.last) - low + 1) <= MOST:
        pairs = product(range(one.last + 1), range(low, min(high, other.last) + 1))
        moved = {_place(other, i + d) - _place(one, i) for i, d in pairs if i + d <= other.last}
        return any(sums(dims, window[0] - each, window[1] - each) for each in moved)
    period = lcm(one.ring[1], other.ring[1])
    if period * period <= MOST:
        return any(
            _linear(dims, (window[0] - moved, window[1] - moved), steps, lasts, lags)
            for moved, steps, lasts, lags in _remainders(one, other, period, low, high)
        )
    if one.step == other.step == 0:
        return _rings(dims, window, one, other, low, high)
    free = _free(one, other, low, high)
    return sums((*dims, *free, *(_ring_dim(each, sign) for each, sign in ((one, -1), (other, 1)))), *window)


def _place(pattern: Moving, iteration: int) -> int:
    step, modulus, phase = pattern.ring
    return pattern.step * iteration + step * ((iteration + phase) % modulus)


def _ring_dim(pattern: Moving, sign: int) -> tuple[int, int]:
    return sign * pattern.ring[0], pattern.ring[1]


def _free(one: Moving, other: Moving, low: int, high: int) -> Dims:
    """The two steps as dimensions, as if the iterations had nothing to do with each other but their limits."""
    return (-one.step, min(one.last, other.last - low) + 1), (other.step, min(other.last, one.last + high) + 1)


_Case = tuple[int, tuple[int, int], tuple[int, int], tuple[int, int]]
"""How much farther the other starts, and of both the steps, the last iterations, the limits of the distance."""


def _remainders(one: Moving, other: Moving, period: int, low: int, high: int) -> Iterator[_Case]:
    """The iterations by their remainders: `period * i + r` and `period * j + s` stand on fixed phases."""
    steps = one.step * period, other.step * period
    for r in range(min(period, one.last + 1)):
        for s in range(min(period, other.last + 1)):
            lasts = (one.last - r) // period, (other.last - s) // period
            lags = -((s - r - low) // period), (high - (s - r)) // period
            yield _place(other, s) - _place(one, r), steps, lasts, lags


def _rings(dims: Dims, window: tuple[int, int], one: Moving, other: Moving, low: int, high: int) -> bool:
    """Both move on rings, or one is still; as if each phase came again and again."""
    (step, modulus, phase), (step2, modulus2, phase2) = one.ring, other.ring
    common = gcd(modulus, modulus2)
    far = min(high - low + 1, common)
    if common * far > MOST:
        return sums((*dims, _ring_dim(one, -1), _ring_dim(other, 1)), *window)
    free = (*dims, (-step * common, modulus // common), (step2 * common, modulus2 // common))
    for r, d in product(range(common), range(low, low + far)):
        moved = step2 * ((r + d + phase2) % common) - step * ((r + phase) % common)
        if sums(free, window[0] - moved, window[1] - moved):
            return True
    return False


def _linear(
    dims: Dims, window: tuple[int, int], steps: tuple[int, int], lasts: tuple[int, int], lags: tuple[int, int]
) -> bool:
    """Whether `other's step * j - one's step * i + (a sum of strides)` is in a window for some i and j."""
    near, far = max(lags[0], -lasts[0]), min(lags[1], lasts[1])
    if min(lasts) < 0 or near > far:
        return False
    if steps[0] == steps[1]:
        # The distance is one more dimension.
        shift = steps[0] * near
        return sums((*dims, (steps[0], far - near + 1)), window[0] - shift, window[1] - shift)
    dims, low, high = _reduced(dims, *window)
    if prod(count for _, count in dims) * ((high - low) // gcd(*steps) + 1) <= MOST:
        places = (sum(place) for place in product(*(range(0, stride * count, stride) for stride, count in dims)))
        return any(line(*steps, low - each, high - each, *lasts, near, far) for each in places)
    free = (-steps[0], lasts[0] + 1), (steps[1], lasts[1] + 1)
    return sums((*dims, *free), low, high)


def line(s: int, t: int, low: int, high: int, most_i: int, most_j: int, near: int, far: int) -> bool:
    """Whether integers 0 <= i <= most_i, 0 <= j <= most_j, near <= j - i <= far have low <= t * j - s * i <= high.

    s and t differ. One equation is solved for each multiple of their greatest common divisor in the range.
    """
    divisor = gcd(s, t)
    begin, end = -(-low // divisor), high // divisor
    a, b = t // divisor, s // divisor  # a * j - b * i = w has the solutions j = j0 + b * x, i = i0 + a * x
    inverse = pow(a, -1, abs(b)) if abs(b) > 1 else 0
    for w in range(begin, end + 1):
        if b:
            j0 = w * inverse % abs(b) if abs(b) > 1 else 0
            i0 = (a * j0 - w) // b
        else:
            j0, i0 = w * a, 0  # a is 1 or -1
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


# -- sums of strides -------------------------------------------------------------------------------------------------


def sums(dims: Iterable[tuple[int, int]], low: int, high: int) -> bool:
    """Whether `stride * x + ...` is in `low..high` for some `0 <= x < count` of each dimension."""
    return _any_sum(*_reduced(dims, low, high), [MOST])


def _reduced(dims: Iterable[tuple[int, int]], low: int, high: int) -> tuple[Dims, int, int]:
    """The same question with positive strides, the largest first, of which none is needless."""
    sizes: dict[int, int] = {}
    for stride, count in dims:
        if stride < 0:
            low, high = low - stride * (count - 1), high - stride * (count - 1)
        if stride and count > 1:
            sizes[abs(stride)] = sizes.get(abs(stride), 1) + count - 1
    kept: list[tuple[int, int]] = []
    for stride, count in sorted(sizes.items()):
        if not kept and stride <= high - low + 1:
            low -= stride * (count - 1)
            continue
        for at, (smaller, times) in enumerate(kept):
            factor, rest = divmod(stride, smaller)
            if rest == 0 and factor <= times:
                kept[at] = smaller, times + factor * (count - 1)
                break
        else:
            kept.append((stride, count))
    return tuple(reversed(kept)), low, high


def _any_sum(dims: Dims, low: int, high: int, budget: list[int]) -> bool:
    """Whether a sum of reduced dimensions is in a range; `budget` holds how many more cases are tried."""
    common = gcd(*(stride for stride, _ in dims)) if dims else high + 1
    if low > high or high < 0 or low > sum(stride * (count - 1) for stride, count in dims):
        return False
    if low > 0 and common and high // common * common < low:
        return False
    if len(dims) < 2:
        if not dims:
            return low <= 0
        (stride, count) = dims[0]
        return max(0, -(-low // stride)) <= min(count - 1, high // stride)
    (stride, count), rest = dims[0], dims[1:]
    if not rest[1:]:
        return _two_reach(dims[0], dims[1], low, high)
    most = sum(each * (times - 1) for each, times in rest)
    first, last = max(0, -((most - low) // stride)), min(count - 1, high // stride)
    budget[0] -= max(last - first + 1, 0)
    if budget[0] < 0:
        return True
    return any(_any_sum(rest, low - stride * x, high - stride * x, budget) for x in range(first, last + 1))


def _two_reach(one: tuple[int, int], other: tuple[int, int], low: int, high: int) -> bool:
    """Whether a sum of two dimensions, the one with the larger stride first, is in a range."""
    (large, count), (small, times) = one, other
    reach = small * (times - 1)
    first, final = max(-((reach - low) // large), 0), min(high // large, count - 1)
    if first > final:
        return False
    # For x in first..final the highest y whose sum is at most `high` is right if the sum is at least `low`, or if
    # there are fewer places than that.
    if high - large * first >= reach or high - low >= small - 1:
        return True
    # Does (large * t + rest) mod small leave at most high - low for some of these x?
    turns, rest = final - first + 1, (high - large * final) % small
    step = large % small
    return _quotients(turns, small, step, rest + small) != _quotients(
        turns, small, step, rest + small - high + low - 1
    )


def _quotients(turns: int, modulus: int, step: int, start: int) -> int:
    """The sum of `(step * t + start) // modulus` over t < turns."""
    total = 0
    while True:
        total += turns * (turns - 1) // 2 * (step // modulus) + turns * (start // modulus)
        step, start = step % modulus, start % modulus
        highest = step * turns + start
        if highest < modulus:
            return total
        turns, start = divmod(highest, modulus)
        modulus, step = step, modulus
