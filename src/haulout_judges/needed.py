"""Which operations a wait for a semaphore needs: those without which it never happens.

A semaphore that one queue signals is simple: the signal that reaches the value is always the same. Where several
queues signal it, a wait sees other signals in each run. What is possible stays possible, so an operation comes before
a wait in every run exactly if the wait cannot happen when that operation never does. That is tried: signals first,
and where these do not suffice for the value, because a wait has a choice among them, all operations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import accumulate

from haulout.ir.enums import NONE
from haulout_judges.queues import OpKind, Queues
from haulout_judges.straight import Semaphore

MAX_TRIALS = 3_000_000
"""Operations that may be executed to try what is needed."""


def semaphores_to_waits(made: Queues) -> bool:
    """Give each operation the waits that its `needs` come to. False if that takes too many trials."""
    signals: dict[Semaphore, list[tuple[int, int]]] = defaultdict(list)
    for queue in made.queues:
        for number in queue:
            for semaphore, value in made.ops[number].signals:
                signals[semaphore].append((number, value))
    several = {
        semaphore for semaphore, each in signals.items() if len({made.ops[number].queue for number, _ in each}) > 1
    }
    found: list[tuple[int, list[int]]] = []
    waiting: list[int] = []
    for at, op in enumerate(made.ops):
        for semaphore, value in op.needs:
            if semaphore in several:
                waiting.append(at)
                continue
            reached = accumulate(added for _, added in signals[semaphore])
            enough = (number for (number, _), sum_ in zip(signals[semaphore], reached, strict=True) if sum_ >= value)
            found.append((at, [next(enough, NONE)]))
    if waiting:
        needed = _needed(made, list(dict.fromkeys(waiting)), {each: signals[each] for each in several})
        if needed is None:
            return False
        found += needed.items()
    for at, waits in found:
        made.ops[at].waits = [*made.ops[at].waits, *waits]
    return True


def _needed(
    made: Queues, waiting: list[int], signals: dict[Semaphore, list[tuple[int, int]]]
) -> dict[int, list[int]] | None:
    """Of each operation that waits for a semaphore of several queues: what it needs; NONE: it never happens."""
    everything = happens(made)
    needed: dict[int, list[int]] = {at: [] if everything[at] else [NONE] for at in waiting}
    trials = 0

    def try_without(candidates: Iterable[int], waits: list[int]) -> bool:
        nonlocal trials
        for each in candidates:
            trials += len(made.ops)
            if trials > MAX_TRIALS:
                return False
            without = happens(made, each)
            for at in waits:
                if not without[at] and each != at:
                    needed[at].append(each)
        return True

    signalling = sorted({number for each in signals.values() for number, _ in each})
    left = [at for at in waiting if everything[at]]
    if not try_without(signalling, left):
        return None
    choosing = []
    for at in left:
        certain = set(needed[at])
        for semaphore, value in made.ops[at].needs:
            if semaphore in signals and value > sum(
                added for number, added in signals[semaphore] if number in certain
            ):
                choosing.append(at)
                break
    others = [number for number in range(len(made.ops)) if number not in set(signalling)]
    return needed if not choosing or try_without(others, choosing) else None


def happens(made: Queues, never: int = NONE) -> list[bool]:
    """Of each operation: whether it can happen in a run in which one of them never does."""
    done, arrived = [False] * len(made.ops), [False] * len(made.ops)
    at = [0] * len(made.queues)
    met: Counter[int] = Counter()
    value: Counter[Semaphore] = Counter()

    def may_happen(number: int) -> bool:
        op = made.ops[number]
        if not arrived[number]:
            if number == never or not all(each != NONE and done[each] for each in op.waits):
                return False
            if any(value[semaphore] < least for semaphore, least in op.needs):
                return False
            arrived[number] = True
            met[op.rendezvous] += 1
        return op.kind is not OpKind.ATTEND or met[op.rendezvous] == made.wanted[op.rendezvous]

    moved = True
    while moved:
        moved = False
        for number, queue in enumerate(made.queues):
            while at[number] < len(queue):
                op = queue[at[number]]
                was_there = arrived[op]
                if not may_happen(op):
                    moved |= arrived[op] and not was_there
                    break
                done[op] = moved = True
                for semaphore, added in made.ops[op].signals:
                    value[semaphore] += added
                at[number] += 1
    return done
