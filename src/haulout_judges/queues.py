"""A straight run as programs of its queues: what the judges that execute things execute.

    DO         a step, at one moment: it reads and writes
    MEET       stand at a barrier until all have come
    ARRIVE     the first half of a `sendrecv`: it reads its source, its peers may go on
    COMPLETE   the second half, when the peers have arrived: it writes its destination

A barrier on `all` stands in every queue of its core: the queues of all participants meet. A barrier on one engine
stands in that queue alone. Barriers of equal place but different names are different meetings, for which nobody else
comes.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from haulout.ir.enums import NONE, Engine
from haulout_judges.straight import Barrier, Semaphore, Step, is_fence


class Does(enum.IntEnum):
    """What an operation of a queue does."""

    DO = 0
    MEET = 1
    ARRIVE = 2
    COMPLETE = 3


@dataclass(slots=True)
class Op:
    """One operation of one queue."""

    does: Does
    row: int
    """Of the step's instruction (`Step.row`)."""
    queue: int
    waits: list[int]
    """Operations that must be over; NONE: what never comes."""
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    meeting: int = NONE
    signals: tuple[tuple[Semaphore, int], ...] = ()
    """Added to semaphores when it is over."""
    needs: tuple[tuple[Semaphore, int], ...] = ()
    """What semaphores must have reached before it may happen."""

    def conflicts(self, other: Op) -> bool:
        """Whether they touch a common byte, one writing, as different instructions."""
        if self.row == other.row and self.queue == other.queue:
            return False
        return not (
            self.writes.isdisjoint(other.writes)
            and self.writes.isdisjoint(other.reads)
            and self.reads.isdisjoint(other.writes)
        )

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
    """How many operations make up each meeting."""


def queue_programs(steps: Sequence[Step]) -> Queues:
    """The queues of a run."""
    made = Queues()
    queue_of = _number_queues(steps, made)
    of_core: dict[int, list[int]] = {}
    for (core, _), queue in queue_of.items():
        of_core.setdefault(core, []).append(queue)
    meetings: dict[object, list[tuple[Barrier, int]]] = defaultdict(list)
    over: list[int] = []  # of each step: the operation that ends it
    arrivals: dict[tuple[str, object], int] = {}
    completions: list[tuple[int, Step]] = []

    def meeting_of(barrier: Barrier) -> int:
        """Whom a barrier meets; barriers of other names meet apart."""
        for other, number in meetings[barrier.key]:
            if barrier.agrees(other):
                return number
        made.wanted.append(_comers(barrier, of_core))
        meetings[barrier.key].append((barrier, len(made.wanted) - 1))
        return len(made.wanted) - 1

    def add(op: Op) -> int:
        made.ops.append(op)
        made.queues[op.queue].append(len(made.ops) - 1)
        return len(made.ops) - 1

    for step in steps:
        waits = [over[at] for at in step.waits]
        if step.barrier is not None:
            meeting = meeting_of(step.barrier)
            if step.core not in step.barrier.cores:
                made.wanted[meeting] = NONE  # an outsider: nobody knows who is meant
            places = of_core[step.core] if is_fence(step) else [queue_of[step.core, step.engine]]
            mine = [add(Op(Does.MEET, step.row, place, waits, meeting=meeting, needs=step.needs)) for place in places]
            made.ops[mine[-1]].signals = step.signals
            over.append(mine[-1])
            continue
        queue = queue_of[step.core, step.engine]
        if step.sends is None and step.receives is None:
            over.append(
                add(
                    Op(
                        Does.DO,
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
        arrival = add(Op(Does.ARRIVE, step.row, queue, waits, reads=step.reads, needs=step.needs))
        if step.sends is not None:
            arrivals["to", step.sends] = arrival
        if step.receives is not None:
            arrivals["from", step.receives] = arrival
        over.append(add(Op(Does.COMPLETE, step.row, queue, [], writes=step.writes, signals=step.signals)))
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
    lonely = [core for core in cores if not any(each == core for each, _ in found)]
    keys = [*found, *((core, NONE) for core in lonely)]
    made.queues = [[] for _ in keys]
    return {key: queue for queue, key in enumerate(keys)}


def _comers(barrier: Barrier, of_core: dict[int, list[int]]) -> int:
    """How many operations a barrier waits for; NONE when a participant has nothing that could come."""
    if barrier.engine != Engine.ALL:
        return len(barrier.cores)
    counts = [len(of_core.get(core, [])) for core in barrier.cores]
    return NONE if 0 in counts else sum(counts)
