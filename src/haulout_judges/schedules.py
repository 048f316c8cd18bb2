"""Judge by schedules: the run in list order, then once with each queue as the slowest, compared byte by byte.

The slowest queue advances only when no other can. So before its next operation happens, everything has happened that
can happen without it: each operation of another queue that is unordered with it is executed before it in this
schedule, and after it in the one where the other queue is the slowest. Every access notes the operation that wrote
its byte last. Two conflicting accesses are unordered exactly if some note differs from that of the list order.
Semaphores never fall, so what can happen stays possible, with them too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from haulout.ir.program import Program
from haulout_judges.kernels import Ints, kernel
from haulout_judges.operations import Operations, operations
from haulout_judges.queues import Queues, queue_programs
from haulout_judges.straight import runs
from haulout_judges.verdict import Outcome, Verdict, hang, joined, unjudged
from haulout_judges.walks import NotStraightError

_SAME, _DIFFERENT, _STUCK = range(3)


def judge(program: Program) -> Verdict:
    """The verdict on all runs."""
    try:
        return of_queues(queue_programs(steps) for steps in runs(program))
    except NotStraightError as error:
        return unjudged(str(error))


def of_queues(made: Iterable[Queues]) -> Verdict:
    """The verdict on runs that are written out already."""
    return joined([_of_run(operations(each)) for each in made])


def _of_run(columns: Operations) -> Verdict:
    found = _compare(*columns)
    if found == _STUCK:
        return hang("nothing can happen any more")
    return Verdict(Outcome.RACE if found == _DIFFERENT else Outcome.CLEAN)


@kernel
def _compare(
    queue_starts: Ints,
    queue_ops: Ints,
    queue: Ints,
    attends: Ints,
    wanted: Ints,
    wait_starts: Ints,
    waits: Ints,
    need_starts: Ints,
    needs: Ints,
    signal_starts: Ints,
    signals: Ints,
    read_starts: Ints,
    reads: Ints,
    write_starts: Ints,
    writes: Ints,
    sizes: Ints,
) -> int:
    """Whether all schedules give the same notes; `_STUCK` if the run does not end."""
    count, queues = len(queue), len(queue_starts) - 1
    expected = np.empty(len(reads) + len(writes), np.int64)
    noted = np.empty(len(reads) + len(writes), np.int64)
    writer = np.empty(sizes[1], np.int64)
    value = np.empty(sizes[0], np.int64)
    met = np.empty(len(wanted), np.int64)
    at = np.empty(queues, np.int64)
    arrived = np.empty(count, np.bool_)
    over = np.empty(count, np.bool_)
    for slowest in range(-1, queues):
        notes = expected if slowest < 0 else noted
        writer[:] = -1
        value[:] = 0
        met[:] = 0
        arrived[:] = False
        over[:] = False
        for each in range(queues):
            at[each] = queue_starts[each]
        done = 0
        turn = 0
        idle = 0  # queues in a row that could not advance
        while idle <= queues:
            # The turns of all other queues, round and round, until none of them can advance; then one of the slowest.
            alone = idle == queues
            if alone and slowest < 0:
                break
            each = slowest if alone else turn % queues
            turn += 1
            if (each == slowest and not alone) or at[each] == queue_starts[each + 1]:
                idle += 1
                continue
            op = queue_ops[at[each]]
            if not arrived[op]:
                possible = True
                for k in range(wait_starts[op], wait_starts[op + 1]):
                    possible &= waits[k] >= 0 and over[waits[k]]
                for k in range(need_starts[op], need_starts[op + 1], 2):
                    possible &= value[needs[k]] >= needs[k + 1]
                if not possible:
                    idle += 1
                    continue
                arrived[op] = True
                if attends[op] >= 0:
                    met[attends[op]] += 1
                    idle = 0
                    continue
            if attends[op] >= 0 and met[attends[op]] != wanted[attends[op]]:
                idle += 1
                continue
            for k in range(read_starts[op], read_starts[op + 1]):
                notes[k] = writer[reads[k]]
            for k in range(write_starts[op], write_starts[op + 1]):
                notes[len(reads) + k] = writer[writes[k]]
                writer[writes[k]] = op
            for k in range(signal_starts[op], signal_starts[op + 1], 2):
                value[signals[k]] += signals[k + 1]
            over[op] = True
            at[each] += 1
            done += 1
            idle = 0
        if done < count:
            return _STUCK
        if slowest >= 0 and (noted != expected).any():
            return _DIFFERENT
    return _SAME
