"""From buffers to storages: alias groups and in-place pairs become single buffers of a smaller problem.

    alias group       one storage: the union of the ranges (holes stay), the largest size of the live members, the
                      least common multiple of the alignments, the common pin, the pools that all members allow
    in-place pair     the same when it is taken; both lives then count with the larger size

    x  [---------)          x  [---------)                     x+y [----------------)
    y          [-------)    y          [-------)      taken:
               ^ the moment of the operation: x is read, y is written

Taking an in-place pair also restricts offsets, so it is a choice: `matchings` gives several.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from haulout.packing.problem import I64, Problem, check_segments
from haulout.support.diagnostics import bad_input

Pair = tuple[int, int]
MAX_PAIRS_FOR_SUBSETS = 3
"""Up to so many in-place pairs, every subset is tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Storages:
    """A problem over storages. `of`: the storage of each buffer of the original; `taken`: in-place pairs, of buffers.

    `allowed`: pools of each storage, the preferred one first; `groups`: symmetric groups, of storages.
    """

    problem: Problem
    of: I64
    allowed: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    taken: tuple[Pair, ...] = ()


def alias_of(problem: Problem) -> I64:
    """For every buffer the least member of its alias group, or itself."""
    leader = np.arange(len(problem), dtype=np.int64)
    for group in problem.rules.aliases:
        leader[list(group)] = min(group, default=0)
    return leader


def merge(problem: Problem, taken: tuple[Pair, ...] = ()) -> Storages:
    """The problem over storages. Raises `bad-input` when members of an alias group contradict one another."""
    leader = alias_of(problem)
    follows = {int(leader[two]): int(leader[one]) for one, two in taken}
    for last in sorted(follows):  # the first storage of a chain names it
        first, passed = last, []
        while first in follows:
            passed.append(first)
            first = follows[first]
        for each in passed:
            follows[each] = first
    if taken:
        name = np.arange(len(problem), dtype=np.int64)
        name[list(follows)] = list(follows.values())
        leader = name[leader]
    _, of = np.unique(leader, return_inverse=True)
    of = of.astype(np.int64)
    count = int(of.max(initial=-1)) + 1
    size = np.zeros(count, np.int64)
    np.maximum.at(size, of, np.where(problem.occupies, problem.size, 0))
    pinned = np.full(count, -1, np.int64)
    np.maximum.at(pinned, of, problem.pinned)
    alignment = np.ones(count, np.int64)
    np.lcm.at(alignment, of, problem.alignment)
    segment = np.zeros(count, np.int64)
    for buffer in np.flatnonzero(problem.segment).tolist():
        at = of[buffer]
        segment[at] = nested(int(segment[at]), int(problem.segment[buffer]), f"buffer {buffer}")
    for buffer in np.flatnonzero((problem.pinned >= 0) & (pinned[of] != problem.pinned))[:1].tolist():
        bad_input(f"buffer {buffer} is pinned at {problem.pinned[buffer]}, an alias of it at {pinned[of[buffer]]}")
    for at in np.flatnonzero((pinned >= 0) & (pinned % alignment != 0))[:1].tolist():
        bad_input(f"aliases pinned at {pinned[at]} are aligned to {alignment[at]} together")
    check_segments(size, alignment, pinned, segment)
    lifeless = problem.size[problem.owner] == 0  # buffers of no bytes do not keep a storage alive
    merged = Problem.of(
        problem.lower,
        np.where(lifeless, problem.lower, problem.upper),
        size,
        alignment,
        pinned=pinned,
        owner=of[problem.owner],
        segment=segment,
    )
    return Storages(merged, of, _allowed(problem, of, count), _groups(problem, of), taken)


def nested(one: int, two: int, what: str) -> int:
    """The segment that satisfies both (0: no limit). Raises `bad-input` unless one divides the other."""
    if one and two and max(one, two) % min(one, two):
        bad_input(f"{what} has segments of {one} and {two} bytes; one must be a multiple of the other")
    return min(one, two) or max(one, two)


def _allowed(problem: Problem, of: I64, count: int) -> tuple[tuple[int, ...], ...]:
    """Pools that all buffers of a storage allow, in the order of its first buffer."""
    every = tuple(range(len(problem.rules.pools)))
    if not problem.rules.allowed:
        return (every,) * count
    pools: list[tuple[int, ...] | None] = [None] * count
    for buffer, at in enumerate(of.tolist()):
        mine, before = problem.rules.pools_of(buffer), pools[at]
        pools[at] = mine if before is None else tuple(p for p in before if p in mine)
        if not pools[at]:
            bad_input(f"buffer {buffer} and an alias of it have no allowed pool in common")
    return tuple(each or every for each in pools)


