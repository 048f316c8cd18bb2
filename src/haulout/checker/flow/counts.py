"""Semaphores of a text: which signal a wait surely needs, whatever the loops and branches before it did.

Counts never fall. When the signals of a semaphore come in the order of the text, a wait that needs all of its units
but the newest k needs the signal that holds the unit k back, and all that this one knows; a wait for a constant v
needs each signal that surely holds one of the first v units. The signals of one line come in its order. Where several
lines signal, each signal must be known to come after those before it: that is asked of the claims which rest on it.
It is sound: consider the first wait, in time, that starts too early. Some signal from after it in the text was made
in place of one before it; but that signal started earlier, so its claims were true, and it came after the other.

    unit row k     what the signal that holds the unit k back knows
    first row v    what the last signal knows that surely holds one of the first v units

How many units may be missing at a wait is an interval: one walk in text order counts what signals have made, with the
fewest and the most iterations and the smaller and the larger arm. `wait_back` counts back from what its own core has
issued, so for it the walk counts the difference of the two. Where an interval begins below 0, the signals that come
first in the text do not satisfy the wait: the text is then no schedule, and nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from haulout.checker.columns import grouped
from haulout.checker.flow.events import refused
from haulout.checker.flow.refusal import Refusal, Short
from haulout.checker.flow.steps import ELSE, EVENTS, EXIT, FORK, JOIN, LATCH, LOOP, SPLIT
from haulout.checker.flow.text import Operations, Text
from haulout.ir.enums import NONE
from haulout.ir.schema import Column, Ids, Ints

MOST_UNITS = 16
"""A wait that may miss more units needs none for certain."""

_Span = tuple[Column, Column]
"""Fewest and most, by key."""


@dataclass(slots=True)
class Rows:
    """The rows of semaphores, after those of the lines."""

    core: Ids
    """Of each row: the core that has the semaphore."""
    write_starts: Ints
    write: Ids
    """Signals of event e write the rows `write[write_starts[e]:write_starts[e + 1]]`, ..."""
    write_from: Ids
    """... with what another row holds, also that of a line."""
    read_starts: Ints
    read: Ids
    """Event e waits for rows `read[read_starts[e]:read_starts[e + 1]]`."""
    loop_starts: Ints
    loop_rows: Ids
    """Of each loop of the steps: the rows that signals inside write."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What waits for semaphores that several lines signal may rest on; less after each walk that shows that it may
    not.
    """

    unchained: frozenset[int] = frozenset()
    """Semaphores whose signals do not come in one order."""
    unguarded: frozenset[int] = frozenset()
    """Semaphores where a later signal of one line may stand in for an earlier one of another."""
    short: frozenset[int] = frozenset()
    """Waits, as rows of `Operations`, that need signals behind them in the text: nothing is known from them."""


def find_rows(text: Text, trust: Trust) -> Rows | Refusal:
    """The rows, where an order is known: the signals before a wait in the text satisfy it."""
    use, model, events = text.operations, text.model, text.events
    lines = len(model.queue_core)
    nothing = np.zeros(len(events.line) + 1, np.int64)
    none = np.zeros(0, np.int32)
    if not len(use.wait):
        return Rows(none, nothing, none, none, nothing, none, np.zeros(len(text.loops) + 1, np.int64), none)
    if unsupported := _unsupported(text, use):
        return unsupported
    place = places_of(text)
    counts = Counts(text, use, place)
    # Of each wait: how many units may be missing; of each signal: how many may be made before it.
    low, high = counts.missing()
    short = low < 0
    if untold := set(np.flatnonzero(short).tolist()) - trust.short:
        why = "may wait for a signal that comes after it in the text"
        where = refused(model, events, int(use.wait[min(untold)]), why)
        return Short(where.text, where.block, where.instruction)
    before = counts.made_before()
    deepest = np.full(use.semaphores, NONE, np.int64)
    near = np.flatnonzero(~short & (high <= MOST_UNITS))
    np.maximum.at(deepest, use.wait_for[near], high[near].astype(np.int64))
    core: list[int] = []
    groups: dict[int, list[tuple[int, int]]] = {}
    firsts: dict[int, list[tuple[int, int]]] = {}
    on = _lines_of(text)
    for semaphore in np.unique(use.wait_for).tolist():
        several, depth = on[semaphore] if len(on[semaphore]) > 1 else [], int(deepest[semaphore]) + 1
        chained = semaphore not in trust.unchained
        for line in [*([NONE] if chained else []), *([] if semaphore in trust.unguarded else several)]:
            groups.setdefault(semaphore, []).append((line, lines + len(core)))
            core += [int(use.core_of[semaphore] if line == NONE else model.queue_core[line])] * depth
        values = use.value[(use.wait_for == semaphore) & ~use.back]
        for value in np.unique(values).tolist() if chained else []:
            firsts.setdefault(semaphore, []).append((value, lines + len(core)))
            core.append(int(use.core_of[semaphore]))
    reads: list[tuple[int, int]] = []
    for at, (event, semaphore) in enumerate(zip(use.wait.tolist(), use.wait_for.tolist(), strict=True)):
        if short[at]:
            continue
        if high[at] <= MOST_UNITS:
            reads += [(event, begin + int(high[at])) for _, begin in groups.get(semaphore, [])]
        if not use.back[at]:
            reads += [(event, row) for value, row in firsts.get(semaphore, []) if value == use.value[at]]
    # Barriers signal when all of their events have come, each what its own line knows.
    end = _ends(text)[use.signal]
    writes: list[tuple[int, int, int]] = []
    for at in np.lexsort((place_in(text)[use.signal], end)).tolist():
        event, semaphore, amount = int(use.signal[at]), int(use.signal_to[at]), int(use.amount[at])
        line = int(events.line[event])
        for only, begin in groups.get(semaphore, []):
            if only in (NONE, line):  # the oldest unit first
                units = range(int(deepest[semaphore]), -1, -1)
                writes += [(int(end[at]), begin + k, begin + k - amount if k >= amount else line) for k in units]
        writes += [(int(end[at]), row, line) for value, row in firsts.get(semaphore, []) if before[at] < value]
    wrote, read = np.array(writes, np.int64).reshape(-1, 3), np.array(reads, np.int64).reshape(-1, 2)
    read_starts, order = grouped(read[:, 0], len(events.line))
    block, teller = events.block[wrote[:, 0]], events.core[wrote[:, 0]]
    inside = [
        np.unique(wrote[(block >= begin) & (block < end) & ((alone == NONE) | (teller == alone)), 1])
        for begin, end, _, alone in text.loops.tolist()
    ]
    return Rows(
        np.array(core, np.int32),
        np.searchsorted(wrote[:, 0], np.arange(len(events.line) + 1)),
        wrote[:, 1].astype(np.int32),
        wrote[:, 2].astype(np.int32),
        read_starts,
        read[order, 1].astype(np.int32),
        np.append(0, np.cumsum([len(each) for each in inside], dtype=np.int64)),
        np.concatenate([*inside, none]).astype(np.int32),
    )


def _lines_of(text: Text) -> list[list[int]]:
    """The lines that signal each semaphore."""
    use = text.operations
    found: list[set[int]] = [set() for _ in range(use.semaphores)]
    for semaphore, event in zip(use.signal_to.tolist(), use.signal.tolist(), strict=True):
        found[semaphore].add(int(text.events.line[event]))
    return [sorted(each) for each in found]


def less_trust(text: Text, trust: Trust, found: Sequence[tuple[int, int, int, int]]) -> Trust:
    """What is left when some signals are not known to come in order: (first, second, level, lag), numbers in
    `chains`.

    Signals of a semaphore are *guarded* when each one that comes after a wait in the text comes after those of all
    other lines before that wait: then it cannot stand in for one that is missing there. Nor can one that comes after
    the wait on its line.
    """
    use, structure, block, line = text.operations, text.runs.flow.structure, text.events.block, text.events.line
    semaphores, events = chains(text)
    place = places_of(text)
    unchained, unguarded = set(trust.unchained), set(trust.unguarded)

    def shared(one: int, other: int) -> int:
        """How many loops are around both of two events."""
        around = [structure.loops_around(int(block[each])) for each in (one, other)]
        return sum(1 for a, b in zip(*around, strict=False) if a == b)

    for first, second, level, lag in found:
        semaphore, g, h = int(semaphores[first]), int(events[first]), int(events[second])
        unchained.add(semaphore)
        for w in use.wait[use.wait_for == semaphore].tolist() if semaphore not in unguarded else []:
            if line[h] == line[w] or min(shared(g, w), shared(w, h)) < level:
                continue
            behind = place[g] < place[w] or shared(g, w) > level
            ahead = place[w] < place[h] or shared(w, h) > level
            if (behind and ahead) if lag == 0 else (lag > 1 or behind or ahead):
                unguarded.add(semaphore)
                break
    return Trust(frozenset(unchained), frozenset(unguarded), trust.short)


def chains(text: Text) -> tuple[Ids, Ids]:
    """The signals of semaphores that are waited for and that several lines signal: (semaphore, event).

    Each must come after all that come first in the text.
    """
    use, line = text.operations, text.events.line
    waited = np.zeros(use.semaphores, bool)
    waited[use.wait_for] = True
    low = np.full(use.semaphores, np.iinfo(np.int32).max, np.int32)
    high = np.full(use.semaphores, NONE, np.int32)
    np.minimum.at(low, use.signal_to, line[use.signal])
    np.maximum.at(high, use.signal_to, line[use.signal])
    rows = np.flatnonzero((waited & (low < high))[use.signal_to])
    return use.signal_to[rows], use.signal[rows]


def place_in(text: Text) -> Ints:
    """The place of each event in the schedule."""
    place = np.empty(len(text.schedule), np.int64)
    place[text.schedule] = np.arange(len(text.schedule))
    return place


def places_of(text: Text) -> Ints:
    """The same, where all events of a barrier come at once: none of its waits is for a signal of it."""
    place = place_in(text)
    met = np.flatnonzero(text.meet != NONE)
    first = np.full(int(text.meet.max(initial=NONE)) + 1, len(place), np.int64)
    np.minimum.at(first, text.meet[met], place[met])
    place[met] = first[text.meet[met]]
    return place


def _ends(text: Text) -> Ids:
    """Of each event, the last one of its barrier; else itself."""
    place, met = place_in(text), np.flatnonzero(text.meet != NONE)
    last = np.full(int(text.meet.max(initial=NONE)) + 1, NONE, np.int64)
    np.maximum.at(last, text.meet[met], place[met])
    found = np.arange(len(place), dtype=np.int32)
    found[met] = text.schedule[last[text.meet[met]]]
    return found


def _unsupported(text: Text, use: Operations) -> Refusal | None:
    """An operation in arms that are walked in parts."""
    block, operate = text.events.block, np.append(use.signal, use.wait)
    for number in text.steps[text.steps[:, 0] == SPLIT, 1].tolist():
        begin, _, join, _ = text.forks[number].tolist()
        if len(some := operate[(block[operate] >= begin) & (block[operate] < join)]):
            why = "signals or waits for a semaphore in an arm that each core chooses for itself and that has barriers"
            return refused(text.model, text.events, int(some[0]), why)
    return None


class Counts:
    """What semaphores have come to, by key: a semaphore for its units, and after those a semaphore for the units made
    for it less those that its own core issues to its name. With `first` that is when each event happens for the first
    time; else each time.
    """

    def __init__(self, text: Text, use: Operations, place: Ints, first: bool = False) -> None:
        self.text, self.use, self.place, self.first = text, use, place, first
        self.keys = 2 * use.semaphores
        to, by, amount = use.signal_to, use.signal_by, use.amount
        key = np.concatenate([to, use.semaphores + to, use.semaphores + by])
        at = np.tile(place[use.signal], 3)
        value = np.concatenate([amount, amount, -amount])
        self.stride = len(text.schedule) + 1
        packed = key.astype(np.int64) * self.stride + at
        order = np.argsort(packed, kind="stable")
        self.packed = packed[order]
        self.total = np.append(0, np.cumsum(value[order]))
        self.key, self.at, self.value = key, at, value
        self.starts: dict[int, _Span] = {}
        """Step with events -> counts at its start; of a header the last time."""
        self.step_of = np.zeros(len(text.schedule) + 1, np.int64)
        self._walk()

    def _sum(self, begin: int, end: int) -> Column:
        chosen = (self.at >= begin) & (self.at < end)
        return np.bincount(self.key[chosen], self.value[chosen], self.keys)

    def _walk(self) -> None:
        steps = self.text.steps.tolist()
        used = np.zeros(len(self.text.schedule) + 1, np.int64)
        used[1:] = np.cumsum(
            np.bincount(np.append(self.at, self.place[self.use.wait]), minlength=len(self.text.schedule))
        )
        zero = np.zeros(self.keys)
        sums = {
            at: self._sum(step[1], step[2]) if used[step[2]] > used[step[1]] else zero
            for at, step in enumerate(steps)
            if step[0] == EVENTS
        }
        # Bottom up: what a turn of each loop makes.
        turns: dict[int, _Span] = {}
        stack: list[list[_Span]] = [[(zero, zero)]]
        for at, (kind, number, *_) in enumerate(steps):
            if kind == EVENTS:
                stack[-1][-1] = _plus(stack[-1][-1], (sums[at], sums[at]))
            elif kind == FORK:
                stack.append([(zero, zero)])
            elif kind == ELSE:
                stack[-1].append((zero, zero))
            elif kind == JOIN:
                one, other = stack.pop()
                both = np.minimum(one[0], other[0]), np.maximum(one[1], other[1])
                stack[-1][-1] = _plus(stack[-1][-1], both)
            elif kind == LOOP:
                stack.append([(zero, zero)])
            elif kind == LATCH:
                turns[number] = stack[-1][-1]
                trip = int(self.text.loops[number, 2])
                stack[-1][-1] = _times(turns[number], *(trip, trip) if trip != NONE else (0, np.inf))
            elif kind == EXIT:
                inside = stack.pop()[-1]
                stack[-1][-1] = _plus(stack[-1][-1], inside)
        # Top down: what is made when each step begins.
        now: _Span = (zero, zero)
        entries: list[_Span] = []
        arms: list[_Span] = []
        for at, (kind, number, *_) in enumerate(steps):
            if kind == EVENTS:
                if used[steps[at][2]] > used[steps[at][1]]:
                    self.starts[steps[at][1]] = now
                    self.step_of[steps[at][1] : steps[at][2]] = steps[at][1]
                now = _plus(now, (sums[at], sums[at]))
            elif kind == FORK:
                entries.append(now)
            elif kind == ELSE:
                arms.append(now)
                now = entries[-1]
            elif kind == JOIN:
                entries.pop()
                first = arms.pop()
                now = np.minimum(first[0], now[0]), np.maximum(first[1], now[1])
            elif kind == LOOP:
                entries.append(now)
                trip = 1 if self.first else int(self.text.loops[number, 2])
                now = _plus(now, _times(turns[number], 0, max(trip - 1, 0) if trip != NONE else np.inf))
            elif kind == LATCH:
                # The events of the header are recorded with every number of turns, what follows with all of them.
                trip = 0 if self.first else int(self.text.loops[number, 2])
                now = _plus(entries[-1], _times(turns[number], 0, trip if trip != NONE else np.inf))
            elif kind == EXIT:
                trip = int(self.text.loops[number, 2])
                header = sums[at - 1] if steps[at - 1][0] == EVENTS else zero
                turned = _times(turns[number], *(trip, trip) if trip != NONE else (0, np.inf))
                now = _plus(_plus(entries.pop(), turned), (header, header))

    def _at(self, keys: Ints, events: Ids) -> _Span:
        """The counts of some keys before some events."""
        place = self.place[events]
        begin = self.step_of[place]
        low = np.array([self.starts[step][0][key] for step, key in zip(begin.tolist(), keys.tolist(), strict=True)])
        high = np.array([self.starts[step][1][key] for step, key in zip(begin.tolist(), keys.tolist(), strict=True)])
        packed = keys.astype(np.int64) * self.stride
        inside = (
            self.total[np.searchsorted(self.packed, packed + place)]
            - self.total[np.searchsorted(self.packed, packed + begin)]
        )
        return low + inside, high + inside

    def missing(self) -> _Span:
        """Of each wait: how many of the units made before it in the text may be missing when it starts."""
        use = self.use
        keys = np.where(use.back, use.semaphores + use.wait_for, use.wait_for)
        low, high = self._at(keys, use.wait)
        more = np.where(use.back, use.value, -use.value)
        return low + more, high + more

    def made_before(self) -> Column:
        """Of each signal: how many units of its semaphore are made before it at most."""
        return self._at(self.use.signal_to.astype(np.int64), self.use.signal)[1]


def _plus(one: _Span, other: _Span) -> _Span:
    return one[0] + other[0], one[1] + other[1]


def _times(span: _Span, low: float, high: float) -> _Span:
    """A span taken from `low` to `high` times."""
    ends = np.stack([_product(side, number) for side in span for number in (low, high)])
    return ends.min(axis=0), ends.max(axis=0)


def _product(values: Column, number: float) -> Column:
    """The product, 0 where one of the two is."""
    found = np.zeros(len(values))
    some = values != 0
    if number:
        found[some] = values[some] * number
    return found
