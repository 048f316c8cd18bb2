"""Judge by plain reachability: the transitive closure of the events of a run, and single bytes.

An event is the start or the end of a step; a barrier is one event for all participants. Reads happen at the start,
writes at the end. The predecessors of an event are a bit set, filled in topological order; without such an order the
run hangs. Every two conflicting accesses are compared, byte by byte.

With semaphores there is no graph to close: the signal that satisfies a wait differs from run to run. There, each
event is blocked in turn and all others go as far as they can. What has not happened then needs the event, the rest
does not: semaphores only grow, so an event that can happen stays possible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program
from haulout_judges.queues import mask_of
from haulout_judges.straight import Barrier, Semaphore, Step, is_fence, runs
from haulout_judges.verdict import Verdict, hang, joined, of_pairs, unjudged
from haulout_judges.walks import NotStraightError


def judge(program: Program) -> Verdict:
    """The verdict on all runs."""
    try:
        return joined([judge_run(steps) for steps in runs(program)])
    except NotStraightError as error:
        return unjudged(str(error))


def judge_run(steps: Sequence[Step]) -> Verdict:
    """The verdict on one run."""
    if wrong := _disagreement(steps):
        return hang(wrong)
    before = _closure(steps)
    if before is None:
        return hang("a cycle of waits")
    return of_pairs(_unordered(steps, before))


def _disagreement(steps: Sequence[Step]) -> str:
    """Barriers with different names or missing participants, `sendrecv`s without a partner."""
    attended: dict[object, dict[int, Barrier]] = defaultdict(dict)
    sides: dict[object, int] = defaultdict(int)
    for step in steps:
        if step.barrier is not None:
            if step.core not in step.barrier.cores:
                return "a barrier on a core that is no participant"
            attended[step.barrier.key][step.core] = step.barrier
        for exchange in (step.sends, step.receives):
            if exchange is not None:
                sides[exchange] += 1
    for barriers in attended.values():
        one = next(iter(barriers.values()))
        if not all(one.agrees(other) for other in barriers.values()):
            return f"one barrier with names {sorted({barrier.name for barrier in barriers.values()})}"
        if set(barriers) != set(one.cores):
            return f"barrier {one.name!r} is missing on a core"
    return "a sendrecv without a partner" if any(count != 2 for count in sides.values()) else ""


def _events(steps: Sequence[Step]) -> tuple[list[int], list[int], int]:
    """The start and end event of each step, and the number of events."""
    start, end, shared = [], [], dict[object, int]()
    count = 0
    for step in steps:
        if step.barrier is not None:
            event = shared.setdefault(step.barrier.key, count)
            count += event == count
            start.append(event)
            end.append(event)
        else:
            start.append(count)
            end.append(count + 1)
            count += 2
    return start, end, count


def _closure(steps: Sequence[Step]) -> list[int] | None:
    """For each step's start and end (`2 * step`, `2 * step + 1`): a bit set of the events before; None: a cycle."""
    start, end, count = _events(steps)
    edges = _edges(steps, start, end, count)
    if any(step.needs for step in steps):
        before = _without_each(_Counted(steps, start, end), edges)
    else:
        before = _transitive(edges)
    if before is None:
        return None
    return [before[each] for pair in zip(start, end, strict=True) for each in pair] + [
        1 << each for pair in zip(start, end, strict=True) for each in pair
    ]