def _groups(problem: Problem, of: I64) -> tuple[tuple[int, ...], ...]:
    """Symmetric groups over storages; groups that share a storage are joined."""
    groups: list[set[int]] = []
    for group in problem.rules.symmetric:
        members = {int(of[buffer]) for buffer in group}
        for other in [other for other in groups if other & members]:
            members |= other
            groups.remove(other)
        groups.append(members)
    return tuple(tuple(sorted(group)) for group in groups if len(group) > 1)


def usable_pairs(problem: Problem, base: Storages) -> list[Pair]:
    """In-place pairs whose output is born at the moment at which the input dies, the most useful first.

    `base`: the storages when no pair is taken. Birth and death are those of the storage with all its aliases.
    """
    birth = np.full(len(base.problem), np.iinfo(np.int64).max)
    death = np.full(len(base.problem), np.iinfo(np.int64).min)
    np.minimum.at(birth, base.problem.owner, base.problem.lower)
    np.maximum.at(death, base.problem.owner, base.problem.upper)
    taken, size = base.problem.occupies, base.problem.reserved
    keyed = []
    for number, (source, target) in enumerate(dict.fromkeys(problem.rules.in_place)):
        one, two = base.of[source], base.of[target]
        if one != two and taken[one] and taken[two] and birth[one] < birth[two] == death[one] - 1:
            keyed.append((size[one] != size[two], -min(size[one], size[two]), number, (source, target)))
    return [pair for *_, pair in sorted(keyed)]


def matchings(base: Storages, pairs: list[Pair]) -> Iterator[tuple[Pair, ...]]:
    """Sets of pairs to take: all compatible ones, those that waste no bytes, none; with few pairs, every subset."""
    seen: set[tuple[Pair, ...]] = set()
    size = base.problem.reserved[base.of]
    equal = [pair for pair in pairs if size[pair[0]] == size[pair[1]]]
    fitting = [pair for pair in pairs if size[pair[0]] >= size[pair[1]]]
    tries: list[list[Pair]] = [pairs, fitting, equal, []]
    if len(pairs) <= MAX_PAIRS_FOR_SUBSETS:
        tries += [list(some) for k in range(len(pairs), 0, -1) for some in combinations(pairs, k)]
    for some in tries:
        matching = _matching(base, some)
        if matching not in seen:
            seen.add(matching)
            yield matching


@dataclass(slots=True)
class _Chain:
    """The constraints of a chain of in-place pairs. `parent`: the chain that absorbed this one."""

    pools: frozenset[int]
    pinned: int
    alignment: int
    size: int
    segment: int
    symmetric: bool
    parent: _Chain | None = None

    def root(self) -> _Chain:
        """The chain that this one is now part of."""
        chain = self
        while chain.parent is not None:
            if chain.parent.parent is not None:
                chain.parent = chain.parent.parent
            chain = chain.parent
        return chain

    def join(self, other: _Chain) -> bool:
        """Absorb another chain; False if the constraints of the two contradict each other."""
        pools = self.pools & other.pools
        pins = {self.pinned, other.pinned} - {-1}
        pin = max(pins, default=-1)
        alignment, size = math.lcm(self.alignment, other.alignment), max(self.size, other.size)
        low, high = sorted((self.segment, other.segment))
        segment = low or high
        if not pools or len(pins) > 1 or (self.symmetric and other.symmetric) or (low and high % low):
            return False
        if pin >= 0 and (pin % alignment or (segment and pin % segment + size > segment)):
            return False
        if segment and (segment % alignment or size > segment):
            return False
        self.pools, self.pinned, self.alignment, self.size, self.segment = pools, pin, alignment, size, segment
        self.symmetric |= other.symmetric
        other.parent = self
        return True


def _matching(base: Storages, pairs: list[Pair]) -> tuple[Pair, ...]:
    """A greedy matching: no two pairs share an input or an output, and every chain has consistent constraints."""
    rows = base.problem
    mirrored = {at for group in base.groups for at in group}
    chains: dict[int, _Chain] = {}
    for buffer in (buffer for pair in pairs for buffer in pair):
        at = int(base.of[buffer])
        pin, align, size, segment = (int(c[at]) for c in (rows.pinned, rows.alignment, rows.size, rows.segment))
        chains.setdefault(at, _Chain(frozenset(base.allowed[at]), pin, align, size, segment, at in mirrored))
    inputs: set[int] = set()
    outputs: set[int] = set()
    chosen: list[Pair] = []
    for source, target in pairs:
        one, two = int(base.of[source]), int(base.of[target])
        if one not in inputs and two not in outputs and chains[one].root().join(chains[two].root()):
            inputs.add(one)
            outputs.add(two)
            chosen.append((source, target))
    return tuple(sorted(chosen))
