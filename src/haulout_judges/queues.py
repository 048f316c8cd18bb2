"""A straight run as programs of its queues: the input of the judges that execute.

    DO         a step, at one moment: it reads and writes
    ATTEND     wait at a barrier until all participants have arrived
    ARRIVE     the first half of a `sendrecv`: it reads its source, its peers may go on
    COMPLETE   the second half, when the peers have arrived: it writes its destination

A barrier on `all` is in every queue of its core: it waits for the queues of all participants. A barrier on one engine
is in that queue only. Barriers of equal position but different names are different rendezvous, which never complete.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from haulout.ir.enums import NONE, Engine
from haulout_judges.straight import Barrier, Semaphore, Step, is_fence


class OpKind(enum.IntEnum):
    """The kinds of operations of a queue."""

    DO = 0
    ATTEND = 1
    ARRIVE = 2
    COMPLETE = 3


@dataclass(slots=True)
class Op:
    """One operation of one queue."""

    kind: OpKind
    row: int
    """Of the step's instruction (`Step.row`)."""
    queue: int
    waits: list[int]
    """Operations that must be over; NONE: one that never happens."""
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    rendezvous: int = NONE
    """Of an `ATTEND`."""
    signals: tuple[tuple[Semaphore, int], ...] = ()
    """Added to semaphores when it is over."""
    needs: tuple[tuple[Semaphore, int], ...] = ()
    """The counts of semaphores before it may happen."""

    def pair(self, other: Op) -> tuple[int, int]:
        """Their rows, as verdicts name pairs."""
        return min(self.row, other.row), max(self.row, other.row)


@dataclass(slots=True)
class Queues:
    """All queues of a run."""

    ops: list[Op] = field(default_factory=list)
    queues: list[list[int]] = field(default_factory=list)
    """Operations of each queue, in order."""
    wanted: list[int] = field(default_factory=list)
    """The number of operations of each rendezvous."""

    def rivals(self) -> list[int]:
        """For each operation a bit set of those of other queues that touch a common byte, one of both writing."""
        users: dict[int, int] = defaultdict(int)
        writers: dict[int, int] = defaultdict(int)
        for number, op in enumerate(self.ops):
            for byte in op.reads | op.writes:
                users[byte] |= 1 << number
            for byte in op.writes:
                writers[byte] |= 1 << number
        mine = [mask_of(queue) for queue in self.queues]
        found = []
        for op in self.ops:
            touching = [*(users[byte] for byte in op.writes), *(writers[byte] for byte in op.reads)]
            found.append(reduce(or_, touching, 0) & ~mine[op.queue])
        return found


def queue_programs(steps: Sequence[Step]) -> Queues:
    """The queues of a run."""
    made = Queues()
    queue_of = _number_queues(steps, made)
    of_core: dict[int, list[int]] = {}
    for (core, _), queue in queue_of.items():
        of_core.setdefault(core, []).append(queue)
    rendezvous_by_key: dict[object, list[tuple[Barrier, int]]] = defaultdict(list)
    over: list[int] = []  # of each step: the operation that ends it
    arrivals: dict[tuple[str, object], int] = {}
    completions: list[tuple[int, Step]] = []

    def rendezvous_of(barrier: Barrier) -> int:
        """The rendezvous of a barrier; barriers of other names have another one."""
        for other, number in rendezvous_by_key[barrier.key]:
            if barrier.agrees(other):
                return number
        made.wanted.append(_participants(barrier, of_core))
        rendezvous_by_key[barrier.key].append((barrier, len(made.wanted) - 1))
        return len(made.wanted) - 1

    def add(op: Op) -> int:
        made.ops.append(op)
        made.queues[op.queue].append(len(made.ops) - 1)
        return len(made.ops) - 1

    for step in steps:
        waits = [over[at] for at in step.waits]
        if step.barrier is not None:
            rendezvous = rendezvous_of(step.barrier)
            if step.core not in step.barrier.cores:
                made.wanted[rendezvous] = NONE  # on a core that is not a participant
            places = of_core[step.core] if is_fence(step) else [queue_of[step.core, step.engine]]
            mine = [
                add(Op(OpKind.ATTEND, step.row, place, waits, rendezvous=rendezvous, needs=step.needs))
                for place in places
            ]
            made.ops[mine[-1]].signals = step.signals
            over.append(mine[-1])
            continue
        queue = queue_of[step.core, step.engine]
        if step.sends is None and step.receives is None:
            over.append(
                add(
                    Op(
                        OpKind.DO,
                        step.row,
                        queue,
                        waits,
                        step.reads,
                        step.writes,
                        signals=step.signals,
                        needs=step.needs,
                    )
                )
            )
            continue
        arrival = add(Op(OpKind.ARRIVE, step.row, queue, waits, reads=step.reads, needs=step.needs))
        if step.sends is not None:
            arrivals["to", step.sends] = arrival
        if step.receives is not None:
            arrivals["from", step.receives] = arrival
        over.append(add(Op(OpKind.COMPLETE, step.row, queue, [], writes=step.writes, signals=step.signals)))
        completions.append((over[-1], step))
    for op, step in completions:
        if step.sends is not None:
            made.ops[op].waits.append(arrivals.get(("from", step.sends), NONE))
        if step.receives is not None:
            made.ops[op].waits.append(arrivals.get(("to", step.receives), NONE))
    return made


def _number_queues(steps: Sequence[Step], made: Queues) -> dict[tuple[int, int], int]:
    """(core, engine) -> queue; a core that has only fences gets one queue for them."""
    cores = dict.fromkeys(step.core for step in steps)
    found = dict.fromkeys((step.core, step.engine) for step in steps if not is_fence(step))
    fences_only = [core for core in cores if not any(each == core for each, _ in found)]
    keys = [*found, *((core, NONE) for core in fences_only)]
    made.queues = [[] for _ in keys]
    return {key: queue for queue, key in enumerate(keys)}


def _participants(barrier: Barrier, of_core: dict[int, list[int]]) -> int:
    """How many operations a barrier waits for; NONE when a participant has no queue."""
    if barrier.engine != Engine.ALL:
        return len(barrier.cores)
    counts = [len(of_core.get(core, [])) for core in barrier.cores]
    return NONE if 0 in counts else sum(counts)


def mask_of(numbers: Iterable[int]) -> int:
    """The bit set of some numbers."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
