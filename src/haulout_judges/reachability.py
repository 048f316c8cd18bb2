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
from collections.abc import Iterable, Sequence

import numpy as np

from haulout.ir.enums import Engine
from haulout.ir.program import Program
from haulout_judges.kernels import Bits, Ints, column, kernel, lists
from haulout_judges.straight import Barrier, Semaphore, Step, is_fence, runs
from haulout_judges.verdict import Verdict, hang, joined, of_pairs, unjudged
from haulout_judges.walks import NotStraightError


def judge(program: Program) -> Verdict:
    """The verdict on all runs."""
    try:
        return of_runs(runs(program))
    except NotStraightError as error:
        return unjudged(str(error))


def of_runs(written: Iterable[Sequence[Step]]) -> Verdict:
    """The verdict on runs that are written out already."""
    return joined([judge_run(steps) for steps in written])


def judge_run(steps: Sequence[Step]) -> Verdict:
    """The verdict on one run."""
    if wrong := _disagreement(steps):
        return hang(wrong)
    start, end, count = _events(steps)
    edges = lists(_edges(steps, start, end, count))
    if any(step.needs for step in steps):
        adds, needs, semaphores = _counted(steps, start, end, count)
        possible, before = _without_each(*edges, *adds, *needs, semaphores)
    else:
        possible, before = _transitive(*edges)
    if not possible:
        return hang("a cycle of waits")
    return of_pairs(_unordered(steps, before, start, end))


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


def _edges(steps: Sequence[Step], start: list[int], end: list[int], count: int) -> list[list[int]]:
    """The predecessors of each event, without semaphores."""
    edges: list[list[int]] = [[] for _ in range(count)]
    arrived: dict[object, dict[str, int]] = defaultdict(dict)
    last: dict[int, dict[int, int]] = defaultdict(dict)
    """For each core, the last step of each engine, and the last fence before them."""
    for at, step in enumerate(steps):
        if start[at] != end[at]:
            edges[end[at]].append(start[at])
        mine = last[step.core]
        needed = list(mine) if is_fence(step) else (step.engine, Engine.ALL)
        edges[start[at]] += [end[mine[engine]] for engine in needed if engine in mine]
        edges[start[at]] += [end[other] for other in step.waits]
        if is_fence(step):
            mine.clear()
        mine[step.engine] = at
        if step.sends is not None:
            arrived[step.sends]["sender"] = at
        if step.receives is not None:
            arrived[step.receives]["receiver"] = at
    for sides in arrived.values():
        edges[end[sides["receiver"]]].append(start[sides["sender"]])
        edges[end[sides["sender"]]].append(start[sides["receiver"]])
    return edges


def _counted(
    steps: Sequence[Step], start: list[int], end: list[int], count: int
) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints], int]:
    """For each event a list of what it adds to semaphores and one of what it needs: number and value in turn; and how
    many semaphores there are.
    """
    adds: list[list[int]] = [[] for _ in range(count)]
    needs: list[list[int]] = [[] for _ in range(count)]
    numbers: dict[Semaphore, int] = {}
    for at, step in enumerate(steps):
        for into, each in ((adds[end[at]], step.signals), (needs[start[at]], step.needs)):
            for semaphore, value in each:
                into += (numbers.setdefault(semaphore, len(numbers)), value)
    return lists(adds), lists(needs), len(numbers)


def _unordered(
    steps: Sequence[Step], before: Bits, start: Sequence[int], end: Sequence[int]
) -> frozenset[tuple[int, int]]:
    """Pairs of rows that conflict and are unordered."""
    touching: dict[int, list[int]] = defaultdict(list)
    for at, step in enumerate(steps):
        for byte in step.reads:
            touching[byte].append(2 * at)
        for byte in step.writes:
            touching[byte].append(2 * at + 1)
    found = _open(*lists(list(touching.values())), column(start), column(end), before)
    rows = [(steps[a].row, steps[b].row) for a, b in found.tolist()]
    return frozenset((min(pair), max(pair)) for pair in rows)


