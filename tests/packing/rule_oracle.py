"""Truth for small problems with rules: pairs, moments and enumeration of all offsets, in plain Python.

Nothing here is shared with the planner or its validator. Times are small, so lives are sets of moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from haulout.packing import Problem


def lives(problem: Problem) -> list[set[int]]:
    """Moments at which each buffer takes bytes."""
    moments: list[set[int]] = [set() for _ in range(len(problem))]
    for b, lo, hi in zip(problem.owner.tolist(), problem.lower.tolist(), problem.upper.tolist(), strict=True):
        if problem.size[b]:
            moments[b] |= set(range(lo, hi))
    return moments


def groups_of(problem: Problem) -> list[frozenset[int]]:
    """The alias group of each buffer."""
    mine = [frozenset([b]) for b in range(len(problem))]
    for group in problem.rules.aliases:
        for b in group:
            mine[b] = frozenset(group)
    return mine


def is_right(problem: Problem, offset: list[int], pool: list[int], capacities: bool = True) -> bool:
    """Whether a placement obeys every rule."""
    rules, size = problem.rules, problem.size.tolist()
    life, group = lives(problem), groups_of(problem)
    for b in range(len(problem)):
        here = rules.pools[pool[b]]
        if rules.allowed and rules.allowed[b] and pool[b] not in rules.allowed[b]:
            return False
        if offset[b] < 0 or offset[b] % problem.alignment[b] or problem.pinned[b] not in (-1, offset[b]):
            return False
        if capacities and here.capacity is not None and life[b] and offset[b] + size[b] > here.capacity:
            return False
        for segment in (int(problem.segment[b]), here.segment or 0):
            if segment and life[b] and offset[b] // segment != (offset[b] + size[b] - 1) // segment:
                return False
    for aliases in rules.aliases:
        if len({(offset[b], pool[b]) for b in aliases}) > 1:
            return False
    for symmetric in rules.symmetric:
        storages = {group[b] for b in symmetric}
        if len({offset[b] for b in symmetric}) > 1 or len({pool[min(g)] for g in storages}) < len(storages):
            return False
    exempt = _handovers(problem, offset, pool)
    for i, j in combinations(range(len(problem)), 2):
        if group[i] == group[j] or pool[i] != pool[j]:
            continue
        if offset[i] + size[i] <= offset[j] or offset[j] + size[j] <= offset[i]:
            continue
        common = life[i] & life[j]
        if (group[i], group[j]) in exempt or (group[j], group[i]) in exempt:
            common -= exempt.get((group[i], group[j]), set()) | exempt.get((group[j], group[i]), set())
        if common:
            return False
    return True


def _handovers(
    problem: Problem, offset: list[int], pool: list[int]
) -> dict[tuple[frozenset[int], frozenset[int]], set[int]]:
    """Pairs of alias groups, one in the place of the other, with the moment that they may share."""
    life, group = lives(problem), groups_of(problem)
    given: set[frozenset[int]] = set()
    taken: set[frozenset[int]] = set()
    moments: dict[tuple[frozenset[int], frozenset[int]], set[int]] = {}
    for i, o in problem.rules.in_place:
        one, two = (set().union(*(life[b] for b in group[x])) for x in (i, o))
        if group[i] == group[o] or not one or not two or group[i] in given or group[o] in taken:
            continue
        if max(one) == min(two) > min(one) and (offset[i], pool[i]) == (offset[o], pool[o]):
            given.add(group[i])
            taken.add(group[o])
            moments[group[i], group[o]] = {min(two)}
    return moments


def placements(problem: Problem, top: int) -> Iterator[tuple[list[int], list[int]]]:
    """All placements that end at `top` or below in every pool, by backtracking over buffers in index order."""
    rules = problem.rules
    n = len(problem)
    for pool in product(*(rules.pools_of(b) for b in range(n))):
        choices = []
        for b in range(n):
            step = int(problem.alignment[b])
            end = top - int(problem.size[b])
            choices.append(
                [int(problem.pinned[b])] if problem.pinned[b] >= 0 else list(range(0, max(end, 0) + 1, step))
            )
        for offset in product(*choices):
            yield list(offset), list(pool)


def least_total(problem: Problem, top: int) -> int | None:
    """The least sum of pool ends over all right placements within `top`; None when there is none."""
    best: int | None = None
    life = lives(problem)
    for offset, pool in placements(problem, top):
        ends = [0] * len(problem.rules.pools)
        for b in range(len(problem)):
            if life[b]:
                ends[pool[b]] = max(ends[pool[b]], offset[b] + int(problem.size[b]))
        if (best is None or sum(ends) < best) and is_right(problem, offset, pool):
            best = sum(ends)
    return best
