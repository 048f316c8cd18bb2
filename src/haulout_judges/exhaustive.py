"""Judge by exploration: every state that a run can reach.

A state is the set of operations that are over. In a state, any operation that can happen may happen next. Two
conflicting operations that can both happen in one state race: either may be first. A state in which nothing can
happen, before all operations are over, is a hang.

What has become possible stays possible until it happens, whatever else happens. So the operations without a conflict
with any later operation may be taken at once, all of them, and no other choice needs to be explored. That, and
remembering states, keeps small programs small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from haulout.ir.program import Program
from haulout_judges.kernels import Bits, Ints, kernel
from haulout_judges.operations import operations
from haulout_judges.queues import Queues, queue_programs
from haulout_judges.straight import Step, runs
from haulout_judges.verdict import Outcome, Verdict, hang, joined, of_pairs, unjudged
from haulout_judges.walks import NotStraightError

MAX_STATES = 20_000
_ALL, _STUCK, _TOO_MANY = range(3)


def judge(program: Program) -> Verdict:
    """The verdict on all runs."""
    try:
        return of_queues(queue_programs(steps) for steps in runs(program))
    except NotStraightError as error:
        return unjudged(str(error))


def of_queues(made: Iterable[Queues]) -> Verdict:
    """The verdict on runs that are written out already."""
    verdicts = []
    for each in made:
        verdicts.append(_of_run(each))
        if verdicts[-1].outcome is Outcome.UNJUDGED:
            break
    return joined(verdicts)


def judge_run(steps: Sequence[Step]) -> Verdict:
    """The verdict on one run."""
    return _of_run(queue_programs(steps))


def has_states(made: Queues, most: int) -> bool:
    """True if at most so many states are reached by every order of operations that ever conflict."""
    return _exploration(made, most, False)[0] != _TOO_MANY


def _exploration(made: Queues, most: int, sparing: bool) -> tuple[int, Bits]:
    columns = operations(made)
    rivals = _rivals(
        columns.queue, columns.read_starts, columns.reads, columns.write_starts, columns.writes, int(columns.sizes[1])
    )
    return _explore(*columns[:11], int(columns.sizes[0]), rivals, most, sparing)


def _of_run(made: Queues) -> Verdict:
    end, races = _exploration(made, MAX_STATES, True)
    if end == _STUCK:
        return hang("nothing can happen any more")
    pairs = frozenset(made.ops[a].pair(made.ops[b]) for a, b in _members(races))
    if end == _TOO_MANY:
        # A race that was found is one; the others are not known.
        return Verdict(Outcome.RACE) if pairs else unjudged(f"more than {MAX_STATES} states")
    return of_pairs(pairs)


def _members(races: Bits) -> Iterable[tuple[int, int]]:
    for a, word in zip(*np.nonzero(races), strict=True):
        bits = int(races[a, word])
        yield from ((int(a), int(word) * 64 + bit) for bit in range(64) if bits >> bit & 1)


@kernel
def _rivals(queue: Ints, read_starts: Ints, reads: Ints, write_starts: Ints, writes: Ints, size: int) -> Bits:
    """For each operation, a bit set of those of other queues that touch a common byte, one of both writing."""
    count = len(queue)
    words = (count + 63) // 64
    users, writers = np.zeros((size, words), np.uint64), np.zeros((size, words), np.uint64)
    own = np.zeros((queue.max() + 1 if count else 0, words), np.uint64)
    one = np.uint64(1)
    for op in range(count):
        word, bit = op // 64, one << np.uint64(op % 64)
        own[queue[op], word] |= bit
        for k in range(read_starts[op], read_starts[op + 1]):
            users[reads[k], word] |= bit
        for k in range(write_starts[op], write_starts[op + 1]):
            users[writes[k], word] |= bit
            writers[writes[k], word] |= bit
    found = np.zeros((count, words), np.uint64)
    for op in range(count):
        for word in range(words):
            touching = np.uint64(0)
            for k in range(read_starts[op], read_starts[op + 1]):
                touching |= writers[reads[k], word]
            for k in range(write_starts[op], write_starts[op + 1]):
                touching |= users[writes[k], word]
            found[op, word] = touching & ~own[queue[op], word]
    return found


@kernel
def _explore(
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
    semaphores: int,
    rivals: Bits,
    most: int,
    sparing: bool,
) -> tuple[int, Bits]:
    """How the exploration ended, and for each operation a bit set of those that race with it.

    What has no conflict is taken at once; if `sparing`, also what has none with a later operation.
    """
    count, queues = len(queue), len(queue_starts) - 1
    words = (count + 63) // 64
    one = np.uint64(1)
    races = np.zeros((count, words), np.uint64)
    # States are rows; a table finds the row of a state.
    room = 64
    overs, places = np.zeros((room, words), np.uint64), np.zeros((room, queues), np.int32)
    table = np.full(4 * room, -1, np.int32)
    for each in range(queues):
        places[0, each] = queue_starts[each]
    table[0] = 0  # the hash of the empty set
    states = 1
    stack = [0]
    value = np.zeros(semaphores, np.int64)
    gathered = np.zeros(len(wanted), np.int64)
    heads = np.empty(queues, np.int64)
    chosen = np.empty(queues, np.int64)
    among, over = np.empty(words, np.uint64), np.empty(words, np.uint64)
    while len(stack) > 0:
        state = stack.pop()
        over[:] = overs[state]
        value[:] = 0
        if semaphores > 0:
            for op in range(count):
                if over[op // 64] >> np.uint64(op % 64) & one:
                    for k in range(signal_starts[op], signal_starts[op + 1], 2):
                        value[signals[k]] += signals[k + 1]
        # What can happen: single operations, and all operations of a rendezvous together.
        gathered[:] = 0
        possible = 0
        for each in range(queues):
            if places[state, each] == queue_starts[each + 1]:
                continue
            op = queue_ops[places[state, each]]
            ready = True
            for k in range(wait_starts[op], wait_starts[op + 1]):
                ready = ready and waits[k] >= 0 and over[waits[k] // 64] >> np.uint64(waits[k] % 64) & one != 0
            for k in range(need_starts[op], need_starts[op + 1], 2):
                ready = ready and value[needs[k]] >= needs[k + 1]
            if ready:
                heads[possible] = op
                possible += 1
                if attends[op] >= 0:
                    gathered[attends[op]] += 1
        complete, single = 0, 0
        for k in range(possible):
            meeting = attends[heads[k]]
            if meeting >= 0 and gathered[meeting] == wanted[meeting]:
                chosen[complete] = heads[k]
                complete += 1
        together = complete > 0
        if not together:
            among[:] = 0
            for k in range(possible):
                if attends[heads[k]] < 0:
                    heads[single] = heads[k]
                    among[heads[k] // 64] |= one << np.uint64(heads[k] % 64)
                    single += 1
            if single == 0:
                for each in range(queues):
                    if places[state, each] != queue_starts[each + 1]:
                        return _STUCK, races
                continue
            quiet = 0
            for k in range(single):
                op, later = heads[k], False
                for word in range(words):
                    races[op, word] |= rivals[op, word] & among[word]
                    later |= rivals[op, word] & (~over[word] if sparing else ~np.uint64(0)) != 0
                if not later:
                    chosen[quiet] = op
                    quiet += 1
            together = quiet > 0
            complete = quiet
        for k in range(1 if together else single):
            # The following state: all of `chosen` are over too, or one of `heads`.
            if states == room:
                room *= 2
                more, further = np.zeros((room, words), np.uint64), np.zeros((room, queues), np.int32)
                more[:states] = overs
                further[:states] = places
                overs, places = more, further
                table = np.full(4 * room, -1, np.int32)
                for row in range(states):
                    slot = _hash(overs[row]) % len(table)
                    while table[slot] >= 0:
                        slot = (slot + 1) % len(table)
                    table[slot] = row
            overs[states] = over
            places[states] = places[state]
            for n in range(complete if together else 1):
                op = chosen[n] if together else heads[k]
                overs[states, op // 64] |= one << np.uint64(op % 64)
                places[states, queue[op]] += 1
            slot = _hash(overs[states]) % len(table)
            while table[slot] >= 0:
                if (overs[table[slot]] == overs[states]).all():
                    break
                slot = (slot + 1) % len(table)
            if table[slot] < 0:
                table[slot] = states
                stack.append(states)
                states += 1
                if states > most:
                    return _TOO_MANY, races
    return _ALL, races


@kernel
def _hash(words: Bits) -> np.int64:
    mixed = np.uint64(0)
    for word in words:
        mixed = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed >> np.uint64(2))