@kernel
def _transitive(starts: Ints, predecessors: Ints) -> tuple[bool, Bits]:
    """Whether all events can happen, and for each a bit set of those before it."""
    count = len(starts) - 1
    before = np.zeros((count, (count + 63) // 64), np.uint64)
    left = starts[1:] - starts[:-1]
    begin = np.zeros(count + 2, np.int64)
    for event in predecessors:
        begin[event + 2] += 1
    begin = np.cumsum(begin)
    followers = np.empty(len(predecessors), np.int64)
    for event in range(count):
        for k in range(starts[event], starts[event + 1]):
            followers[begin[predecessors[k] + 1]] = event
            begin[predecessors[k] + 1] += 1
    ready = [event for event in range(count) if left[event] == 0]
    done = 0
    while len(ready) > 0:
        event = ready.pop()
        done += 1
        for k in range(begin[event], begin[event + 1]):
            other = followers[k]
            before[other] |= before[event]
            before[other, event // 64] |= np.uint64(1) << np.uint64(event % 64)
            left[other] -= 1
            if left[other] == 0:
                ready.append(other)
    return done == count, before


@kernel
def _without_each(
    starts: Ints,
    predecessors: Ints,
    add_starts: Ints,
    adds: Ints,
    need_starts: Ints,
    needs: Ints,
    semaphores: int,
) -> tuple[bool, Bits]:
    """Whether all events can happen, and for each a bit set of those that it needs."""
    count = len(starts) - 1
    before = np.zeros((count, (count + 63) // 64), np.uint64)
    value = np.empty(semaphores, np.int64)
    over = np.empty(count, np.bool_)
    order = np.arange(count)  # of the first trial: an order in which all can happen
    waiting = np.empty(count, np.int64)
    for blocked in range(-1, count):
        value[:] = 0
        over[:] = False
        left = 0
        for event in order:
            if event != blocked:
                waiting[left] = event
                left += 1
        happened = 0
        moved = True
        while moved:
            still = 0
            for at in range(left):
                event = waiting[at]
                possible = True
                for k in range(starts[event], starts[event + 1]):
                    possible &= over[predecessors[k]]
                for k in range(need_starts[event], need_starts[event + 1], 2):
                    possible &= value[needs[k]] >= needs[k + 1]
                if not possible:
                    waiting[still] = event
                    still += 1
                    continue
                over[event] = True
                if blocked < 0:
                    order[happened] = event
                    happened += 1
                for k in range(add_starts[event], add_starts[event + 1], 2):
                    value[adds[k]] += adds[k + 1]
            moved = still < left
            left = still
        if blocked < 0:
            if left:
                return False, before
            continue
        for at in range(left):
            before[waiting[at], blocked // 64] |= np.uint64(1) << np.uint64(blocked % 64)
    return True, before


@kernel
def _open(starts: Ints, touching: Ints, start: Ints, end: Ints, before: Bits) -> Ints:
    """The pairs of steps that are unordered: of each byte those that touch it, `2 * step`, one more for a write."""
    room, count = 16, 0
    found = np.empty((room, 2), np.int64)
    for byte in range(len(starts) - 1):
        for i in range(starts[byte], starts[byte + 1]):
            a, a_writes = touching[i] // 2, touching[i] % 2
            one = end[a] if a_writes else start[a]
            for j in range(i + 1, starts[byte + 1]):
                b, b_writes = touching[j] // 2, touching[j] % 2
                if a == b or not (a_writes or b_writes):
                    continue
                other = end[b] if b_writes else start[b]
                forth = before[other, one // 64] >> np.uint64(one % 64)
                back = before[one, other // 64] >> np.uint64(other % 64)
                if (forth | back) & np.uint64(1) == 0:
                    if count == room:
                        room *= 2
                        more = np.empty((room, 2), np.int64)
                        more[:count] = found
                        found = more
                    found[count, 0], found[count, 1] = a, b
                    count += 1
    return found[:count]
