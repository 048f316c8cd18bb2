"""Pairs of extents that may have a byte in common, without comparing all pairs.

An extent is inside its *hull*, and when it is strided also inside a *comb*: the keys whose distance from its origin,
modulo its pitch, is less than its width. The combs of two extents overlap only when their origins are close modulo
the greatest common divisor of the pitches. So for each two pitches, extents are joined on the intervals that they
cover in the line (hulls) or in the circle of residues (combs), whichever gives fewer pairs; those are then compared
on the other. Groups of extents with disjoint hulls are joined separately: a thousand tensors with a hundred slices
each are a thousand small joins. The work is near linear in the extents and in the pairs of the join that is chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.columns import distinct, join_ranges
from haulout.ir.schema import Bools, Column, Ints

MAX_PITCHES = 12
"""Distinct pitches; rarer ones are replaced by their greatest common divisor."""


class Bounds(NamedTuple):
    """Hulls and combs of extents, as columns."""

    low: Ints
    high: Ints
    """The hull."""
    origin: Ints
    pitch: Ints
    """0: no comb; the extent is its hull."""
    width: Ints
    """The comb."""


def candidates(at: Bounds, some: Ints, others: Ints, limit: int | None = None) -> tuple[Ints, Ints] | None:
    """Pairs (one of `some`, one of `others`) whose hulls and combs overlap, as two columns; each pair once.

    None when the joins have more than about `limit` pairs.
    """
    if len(some) == 0 or len(others) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    begin, end = _components(at, some)
    component = np.searchsorted(begin, at.low[some], "right") - 1
    # An extent may reach over several components of the others.
    first, last = np.searchsorted(end, at.low[others], "right"), np.searchsorted(begin, at.high[others], "left")
    count = np.maximum(last - first, 0)
    others, place = np.repeat(others, count), join_ranges(first, count)
    pitch = _few(at.pitch, np.concatenate([some, others]))
    joins = []
    for one in np.unique(pitch[some]).tolist():
        for other in np.unique(pitch[others]).tolist():
            mine, theirs = pitch[some] == one, pitch[others] == other
            modulus = int(np.gcd(one, other))
            joins.append(_Join(at, some[mine], component[mine], others[theirs], place[theirs], modulus))
    if limit is not None and sum(join.count for join in joins) > limit:
        return None
    size = len(at.low)
    code = distinct(np.concatenate([left * size + right for left, right in (join.pairs() for join in joins)]))
    return code // size, code % size


def _components(at: Bounds, rows: Ints) -> tuple[Ints, Ints]:
    """Intervals of keys that the hulls of some extents cover without a gap."""
    order = rows[np.argsort(at.low[rows], kind="stable")]
    reach = np.maximum.accumulate(at.high[order])
    first = np.append(True, at.low[order][1:] >= reach[:-1])
    return at.low[order][first], reach[np.append(first[1:], True)]


def _few(pitch: Ints, rows: Ints) -> Ints:
    """For each extent a pitch that divides its own, with few distinct ones among some rows."""
    values, counts = np.unique(pitch[rows], return_counts=True)
    rare = np.isin(pitch, values[np.argsort(-counts, kind="stable")[MAX_PITCHES:]]) & (pitch > 0)
    common = np.gcd.reduce(values[np.argsort(-counts, kind="stable")[MAX_PITCHES:]], initial=0)
    return np.where(rare, common, pitch)


class _Join:
    """Candidates among extents of two pitches with one greatest common divisor, `modulus`."""

    def __init__(self, at: Bounds, some: Ints, component: Ints, others: Ints, place: Ints, modulus: int) -> None:
        self.at, self.some, self.others, self.modulus = at, some, others, modulus
        self.component, self.place = component, place
        count = max(int(component.max(initial=-1)), int(place.max(initial=-1))) + 1
        self.hulls = _Pairs(component, at.low[some], at.high[some], place, at.low[others], at.high[others])
        each = self.hulls.counts(count)
        self.by_comb = np.zeros(count, bool)
        """Of each component: whether joining on residues gives fewer pairs."""
        if modulus:
            self.mine, begin, end = _residues(at, some, modulus)
            self.theirs, begin2, end2 = _residues(at, others, modulus)
            self.combs = _Pairs(component[self.mine], begin, end, place[self.theirs], begin2, end2)
            self.by_comb = self.combs.counts(count) < each
            each = np.minimum(self.combs.counts(count), each)
        self.count = int(each.sum())

    def pairs(self) -> tuple[Ints, Ints]:
        """The pairs, perhaps more than once."""
        at, some, others = self.at, self.some, self.others
        left, right = self.hulls.pairs(~self.by_comb[self.component], ~self.by_comb[self.place])
        left, right = some[left], others[right]
        if self.modulus == 0:
            return left, right
        near = (at.origin[right] - at.origin[left]) % self.modulus
        kept = (near < at.width[left]) | ((self.modulus - near) % self.modulus < at.width[right])
        left, right = left[kept], right[kept]
        mine, theirs = self.by_comb[self.component[self.mine]], self.by_comb[self.place[self.theirs]]
        left2, right2 = self.combs.pairs(mine, theirs)
        left2, right2 = some[self.mine[left2]], others[self.theirs[right2]]
        kept = (at.low[left2] < at.high[right2]) & (at.low[right2] < at.high[left2])
        return np.concatenate([left, left2[kept]]), np.concatenate([right, right2[kept]])


def _residues(at: Bounds, rows: Ints, modulus: int) -> tuple[Ints, Ints, Ints]:
    """The residues that extents cover as (number in `rows`, begin, end); an interval that wraps around is two."""
    begin = at.origin[rows] % modulus
    width = np.minimum(at.width[rows], modulus)
    begin = np.where(width == modulus, 0, begin)
    end = begin + width
    number = np.arange(len(rows))
    round_ = np.flatnonzero(end > modulus)
    return (
        np.append(number, round_),
        np.append(begin, np.zeros(len(round_), np.int64)),
        np.append(np.minimum(end, modulus), end[round_] - modulus),
    )


class _Pairs:
    """Overlapping pairs of intervals of two lists, where both are of one group."""

    def __init__(self, group: Ints, low: Ints, high: Ints, group2: Ints, low2: Ints, high2: Ints) -> None:
        ends = distinct(np.concatenate([low, high, low2, high2]))
        size = len(ends) + 1
        self.group, self.group2 = group, group2
        # Put the groups after each other on one line.
        self.low, self.high = (group * size + np.searchsorted(ends, side) for side in (low, high))
        self.low2, self.high2 = (group2 * size + np.searchsorted(ends, side) for side in (low2, high2))
        self.order, self.order2 = np.argsort(self.low, kind="stable"), np.argsort(self.low2, kind="stable")
        # Two overlap when the second begins inside the first, or the first begins later and inside the second.
        sorted_, sorted2 = self.low[self.order], self.low2[self.order2]
        self.first = np.searchsorted(sorted2, self.low, "left")
        self.count = np.maximum(np.searchsorted(sorted2, self.high, "left") - self.first, 0)
        self.first2 = np.searchsorted(sorted_, self.low2, "right")
        self.count2 = np.maximum(np.searchsorted(sorted_, self.high2, "left") - self.first2, 0)

    def counts(self, groups: int) -> Column:
        """How many pairs each group has."""
        each = np.bincount(self.group, self.count, groups)
        return each + np.bincount(self.group2, self.count2, groups)

    def pairs(self, wanted: Bools, wanted2: Bools) -> tuple[Ints, Ints]:
        """Positions in the two lists, those of the groups that the masks choose."""
        mine, theirs = np.flatnonzero(wanted), np.flatnonzero(wanted2)
        left = np.repeat(mine, self.count[mine])
        right = self.order2[join_ranges(self.first[mine], self.count[mine])]
        right2 = np.repeat(theirs, self.count2[theirs])
        left2 = self.order[join_ranges(self.first2[theirs], self.count2[theirs])]
        return np.append(left, left2), np.append(right, right2)
