"""What semaphores order: behind what a wait is, on every schedule.

What can start stays able to start, since counts never fall. So doing whatever can be done comes as far as any
schedule does, and one such schedule tells whether all waits are ever satisfied. A wait for a count v is behind an
event x when the signals that can be made without x add up to less than v. Two cases:

1. All signals of the semaphore stand on one queue. It is in order, so the wait is behind the signal that brings the
   sum to v, and that is all there is to say. One binary search.
2. Otherwise every node has a *clock*: for each queue of any core the last instruction that is complete when the node
   is (and one more entry for the arrivals of each queue with a `sendrecv`). Of a queue's events, a wait is behind
   those up to the smallest t for which the signals whose clock there is at most t add up to v: the maximum of the
   clocks when all signals are needed, the minimum when any will do.

Clocks and waits depend on each other. Of all clocks that explain one another those that say most are the true ones
(nothing is behind x before something shows it can be without x), so the search begins above: first each wait is
behind all signals that the schedule needed to satisfy it. Then the smallest t of all signals is taken, and clocks are
computed again, until nothing falls. Signals that follow one another, and barriers made of semaphores, are right the
first time; the second only confirms it. Where signals race, each round uncovers one more way round. After
`MOST_ROUNDS`, or where the clocks would not fit, a semaphore's waits are only taken to be behind the signals without
which the others cannot reach the count: less order than there is, never more.

The order found becomes plain edges, from the last events that a wait is behind and that nothing else says already.
So all the rest of the checker need not know of counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.columns import sorted_by
from haulout.checker.order.schedule import schedule_without
from haulout.checker.order.semaphores import Counts
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.support.jit import njit

MOST_ROUNDS = 32
MOST_CELLS = 1 << 27
"""Entries of all clocks."""
INFINITE = np.iinfo(np.int32).max


class Fused(NamedTuple):
    """The fused graph without semaphores."""

    enter: Ids
    leave: Ids
    queue: Ids
    """Of each instruction."""
    arrivals: Ids
    """Instructions that arrive before they are complete (`sendrecv`)."""
    source: Ids
    target: Ids
    """Edges between nodes."""
    starts: Ints
    successors: Ids
    """The same as adjacency lists."""


class Counting(NamedTuple):
    """What counts do to a fused graph."""

    schedule: Ids
    """Nodes in an order in which they can run; not all of them when there is a deadlock."""
    reached: Ints
    """Of each semaphore, the count that it comes to."""
    producer: Ids
    """Edges: this instruction ..."""
    arrival: Bools
    """... when it arrives (otherwise: is complete) ..."""
    instruction: Ids
    """... comes before that one starts."""
    weak: bool = False
    """Some waits were only taken to be behind the signals that they need one by one: there may be more order."""


def find_counting(fused: Fused, counts: Counts) -> Counting:
    """A schedule, and the order of the waits as edges; no edges when there is a deadlock."""
    nothing = np.zeros(0, np.int32)
    schedule, reached = schedule_without(fused.enter, fused.leave, fused.starts, fused.successors, counts, nothing)
    if len(schedule) < len(fused.starts) - 1:
        return Counting(schedule, reached, nothing, np.zeros(0, bool), nothing)
    one_queue = _on_one_queue(counts, fused.queue)[counts.wait_for]
    producer, instruction = _last_needed(counts, np.flatnonzero(one_queue))
    arrival = np.zeros(len(producer), bool)
    hard = np.flatnonzero(~one_queue)
    weak = False
    if len(hard):
        joint = _joint(fused, counts, schedule, (producer, instruction), hard)
        producer, instruction = np.append(producer, joint[0]), np.append(instruction, joint[1])
        arrival, weak = np.append(arrival, joint[2]), joint[3]
    return Counting(schedule, reached, producer, arrival, instruction, weak)


# -- one queue -------------------------------------------------------------------------------------------------------


def _on_one_queue(counts: Counts, queue: Ids) -> Bools:
    """Of each semaphore: its signals stand on one queue."""
    size = len(counts.names)
    low, high = np.full(size, INFINITE, np.int64), np.full(size, -1, np.int64)
    np.minimum.at(low, counts.signal_to, queue[counts.signal])
    np.maximum.at(high, counts.signal_to, queue[counts.signal])
    alone: Bools = low >= high
    return alone


def _last_needed(counts: Counts, waits: Ints) -> tuple[Ids, Ids]:
    """Of waits whose signals are in list order: (the signal that brings the count there, the one that waits)."""
    order = sorted_by(np.arange(len(counts.signal)), counts.signal_to)
    sums = np.cumsum(counts.amount[order])
    first = np.searchsorted(counts.signal_to[order], counts.wait_for[waits])
    wanted = np.append(0, sums)[first] + counts.value[waits]
    return counts.signal[order][np.searchsorted(sums, wanted)], counts.wait[waits]


# -- several queues --------------------------------------------------------------------------------------------------


class _Signals(NamedTuple):
    """The signals of all semaphores, semaphore by semaphore in the order of the schedule."""

    starts: Ints
    """Semaphore -> its rows."""
    node: Ids
    amount: Ints
    open_until: Ids
    """`Counts.open_until`."""
    first: Bools
    """It is the first of its semaphore."""
    of_node_starts: Ints
    of_node: Ints
    """Node v makes the signals `of_node[of_node_starts[v]:of_node_starts[v + 1]]`."""


class _Waits(NamedTuple):
    """Waits for semaphores that several queues signal, node by node."""

    starts: Ints
    """Node -> its rows."""
    instruction: Ids
    semaphore: Ids
    value: Ints
    place: Ids
    """`Counts.place`."""
    last: Ints
    """The row of the signal that brought the count there in the schedule."""


class _Marks(NamedTuple):
    """What clocks count, node by node: node v is where `instruction[k]` is complete, or arrives, for k in
    `starts[v]:starts[v + 1]`.
    """

    starts: Ints
    node: Ids
    entry: Ids
    """Of clocks: the queue, and behind those the arrivals of a queue."""
    instruction: Ids
    completion: Ids
    arrival: Ids
    """Instruction -> its row; for arrivals NONE, where it does not arrive apart."""
    queues: int
    entries: int


def _joint(
    fused: Fused, counts: Counts, schedule: Ids, simple: tuple[Ids, Ids], hard: Ints
) -> tuple[Ids, Ids, Bools, bool]:
    """(producer, instruction, arrival) of the waits `hard`, and whether some are weak; `simple` are the edges of all
    others.
    """
    nodes = len(schedule)
    signals, marks = _signals(fused, counts, schedule), _marks(fused, nodes)
    waits = _waits(fused, counts, signals, hard, nodes)
    source = np.concatenate([fused.source, fused.leave[simple[0]]])
    target = np.concatenate([fused.target, fused.enter[simple[1]]])
    weak = np.full(len(counts.names), nodes * marks.entries > MOST_CELLS)
    while True:
        # The waits of a weak semaphore are behind some of its signals, for certain, and are done with.
        alone = _needed_alone(fused, counts, waits, weak[waits.semaphore])
        if weak[waits.semaphore].all():
            return *alone, np.zeros(len(alone[0]), bool), True
        begin, before = _predecessors(
            np.concatenate([source, fused.leave[alone[0]]]), np.concatenate([target, fused.enter[alone[1]]]), nodes
        )
        bound = np.full((len(hard), marks.entries), INFINITE, np.int32)
        bound[weak[waits.semaphore]] = NONE
        falling = np.arange(len(hard))
        for _ in range(MOST_ROUNDS):
            clock, behind = _scan_joint(schedule, begin, before, marks, signals, waits, bound)
            bound = _least(signals, waits, clock, bound)
            falling = np.flatnonzero((bound < behind).any(axis=1))
            if not len(falling):
                break
        if not len(falling):
            break
        weak[waits.semaphore[falling]] = True
    rows, which = _scan_sources(begin, before, clock, waits, behind, marks)
    producer = np.concatenate([alone[0], marks.instruction[which]])
    instruction = np.concatenate([alone[1], waits.instruction[rows]])
    arrival = np.append(np.zeros(len(alone[0]), bool), marks.entry[which] >= marks.queues)
    return producer, instruction, arrival, bool(weak[waits.semaphore].any())


def _signals(fused: Fused, counts: Counts, schedule: Ids) -> _Signals:
    rank = np.empty(len(schedule), np.int64)
    rank[schedule] = np.arange(len(schedule))
    node = fused.leave[counts.signal]
    order = np.lexsort((rank[node], counts.signal_to))
    node, semaphore = node[order], counts.signal_to[order]
    of_node = np.argsort(node, kind="stable")
    return _Signals(
        np.searchsorted(semaphore, np.arange(len(counts.names) + 1)),
        node,
        counts.amount[order],
        counts.open_until[order],
        np.append(True, semaphore[1:] != semaphore[:-1])[: len(node)],
        np.searchsorted(node[of_node], np.arange(len(schedule) + 1)),
        of_node,
    )


def _waits(fused: Fused, counts: Counts, signals: _Signals, hard: Ints, nodes: int) -> _Waits:
    node = fused.enter[counts.wait[hard]]
    order = np.argsort(node, kind="stable")
    hard = hard[order]
    semaphore = counts.wait_for[hard]
    sums = np.cumsum(signals.amount)
    wanted = np.append(0, sums)[signals.starts[semaphore]] + counts.value[hard]
    return _Waits(
        np.searchsorted(node[order], np.arange(nodes + 1)),
        counts.wait[hard],
        semaphore,
        counts.value[hard],
        counts.place[hard],
        np.searchsorted(sums, wanted),
    )


def _marks(fused: Fused, nodes: int) -> _Marks:
    count, queues = len(fused.queue), int(fused.queue.max(initial=NONE)) + 1
    _, arrival_of = np.unique(fused.queue[fused.arrivals], return_inverse=True)
    node = np.concatenate([fused.leave, fused.enter[fused.arrivals]])
    entry = np.concatenate([fused.queue, queues + arrival_of]).astype(np.int32)
    instruction = np.concatenate([np.arange(count, dtype=np.int32), fused.arrivals])
    order = np.argsort(node, kind="stable")
    row = np.empty(len(node), np.int32)
    row[order] = np.arange(len(node))
    arrival = np.full(count, NONE, np.int32)
    arrival[fused.arrivals] = row[count:]
    return _Marks(
        np.searchsorted(node[order], np.arange(nodes + 1)),
        node[order],
        entry[order],
        instruction[order],
        row[:count],
        arrival,
        queues,
        int(entry.max(initial=NONE)) + 1,
    )


def _predecessors(source: Ids, target: Ids, nodes: int) -> tuple[Ints, Ids]:
    order = np.argsort(target, kind="stable")
    return np.searchsorted(target[order], np.arange(nodes + 1)), source[order]


@njit
def _scan_joint(
    schedule: Ids, begin: Ints, before: Ids, marks: _Marks, signals: _Signals, waits: _Waits, bound: Column
) -> tuple[Column, Column]:
    """The clock of each node when it is over, and what each wait is taken to be behind: `bound`, and no more than the
    signals that satisfied it in the schedule.
    """
    clock = np.full((len(schedule), marks.entries), -1, np.int32)
    behind = bound.copy()
    # What is over when the signals of a semaphore up to each are made, as the schedule has them.
    prefix = np.full((len(signals.node), marks.entries), -1, np.int32)
    for at in range(len(schedule)):
        v = schedule[at]
        for e in range(begin[v], begin[v + 1]):
            for c in range(marks.entries):
                clock[v, c] = max(clock[v, c], clock[before[e], c])
        for w in range(waits.starts[v], waits.starts[v + 1]):
            for c in range(marks.entries):
                behind[w, c] = min(behind[w, c], prefix[waits.last[w], c])
                clock[v, c] = max(clock[v, c], behind[w, c])
        for k in range(marks.starts[v], marks.starts[v + 1]):
            clock[v, marks.entry[k]] = marks.instruction[k]
        for k in range(signals.of_node_starts[v], signals.of_node_starts[v + 1]):
            s = signals.of_node[k]
            for c in range(marks.entries):
                prefix[s, c] = clock[v, c]
                if not signals.first[s]:
                    prefix[s, c] = max(prefix[s, c], prefix[s - 1, c])
    return clock, behind


def _least(signals: _Signals, waits: _Waits, clock: Column, bound: Column) -> Column:
    """For each wait and entry, the smallest t for which the signals whose clock is at most t add up to its count."""
    least = bound.copy()
    order = np.argsort(waits.semaphore, kind="stable")
    cuts = np.flatnonzero(np.append(True, np.diff(waits.semaphore[order]) != 0))
    for rows in np.split(order, cuts[1:]):
        semaphore = int(waits.semaphore[rows[0]])
        mine = slice(int(signals.starts[semaphore]), int(signals.starts[semaphore + 1]))
        clocks, amount = clock[signals.node[mine]], signals.amount[mine]
        # Where the schedule's first signals are the earliest anyway, and all needed, their maximum is the answer.
        highest = np.maximum.accumulate(clocks)
        lowest = np.append(np.minimum.accumulate(clocks[::-1])[::-1], np.full((1, clocks.shape[1]), INFINITE), axis=0)
        last = waits.last[rows] - mine.start
        sums, smallest = np.cumsum(amount), np.minimum.accumulate(amount)
        plain = (highest[last] <= lowest[last + 1]) & (sums[last] - smallest[last] < waits.value[rows])[:, None]
        found = highest[last]
        for entry in np.flatnonzero(~plain.all(axis=0)).tolist():
            by = np.argsort(clocks[:, entry], kind="stable")
            at = np.searchsorted(np.cumsum(amount[by]), waits.value[rows])
            found[:, entry] = clocks[by[at], entry]
        # One signal that is repeated any number of times will do.
        repeated = np.flatnonzero(signals.open_until[mine] >= 0)
        if len(repeated):
            by = repeated[np.argsort(signals.open_until[mine][repeated], kind="stable")]
            lowest = np.append(np.minimum.accumulate(clocks[by][::-1])[::-1], lowest[-1:], axis=0)
            found = np.minimum(
                found, lowest[np.searchsorted(signals.open_until[mine][by], waits.place[rows], "right")]
            )
        least[rows] = np.minimum(found, bound[rows])
    return least


def _needed_alone(fused: Fused, counts: Counts, waits: _Waits, chosen: Bools) -> tuple[Ids, Ids]:
    """Of chosen waits: (signal, wait) where the other signals of the semaphore do not reach the count."""
    producer, instruction = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for semaphore in np.unique(waits.semaphore[chosen]).tolist():
        rows = np.flatnonzero(chosen & (waits.semaphore == semaphore))
        made = np.flatnonzero(counts.signal_to == semaphore)
        spare = counts.amount[made].sum() - waits.value[rows]
        for row, enough in zip(rows.tolist(), spare.tolist(), strict=True):
            needed = counts.signal[made[counts.amount[made] > enough]][::-1]
            # The last of each queue is behind the others.
            _, last = np.unique(fused.queue[needed], return_index=True)
            producer.append(needed[last])
            instruction.append(np.full(len(last), waits.instruction[row], np.int32))
    return np.concatenate(producer), np.concatenate(instruction)


@njit
def _scan_sources(
    begin: Ints, before: Ids, clock: Column, waits: _Waits, behind: Column, marks: _Marks
) -> tuple[Ints, Ints]:
    """(Wait, mark): the marked event is the last of its entry that the wait is behind, and neither the edges into the
    wait's node nor another such event say so.
    """
    entries = marks.entries
    rows = np.empty(len(waits.last) * entries, np.int64)
    which = np.empty(len(waits.last) * entries, np.int64)
    count = 0
    known = np.empty(entries, np.int32)
    chosen = np.empty(entries, np.int32)
    for v in range(len(begin) - 1):
        if waits.starts[v] == waits.starts[v + 1]:
            continue
        known[:] = -1
        for e in range(begin[v], begin[v + 1]):
            for c in range(entries):
                known[c] = max(known[c], clock[before[e], c])
        for w in range(waits.starts[v], waits.starts[v + 1]):
            for c in range(entries):
                chosen[c] = -1
                if behind[w, c] > known[c]:
                    i = behind[w, c]
                    chosen[c] = marks.completion[i] if c < marks.queues else marks.arrival[i]
            for c in range(entries):
                said = chosen[c] < 0
                for d in range(entries):
                    if not said and d != c and chosen[d] >= 0:
                        mine, other = marks.node[chosen[c]], marks.node[chosen[d]]
                        said = clock[other, c] >= behind[w, c] and (other != mine or d < c)
                if not said:
                    rows[count], which[count] = w, chosen[c]
                    count += 1
    return rows[:count].copy(), which[:count].copy()
