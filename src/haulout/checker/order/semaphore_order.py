"""The order that semaphores give: the signals that each wait needs on every schedule.

Counts never fall, so an instruction that can start stays able to start. One schedule that runs whatever can run gets
as far as any, and tells whether all waits are ever satisfied. A wait for a count v needs an event x when the signals
that can be made without x add up to less than v. Two cases:

1. All signals of the semaphore are on one queue. The queue is in order, so the wait needs the signal that brings the
   sum to v, and nothing else. One binary search. 2. Otherwise every node has a *clock*: for each queue of any core
   the last instruction that is complete when the node is (and one more entry for the arrivals of each queue with a
   `sendrecv`). Of a queue's events, a wait needs those up to the smallest t for which the signals whose clock there
   is at most t add up to v: the maximum of the clocks when all signals are needed, the minimum when any one is
   enough.

Clocks and waits depend on each other. Of all consistent solutions the largest is the right one (nothing needs x only
after something shows that it can do without x), so the iteration starts above it: first each wait needs all signals
that satisfied it in the schedule. Then the smallest t of all signals is taken, and clocks are computed again, until
nothing falls. Signals that follow one another, and barriers made of semaphores, are right the first time; the second
round only confirms it. Where signals race, each round finds one more alternative. After `MAX_ROUNDS`, or where the
clocks would not fit, a wait of the semaphore is taken to need only the signals without which the others cannot reach
the count: less order than there is, never more.

The order found becomes plain edges, from the last events that a wait needs and that no other edge implies. The rest
of the checker does not handle counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.columns import grouped, positions, sorted_by
from haulout.checker.order.schedule import schedule_without
from haulout.checker.order.semaphores import Semaphores
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Column, Ids, Ints
from haulout.support.jit import njit

MAX_ROUNDS = 32
MAX_CELLS = 1 << 27
"""Clock entries of all nodes together."""
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


class SemaphoreOrder(NamedTuple):
    """The order that semaphores add to a fused graph."""

    schedule: Ids
    """Nodes in an order in which they can run; with a deadlock, not all of them."""
    reached: Ints
    """Of each semaphore, the count that it reaches."""
    producer: Ids
    """Edges: this instruction ..."""
    arrival: Bools
    """... when it arrives (otherwise: is complete) ..."""
    instruction: Ids
    """... comes before that one starts."""
    weak: bool = False
    """Some waits were approximated by the signals that each of them needs alone: there may be more order."""


def find_semaphore_order(fused: Fused, semaphores: Semaphores) -> SemaphoreOrder:
    """A schedule, and the order of the waits as edges; with a deadlock, no edges."""
    nothing = np.zeros(0, np.int32)
    schedule, reached = schedule_without(
        fused.enter, fused.leave, fused.starts, fused.successors, semaphores, nothing
    )
    if len(schedule) < len(fused.starts) - 1:
        return SemaphoreOrder(schedule, reached, nothing, np.zeros(0, bool), nothing)
    one_queue = _on_one_queue(semaphores, fused.queue)[semaphores.wait_for]
    producer, instruction = _last_needed(semaphores, np.flatnonzero(one_queue))
    arrival = np.zeros(len(producer), bool)
    hard = np.flatnonzero(~one_queue)
    weak = False
    if len(hard):
        joint = _joint(fused, semaphores, schedule, (producer, instruction), hard)
        producer, instruction = np.append(producer, joint[0]), np.append(instruction, joint[1])
        arrival, weak = np.append(arrival, joint[2]), joint[3]
    return SemaphoreOrder(schedule, reached, producer, arrival, instruction, weak)


# -- one queue -------------------------------------------------------------------------------------------------------


def _on_one_queue(semaphores: Semaphores, queue: Ids) -> Bools:
    """Of each semaphore: its signals are on one queue."""
    size = len(semaphores.names)
    low, high = np.full(size, INFINITE, np.int64), np.full(size, -1, np.int64)
    np.minimum.at(low, semaphores.signal_to, queue[semaphores.signal])
    np.maximum.at(high, semaphores.signal_to, queue[semaphores.signal])
    alone: Bools = low >= high
    return alone


def _last_needed(semaphores: Semaphores, waits: Ints) -> tuple[Ids, Ids]:
    """Of waits whose signals are in list order: (the signal that reaches the count, the instruction that waits)."""
    order = sorted_by(np.arange(len(semaphores.signal)), semaphores.signal_to)
    sums = np.cumsum(semaphores.amount[order])
    first = np.searchsorted(semaphores.signal_to[order], semaphores.wait_for[waits])
    wanted = np.append(0, sums)[first] + semaphores.value[waits]
    return semaphores.signal[order][np.searchsorted(sums, wanted)], semaphores.wait[waits]


# -- several queues --------------------------------------------------------------------------------------------------


class _Signals(NamedTuple):
    """The signals of all semaphores, semaphore by semaphore in the order of the schedule."""

    starts: Ints
    """Semaphore -> its rows."""
    node: Ids
    amount: Ints
    open_until: Ids
    """`Semaphores.open_until`."""
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
    """`Semaphores.place`."""
    last: Ints
    """The row of the signal that reached the count in the schedule."""


class _Events(NamedTuple):
    """The events that clocks count, node by node: `instruction[k]` is complete, or arrives, at node v for k in
    `starts[v]:starts[v + 1]`.
    """

    starts: Ints
    node: Ids
    entry: Ids
    """Of clocks: the queue, or after all queues the arrivals of a queue."""
    instruction: Ids
    completion: Ids
    arrival: Ids
    """Instruction -> its row; for arrivals NONE: it is no `sendrecv`."""
    queues: int
    entries: int


def _joint(
    fused: Fused, semaphores: Semaphores, schedule: Ids, simple: tuple[Ids, Ids], hard: Ints
) -> tuple[Ids, Ids, Bools, bool]:
    """(producer, instruction, arrival) of the waits `hard`, and whether some are weak; `simple` has the edges of all
    others.
    """
    nodes = len(schedule)
    signals, events = _signals(fused, semaphores, schedule), _events(fused, nodes)
    waits = _waits(fused, semaphores, signals, hard, nodes)
    source = np.concatenate([fused.source, fused.leave[simple[0]]])
    target = np.concatenate([fused.target, fused.enter[simple[1]]])
    weak = np.full(len(semaphores.names), nodes * events.entries > MAX_CELLS)
    while True:
        # The waits of a weak semaphore are approximated once, and take no part in the rounds.
        alone = _needed_alone(fused, semaphores, waits, weak[waits.semaphore])
        if weak[waits.semaphore].all():
            return *alone, np.zeros(len(alone[0]), bool), True
        begin, before = _predecessors(
            np.concatenate([source, fused.leave[alone[0]]]), np.concatenate([target, fused.enter[alone[1]]]), nodes
        )
        bound = np.full((len(hard), events.entries), INFINITE, np.int32)
        bound[weak[waits.semaphore]] = NONE
        falling = np.arange(len(hard))
        for _ in range(MAX_ROUNDS):
            clock, needed = _scan_joint(schedule, begin, before, events, signals, waits, bound)
            bound = _least(signals, waits, clock, bound)
            falling = np.flatnonzero((bound < needed).any(axis=1))
            if not len(falling):
                break
        if not len(falling):
            break
        weak[waits.semaphore[falling]] = True
    rows, which = _scan_sources(begin, before, clock, waits, needed, events)
    producer = np.concatenate([alone[0], events.instruction[which]])
    instruction = np.concatenate([alone[1], waits.instruction[rows]])
    arrival = np.append(np.zeros(len(alone[0]), bool), events.entry[which] >= events.queues)
    return producer, instruction, arrival, bool(weak[waits.semaphore].any())


def _signals(fused: Fused, semaphores: Semaphores, schedule: Ids) -> _Signals:
    rank = positions(schedule, len(schedule))
    node = fused.leave[semaphores.signal]
    order = np.lexsort((rank[node], semaphores.signal_to))
    node, semaphore = node[order], semaphores.signal_to[order]
    of_node_starts, of_node = grouped(node, len(schedule))
    return _Signals(
        np.searchsorted(semaphore, np.arange(len(semaphores.names) + 1)),
        node,
        semaphores.amount[order],
        semaphores.open_until[order],
        np.append(True, semaphore[1:] != semaphore[:-1])[: len(node)],
        of_node_starts,
        of_node,
    )


def _waits(fused: Fused, semaphores: Semaphores, signals: _Signals, hard: Ints, nodes: int) -> _Waits:
    node = fused.enter[semaphores.wait[hard]]
    starts, order = grouped(node, nodes)
    hard = hard[order]
    semaphore = semaphores.wait_for[hard]
    sums = np.cumsum(signals.amount)
    wanted = np.append(0, sums)[signals.starts[semaphore]] + semaphores.value[hard]
    return _Waits(
        starts,
        semaphores.wait[hard],
        semaphore,
        semaphores.value[hard],
        semaphores.place[hard],
        np.searchsorted(sums, wanted),
    )


def _events(fused: Fused, nodes: int) -> _Events:
    count, queues = len(fused.queue), int(fused.queue.max(initial=NONE)) + 1
    _, arrival_of = np.unique(fused.queue[fused.arrivals], return_inverse=True)
    node = np.concatenate([fused.leave, fused.enter[fused.arrivals]])
    entry = np.concatenate([fused.queue, queues + arrival_of]).astype(np.int32)
    instruction = np.concatenate([np.arange(count, dtype=np.int32), fused.arrivals])
    starts, order = grouped(node, nodes)
    row = np.empty(len(node), np.int32)
    row[order] = np.arange(len(node))
    arrival = np.full(count, NONE, np.int32)
    arrival[fused.arrivals] = row[count:]
    return _Events(
        starts,
        node[order],
        entry[order],
        instruction[order],
        row[:count],
        arrival,
        queues,
        int(entry.max(initial=NONE)) + 1,
    )


def _predecessors(source: Ids, target: Ids, nodes: int) -> tuple[Ints, Ids]:
    starts, order = grouped(target, nodes)
    return starts, source[order]


@njit
def _scan_joint(
    schedule: Ids, begin: Ints, before: Ids, events: _Events, signals: _Signals, waits: _Waits, bound: Column
) -> tuple[Column, Column]:
    """The clock of each node when it is complete, and what each wait needs: at most `bound`, and at most the signals
    that satisfied it in the schedule.
    """
    clock = np.full((len(schedule), events.entries), -1, np.int32)
    needed = bound.copy()
    # What is complete when the signals of a semaphore up to each are made, in the order of the schedule.
    prefix = np.full((len(signals.node), events.entries), -1, np.int32)
    for at in range(len(schedule)):
        v = schedule[at]
        for e in range(begin[v], begin[v + 1]):
            for c in range(events.entries):
                clock[v, c] = max(clock[v, c], clock[before[e], c])
        for w in range(waits.starts[v], waits.starts[v + 1]):
            for c in range(events.entries):
                needed[w, c] = min(needed[w, c], prefix[waits.last[w], c])
                clock[v, c] = max(clock[v, c], needed[w, c])
        for k in range(events.starts[v], events.starts[v + 1]):
            clock[v, events.entry[k]] = events.instruction[k]
        for k in range(signals.of_node_starts[v], signals.of_node_starts[v + 1]):
            s = signals.of_node[k]
            for c in range(events.entries):
                prefix[s, c] = clock[v, c]
                if not signals.first[s]:
                    prefix[s, c] = max(prefix[s, c], prefix[s - 1, c])
    return clock, needed


def _least(signals: _Signals, waits: _Waits, clock: Column, bound: Column) -> Column:
    """For each wait and entry, the smallest t for which the signals whose clock is at most t add up to its count."""
    least = bound.copy()
    order = np.argsort(waits.semaphore, kind="stable")
    cuts = np.flatnonzero(np.append(True, np.diff(waits.semaphore[order]) != 0))
    for rows in np.split(order, cuts[1:]):
        semaphore = int(waits.semaphore[rows[0]])
        mine = slice(int(signals.starts[semaphore]), int(signals.starts[semaphore + 1]))
        clocks, amount = clock[signals.node[mine]], signals.amount[mine]
        # Where the first signals of the schedule are the earliest ones, and all are needed, their maximum is the
        # answer.
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
        # One signal that is repeated any number of times is enough.
        repeated = np.flatnonzero(signals.open_until[mine] >= 0)
        if len(repeated):
            by = repeated[np.argsort(signals.open_until[mine][repeated], kind="stable")]
            lowest = np.append(np.minimum.accumulate(clocks[by][::-1])[::-1], lowest[-1:], axis=0)
            found = np.minimum(
                found, lowest[np.searchsorted(signals.open_until[mine][by], waits.place[rows], "right")]
            )
        least[rows] = np.minimum(found, bound[rows])
    return least


def _needed_alone(fused: Fused, semaphores: Semaphores, waits: _Waits, chosen: Bools) -> tuple[Ids, Ids]:
    """Of chosen waits: (signal, wait) where the other signals of the semaphore do not reach the count."""
    producer, instruction = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for semaphore in np.unique(waits.semaphore[chosen]).tolist():
        rows = np.flatnonzero(chosen & (waits.semaphore == semaphore))
        made = np.flatnonzero(semaphores.signal_to == semaphore)
        spare = semaphores.amount[made].sum() - waits.value[rows]
        for row, enough in zip(rows.tolist(), spare.tolist(), strict=True):
            needed = semaphores.signal[made[semaphores.amount[made] > enough]][::-1]
            # The last signal of each queue implies the others.
            _, last = np.unique(fused.queue[needed], return_index=True)
            producer.append(needed[last])
            instruction.append(np.full(len(last), waits.instruction[row], np.int32))
    return np.concatenate(producer), np.concatenate(instruction)


@njit
def _scan_sources(
    begin: Ints, before: Ids, clock: Column, waits: _Waits, needed: Column, events: _Events
) -> tuple[Ints, Ints]:
    """(Wait, event): the event is the last of its entry that the wait needs, and neither the edges into the wait's
    node nor another such event imply it.
    """
    entries = events.entries
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
                if needed[w, c] > known[c]:
                    i = needed[w, c]
                    chosen[c] = events.completion[i] if c < events.queues else events.arrival[i]
            for c in range(entries):
                said = chosen[c] < 0
                for d in range(entries):
                    if not said and d != c and chosen[d] >= 0:
                        mine, other = events.node[chosen[c]], events.node[chosen[d]]
                        said = clock[other, c] >= needed[w, c] and (other != mine or d < c)
                if not said:
                    rows[count], which[count] = w, chosen[c]
                    count += 1
    return rows[:count].copy(), which[:count].copy()
