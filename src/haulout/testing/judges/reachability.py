"""Judge by plain reachability: the transitive closure of the events of a run, and single bytes.

An event is the start or the end of a step; a barrier is one event for all who meet. Reads happen at the start,
writes at the end. What is before what is a bit set an event, filled in topological order; where there is none, the
run hangs. Every two conflicting accesses are asked for, byte by byte.

A wait for a semaphore comes after a signal without which, and without all that comes after that signal or after the
wait, the value is not reached. Each such pair is an edge, and edges may make others so, until nothing changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from haulout.ir.program import Program
from haulout.testing.judges.straight import Barrier, Semaphore, Step, is_fence, runs
from haulout.testing.judges.verdict import Verdict, hang, joined, of_pairs, unjudged
from haulout.testing.judges.walks import NotStraightError


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
    before = _ordered(steps)
    if before is None:
        return hang("waits for what never comes")
    return of_pairs(_unordered(steps, before))


def _disagreement(steps: Sequence[Step]) -> str:
    """Barriers with other names or missing participants, meetings without a partner."""
    said: dict[object, dict[int, Barrier]] = defaultdict(dict)
    sides: dict[object, int] = defaultdict(int)
    for step in steps:
        if step.barrier is not None:
            if step.core not in step.barrier.cores:
                return "a barrier on a core that is no participant"
            said[step.barrier.key][step.core] = step.barrier
        for exchange in (step.sends, step.receives):
            if exchange is not None:
                sides[exchange] += 1
    for barriers in said.values():
        one = next(iter(barriers.values()))
        if not all(one.agrees(other) for other in barriers.values()):
            return f"one barrier with names {sorted({barrier.name for barrier in barriers.values()})}"
        if set(barriers) != set(one.cores):
            return f"barrier {one.name!r} is missing on a core"
    return "a sendrecv without a partner" if any(count != 2 for count in sides.values()) else ""


def _events(steps: Sequence[Step]) -> tuple[list[int], list[int], int]:
    """Of each step its start and end event, and how many there are."""
    start, end, meet = [], [], dict[object, int]()
    count = 0
    for step in steps:
        if step.barrier is not None:
            event = meet.setdefault(step.barrier.key, count)
            count += event == count
            start.append(event)
            end.append(event)
        else:
            start.append(count)
            end.append(count + 1)
            count += 2
    return start, end, count


def _ordered(steps: Sequence[Step]) -> list[int] | None:
    """The closure with what semaphores imply; None: a cycle, or a value that is never reached."""
    implied: set[tuple[int, int]] = set()
    while True:
        closure = _closure(steps, implied)
        if closure is None:
            return None
        found = _implied(steps, closure)
        if found is None or found <= implied:
            return closure if found is not None else None
        implied |= found


def _implied(steps: Sequence[Step], closure: list[int]) -> set[tuple[int, int]] | None:
    """(signal, wait) pairs of steps of which the second needs the first; None: a wait for too much."""
    size = 2 * len(steps)
    signals: dict[Semaphore, list[tuple[int, int]]] = defaultdict(list)
    for at, step in enumerate(steps):
        for semaphore, value in step.signals:
            signals[semaphore].append((at, value))

    def after(event: int, step: int) -> bool:
        """Whether a step ends after an event."""
        return bool(closure[2 * step + 1] & closure[size + event])

    found = set()
    for wait, step in enumerate(steps):
        for semaphore, needed in step.needs:
            may = [(at, value) for at, value in signals[semaphore] if at != wait and not after(2 * wait, at)]
            if sum(value for _, value in may) < needed:
                return None
            for signal, _ in may:
                rest = sum(value for at, value in may if at != signal and not after(2 * signal + 1, at))
                if rest < needed:
                    found.add((signal, wait))
    return found


def _closure(steps: Sequence[Step], implied: Iterable[tuple[int, int]] = ()) -> list[int] | None:
    """For each step's start and end (`2 * step`, `2 * step + 1`): a bit set of the events before; None: a cycle."""
    start, end, count = _events(steps)
    edges: list[set[int]] = [set() for _ in range(count)]
    """Predecessors."""
    arrived: dict[object, dict[str, int]] = defaultdict(dict)
    for at, step in enumerate(steps):
        if start[at] != end[at]:
            edges[end[at]].add(start[at])
        edges[start[at]] |= {end[other] for other in step.waits}
        for other in range(at):
            earlier = steps[other]
            if earlier.core == step.core and (earlier.engine == step.engine or is_fence(earlier) or is_fence(step)):
                edges[start[at]].add(end[other])
        if step.sends is not None:
            arrived[step.sends]["sender"] = at
        if step.receives is not None:
            arrived[step.receives]["receiver"] = at
    for signal, wait in implied:
        edges[start[wait]].add(end[signal])
    for sides in arrived.values():
        edges[end[sides["receiver"]]].add(start[sides["sender"]])
        edges[end[sides["sender"]]].add(start[sides["receiver"]])
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
    if done < count:
        return None
    return [before[each] for pair in zip(start, end, strict=True) for each in pair] + [
        1 << each for pair in zip(start, end, strict=True) for each in pair
    ]


def _unordered(steps: Sequence[Step], closure: list[int]) -> frozenset[tuple[int, int]]:
    """Pairs of rows that conflict unordered."""
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
