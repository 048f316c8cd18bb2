"""Truth for small problems, by means that share nothing with the planner: pairs and permutations, in plain Python."""

from __future__ import annotations

from haulout.packing import Problem


def conflicting(problem: Problem) -> set[tuple[int, int]]:
    """Pairs (i, j) of buffers that are live at one moment and take bytes."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for k, lo, hi in zip(problem.owner.tolist(), problem.lower.tolist(), problem.upper.tolist(), strict=True):
        ranges.setdefault(k, []).append((lo, hi))
    pairs = set()
    for i, mine in ranges.items():
        for j, theirs in ranges.items():
            if i == j or not problem.size[i] or not problem.size[j]:
                continue
            if any(max(a, c) < min(b, d) for a, b in mine for c, d in theirs):
                pairs.add((i, j))
    return pairs


def is_right(problem: Problem, offset: list[int]) -> bool:
    """Whether no conflicting pair shares a byte, and offsets are aligned."""
    size = problem.size.tolist()
    apart = all(offset[i] + size[i] <= offset[j] or offset[j] + size[j] <= offset[i] for i, j in conflicting(problem))
    aligned = all(o >= 0 and o % a == 0 for o, a in zip(offset, problem.alignment.tolist(), strict=True))
    return apart and aligned


def least_peak(problem: Problem) -> int:
    """The least peak of reserved bytes, without pins.

    In the order of their offsets in some best placement, buffers can be put each on the highest of those that it
    conflicts with: so some permutation of stacking gives the least peak.
    """
    n = len(problem)
    pairs = conflicting(problem)
    reserved = problem.reserved.tolist()
    align = problem.alignment.tolist()
    live = [i for i in range(n) if problem.occupies[i]]
    best = sum(r + a for r, a in zip(reserved, align, strict=True)) + 1

    def stack(offset: dict[int, int], peak: int) -> None:
        nonlocal best
        if peak >= best:
            return
        if len(offset) == len(live):
            best = peak
            return
        for i in live:
            if i not in offset:
                base = max((offset[j] + reserved[j] for j in offset if (i, j) in pairs), default=0)
                offset[i] = -(-base // align[i]) * align[i]
                stack(offset, max(peak, offset[i] + reserved[i]))
                del offset[i]

    stack({}, 0)
    return best