def _edges(steps: Sequence[Step], start: list[int], end: list[int], count: int) -> list[set[int]]:
    """The predecessors of each event, without semaphores."""
    edges: list[set[int]] = [set() for _ in range(count)]
    arrived: dict[object, dict[str, int]] = defaultdict(dict)
    last: dict[int, dict[int, int]] = defaultdict(dict)
    """For each core, the last step of each engine, and the last fence before them."""
    for at, step in enumerate(steps):
        if start[at] != end[at]:
            edges[end[at]].add(start[at])
        edges[start[at]] |= {end[other] for other in step.waits}
        mine = last[step.core]
        needed = list(mine) if is_fence(step) else (step.engine, Engine.ALL)
        edges[start[at]] |= {end[mine[engine]] for engine in needed if engine in mine}
        if is_fence(step):
            mine.clear()
        mine[step.engine] = at
        if step.sends is not None:
            arrived[step.sends]["sender"] = at
        if step.receives is not None:
            arrived[step.receives]["receiver"] = at
    for sides in arrived.values():
        edges[end[sides["receiver"]]].add(start[sides["sender"]])
        edges[end[sides["sender"]]].add(start[sides["receiver"]])
    return edges


def _transitive(edges: list[set[int]]) -> list[int] | None:
    """For each event a bit set of those before it; None: a cycle."""
    count = len(edges)
    before = [0] * count
    left = [len(each) for each in edges]
    followers: list[list[int]] = [[] for _ in range(count)]
    for event, each in enumerate(edges):
        for other in each:
            followers[other].append(event)
    ready = [event for event in range(count) if not left[event]]
    done = 0
    while ready:
        event = ready.pop()
        done += 1
        for other in followers[event]:
            before[other] |= before[event] | 1 << event
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    return before if done == count else None


class _Counted:
    """What events add to semaphores, and the counts that they need."""

    def __init__(self, steps: Sequence[Step], start: list[int], end: list[int]) -> None:
        self.adds: dict[int, list[tuple[Semaphore, int]]] = defaultdict(list)
        self.needs: dict[int, list[tuple[Semaphore, int]]] = defaultdict(list)
        for at, step in enumerate(steps):
            self.adds[end[at]] += step.signals
            self.needs[start[at]] += step.needs


def _without_each(counted: _Counted, edges: list[set[int]]) -> list[int] | None:
    """For each event a bit set of those that it needs; None: not all can happen."""
    predecessors = [sum(1 << other for other in each) for each in edges]
    order: Sequence[int] = range(len(edges))

    def reached(blocked: int) -> list[int]:
        """All that happens while one event is blocked, in an order in which it can."""
        over, counts, happened = 0, defaultdict[Semaphore, int](int), []
        waiting = [event for event in order if event != blocked]
        while True:
            left = []
            for event in waiting:
                if predecessors[event] & ~over or any(
                    counts[semaphore] < value for semaphore, value in counted.needs[event]
                ):
                    left.append(event)
                    continue
                over |= 1 << event
                happened.append(event)
                for semaphore, value in counted.adds[event]:
                    counts[semaphore] += value
            if len(left) == len(waiting):
                return happened
            waiting = left

    order = reached(NONE)
    if len(order) != len(edges):
        return None
    everything = (1 << len(edges)) - 1
    before = [0] * len(edges)
    for event in range(len(edges)):
        needs_it = everything & ~mask_of(reached(event)) & ~(1 << event)
        for other in range(len(edges)):
            if needs_it >> other & 1:
                before[other] |= 1 << event
    return before


def _unordered(steps: Sequence[Step], closure: list[int]) -> frozenset[tuple[int, int]]:
    """Pairs of rows that conflict and are unordered."""
    size = 2 * len(steps)
    touching: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for at, step in enumerate(steps):
        for byte in step.reads:
            touching[byte].append((at, False))
        for byte in step.writes:
            touching[byte].append((at, True))

    def comes_before(one: int, other: int) -> bool:
        return bool(closure[other] & closure[size + one])

    found = set()
    for accesses in touching.values():
        for index, (a, a_writes) in enumerate(accesses):
            for b, b_writes in accesses[index + 1 :]:
                if a == b or not (a_writes or b_writes):
                    continue
                one, other = 2 * a + a_writes, 2 * b + b_writes
                if not comes_before(one, other) and not comes_before(other, one):
                    found.add((min(steps[a].row, steps[b].row), max(steps[a].row, steps[b].row)))
    return frozenset(found)
