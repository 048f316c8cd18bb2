"""The order of operations, for memory: where the most bytes are live, another order that has fewer live.

Operations between two boundaries of loops and branches are a segment; inside it any order that has every operand
before its readers computes the same. The segment with the most live bytes is scheduled anew, then the next one, as
long as the largest one becomes smaller. So what does not limit the program keeps its order.

A list schedule takes, of the operations whose operands are there, the one that frees most: the bytes of operands that
it reads last, less the bytes of its results (none for a result that may take over the place of such an operand).
XLA's list scheduler is of this kind (`hlo_memory_scheduler.cc`). It says how few bytes suffice. With so many, a
second schedule keeps to the given order as long as they do suffice. Collectives never change places with each other,
and what overwrites a donated parameter stays behind its readers.
The given order stays unless the schedule has fewer bytes live.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from haulout.frontends.hlo.coalescing import Ranges, live_ranges, may_share
from haulout.frontends.hlo.opcodes import COLLECTIVES
from haulout.frontends.hlo.values import Array, Boundary, Operation, Stage, Step, View


def order_for_memory(steps: Sequence[Step], donated: Mapping[Array, Array], results: Sequence[Array]) -> list[Step]:
    """The same steps in an order of fewer live bytes; `results` are read at the end.

    `donated` has the parameters that results overwrite: result -> parameter. Their bytes are always taken, by them or
    by what lives there next, so these arrays do not count. Operations change places only with others between the same
    boundaries, and take the numbers (`seq`) of their new places.
    """
    ranges = live_ranges(steps, (), results)
    for array in _held(steps, donated):
        ranges.pop(array, None)
    live = _live_bytes(ranges, len(steps))
    segments = [_Segment(steps, begin, end, live[2 * begin], ranges, donated) for begin, end in _bounds(steps)]
    ordered = list(steps)
    for segment in sorted(segments, key=lambda each: -each.peak):
        order, peak = segment.best_order()
        if peak >= segment.peak:
            break
        numbers = [operation.seq for operation in segment.operations]
        for place, (at, seq) in enumerate(zip(order, numbers, strict=True)):
            operation = segment.operations[at]
            operation.seq = seq
            ordered[segment.begin + place] = operation
    return ordered


def _held(steps: Sequence[Step], donated: Mapping[Array, Array]) -> set[Array]:
    """Arrays that live where a donated parameter lives, as far as a result, or the state of a loop, is to."""
    held = {*donated, *donated.values()}
    loops = [step.loop for step in steps if isinstance(step, Boundary) and step.stage is Stage.ENTER]
    for loop in loops:  # outer ones first: their state is what inner ones begin with
        for carried in loop.carried:
            if carried.init.array in held or carried.state in held:
                held |= {carried.state, carried.new.array}
    for loop in reversed(loops):  # and inner states are what outer ones become
        for carried in loop.carried:
            if carried.state in held:
                held |= {carried.init.array, carried.new.array}
    return held


def _bounds(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """Half-open ranges of operations without a boundary between them."""
    begin = 0
    for at in range(len(steps) + 1):
        if at == len(steps) or isinstance(steps[at], Boundary):
            if at > begin:
                yield begin, at
            begin = at + 1


def _live_bytes(ranges: dict[Array, Ranges], steps: int) -> list[int]:
    """Bytes live at each time of `coalescing.py` from 0 on."""
    change = [0] * (2 * steps + 4)
    for array, times in ranges.items():
        for first, last in times:
            change[max(first, 0)] += _bytes(array)
            change[last + 1] -= _bytes(array)
    return list(accumulate(change))


def _bytes(array: Array) -> int:
    return View(array, array.shape).nbytes


class _Segment:
    """Operations between two boundaries: what they read and produce, and how long that is live."""

    def __init__(
        self,
        steps: Sequence[Step],
        begin: int,
        end: int,
        live: int,
        ranges: dict[Array, Ranges],
        donated: Mapping[Array, Array],
    ) -> None:
        self.begin, self.live, self._ranges, self._donated = begin, live, ranges, donated
        self.operations = [step for step in steps[begin:end] if isinstance(step, Operation)]
        self.reads = [list(dict.fromkeys(view.array for view in each.operands)) for each in self.operations]
        readers: defaultdict[Array, list[int]] = defaultdict(list)
        for at, arrays in enumerate(self.reads):
            for array in arrays:
                readers[array].append(at)
        self.readers = readers
        self.kept = {
            array
            for array in [*readers, *(result for each in self.operations for result in each.results)]
            if array not in ranges or _covers(ranges[array], 2 * end)
        }
        """Arrays that are live at the end, or that this does not concern: inputs, constants."""
        self.peak = self.peak_of(range(len(self.operations)))

    def peak_of(self, order: Sequence[int]) -> int:
        """The most bytes live at one time."""
        state = _State(self)
        for at in order:
            state.run(at)
        return state.peak

    def best_order(self) -> tuple[list[int], int]:
        """An order of the operations, by their given places, and its peak.

        The list schedule says how few bytes there may be; within that, the operation that comes first.
        """
        greedy = self._schedule(0)
        least = self.peak_of(greedy)
        close = self._schedule(least)
        return (close, least) if self.peak_of(close) <= least else (greedy, least)

    def _schedule(self, limit: int) -> list[int]:
        """The list schedule; but in the given order while no more than `limit` bytes are live."""
        state = _State(self)
        missing, following = self._edges()
        ready: list[tuple[int, int]] = []
        places: list[int] = []

        def push(at: int) -> None:
            freed, taken = state.effect(at)
            heapq.heappush(ready, (taken - freed, at))

        def start(at: int) -> None:
            push(at)
            heapq.heappush(places, at)

        for at in range(len(self.operations)):
            if not missing[at]:
                start(at)
        order: list[int] = []
        while len(order) < len(self.operations):
            while state.done[places[0]]:
                heapq.heappop(places)
            at = places[0]
            if state.live + state.effect(at)[1] > limit:
                at = heapq.heappop(ready)[1]
                if state.done[at]:
                    continue
            order.append(at)
            for array in state.run(at):
                # Its last reader frees it: only now is that known.
                last = next(reader for reader in self.readers[array] if not state.done[reader])
                if not missing[last]:
                    push(last)
            for after in following[at]:
                missing[after] -= 1
                if not missing[after]:
                    start(after)
        return order

    def _edges(self) -> tuple[list[int], dict[int, list[int]]]:
        """Of each operation: how many it waits for, and which wait for it.

        A collective waits for the last one. What overwrites a parameter waits for the readers before it, or the
        result would need a copy.
        """
        place = {result: at for at, each in enumerate(self.operations) for result in each.results}
        producers = [[place[array] for array in arrays if array in place] for arrays in self.reads]
        for before, after in pairwise(at for at, each in enumerate(self.operations) if each.opcode in COLLECTIVES):
            producers[after].append(before)
        for result, parameter in self._donated.items():
            if (at := place.get(result)) is not None:
                producers[at] += [reader for reader in self.readers[parameter] if reader < at]
        following: defaultdict[int, list[int]] = defaultdict(list)
        for at, each in enumerate(producers):
            for producer in each:
                following[producer].append(at)
        return [len(each) for each in producers], following

    def bytes(self, array: Array) -> int:
        """Bytes that an array takes; those that this does not concern take none."""
        return _bytes(array) if array in self._ranges else 0


class _State:
    """A segment, some operations of which are done."""

    def __init__(self, segment: _Segment) -> None:
        self._segment = segment
        self._waiting = {array: len(readers) for array, readers in segment.readers.items()}
        self.done = [False] * len(segment.operations)
        self.live = self.peak = segment.live

    def effect(self, at: int) -> tuple[int, int]:
        """(bytes of operands that die at an operation, bytes of new places for its results)."""
        segment, operation = self._segment, self._segment.operations[at]
        dying = [array for array in segment.reads[at] if self._waiting[array] == 1 and array not in segment.kept]
        freed, taken = sum(map(segment.bytes, dying)), sum(map(segment.bytes, operation.results))
        if len(operation.results) == 1:
            for position, view in enumerate(operation.operands):
                if view.array in dying and segment.bytes(view.array) and may_share(operation, position):
                    return freed - taken, 0
        return freed, taken

    def run(self, at: int) -> list[Array]:
        """Do an operation; the arrays that now have one reader left, and die with it."""
        segment, operation = self._segment, self._segment.operations[at]
        freed, taken = self.effect(at)
        self.done[at] = True
        self.peak = max(self.peak, self.live + taken)
        unread = [each for each in operation.results if each not in segment.readers and each not in segment.kept]
        self.live += taken - freed - sum(map(segment.bytes, unread))
        for array in segment.reads[at]:
            self._waiting[array] -= 1
        return [array for array in segment.reads[at] if self._waiting[array] == 1 and array not in segment.kept]


def _covers(ranges: Ranges, time: int) -> bool:
    """Whether one of the ranges began before a time and reaches it."""
    at = bisect_right(ranges, (time - 1, 1 << 62))
    return at > 0 and ranges[at - 1][1] >= time
