"""The queues of a run as arrays: the input of the kernels that execute operations."""

from __future__ import annotations

from typing import NamedTuple

from haulout_judges.kernels import Ints, column, lists
from haulout_judges.queues import Queues
from haulout_judges.straight import Semaphore


class Operations(NamedTuple):
    """Columns of `Queues`. `x_starts` and `x` are a list for each operation, queue or semaphore."""

    queue_starts: Ints
    queue_ops: Ints
    queue: Ints
    attends: Ints
    """The rendezvous of an `ATTEND`; else NONE."""
    wanted: Ints
    wait_starts: Ints
    waits: Ints
    need_starts: Ints
    needs: Ints
    """Semaphore and value in turn."""
    signal_starts: Ints
    signals: Ints
    """Semaphore and value in turn."""
    read_starts: Ints
    reads: Ints
    write_starts: Ints
    writes: Ints
    sizes: Ints
    """The numbers of semaphores and of bytes."""


def operations(made: Queues) -> Operations:
    """The columns of the queues of a run."""
    numbers: dict[Semaphore, int] = {}
    ops = made.ops

    def flat(pairs: tuple[tuple[Semaphore, int], ...]) -> list[int]:
        return [each for semaphore, value in pairs for each in (numbers.setdefault(semaphore, len(numbers)), value)]

    needs = lists([flat(op.needs) if op.needs else () for op in ops])
    signals = lists([flat(op.signals) if op.signals else () for op in ops])
    reads, writes = lists([tuple(op.reads) for op in ops]), lists([tuple(op.writes) for op in ops])
    size = 1 + max(reads[1].max(initial=-1), writes[1].max(initial=-1))
    return Operations(
        *lists(made.queues),
        column(op.queue for op in ops),
        column(op.rendezvous for op in ops),
        column(made.wanted),
        *lists([op.waits for op in ops]),
        *needs,
        *signals,
        *reads,
        *writes,
        column((len(numbers), int(size))),
    )
