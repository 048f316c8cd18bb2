"""Copy coalescing: arrays that can share a location, so that no copy between them is needed.

1. Number the steps. At step i operands are read at time 2i, results are written at time 2i + 1.
2. Compute live ranges: from the definition of an array to its last read. A read inside a loop of an array from
   outside of the loop repeats in every iteration, so the array is live until the loop ends. The state of a loop is
   live from the start of the condition. If a step after the loop reads it, it is live until the branch, which may
   leave the loop, and again after the loop; the body between them may overwrite it. An array that is read in one arm
   of a branch, and not after the branch, is not live in the other arm, which may overwrite it.
3. Join classes of arrays on request, unless the live ranges of two of them overlap.

An operation that reads element i last when it writes element i may write in place. So may an update of a slice whose
operand is the updated array. All other operations also read at time 2i + 1: they must not overwrite their operands.

This is out-of-SSA translation with classes tested by live ranges: Budimlic et al., "Fast copy coalescing and
live-range identification", PLDI 2002. Each array has one definition, so overlapping ranges are the only conflict.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence

from haulout.frontends.hlo.opcodes import ELEMENTWISE
from haulout.frontends.hlo.values import Array, Boundary, Loop, Operation, Stage, Step

Ranges = list[tuple[int, int]]
"""Times, first and last included, ascending, without overlaps."""

_UPDATES_IN_PLACE = "dynamic-update-slice"
_IN_PLACE = {*ELEMENTWISE, "map"}


def live_ranges(steps: Sequence[Step], parameters: Iterable[Array], results: Iterable[Array]) -> dict[Array, Ranges]:
    """When each array that something produces is live, and each of `parameters`; `results` are read at the end."""
    scan = _Scan(steps)
    for parameter in parameters:
        scan.born(parameter, -1)
    for at, step in enumerate(steps):
        if isinstance(step, Operation):
            for position in range(len(step.operands)):
                scan.read(step.operands[position].array, at, late=not may_share(step, position))
            for result in step.results:
                scan.born(result, at)
        else:
            scan.boundary(step, at)
    for result in results:
        scan.read(result, len(steps))
    return scan.ranges()


class Classes:
    """Arrays that share a place; arrays without a live range (constants, inputs) share theirs with none."""

    def __init__(self, ranges: dict[Array, Ranges]) -> None:
        self._members = {array: [array] for array in ranges}
        """Of each array the members of its class: one list, shared by them."""
        self._times = {array: list(ranges[array]) for array in ranges}
        """Of the first member of a class: when one of them is live."""

    def members(self, array: Array) -> list[Array]:
        """The class of an array, itself among them."""
        return self._members.get(array, [array])

    def join(self, one: Array, other: Array) -> bool:
        """Put two arrays in one class; whether they are in one now."""
        if one not in self._members or other not in self._members:
            return one is other
        kept, moved = self._members[one], self._members[other]
        if kept is moved:
            return True
        if len(kept) < len(moved):
            kept, moved = moved, kept
        times, added = self._times[kept[0]], self._times[moved[0]]
        if any(_overlaps(times, each) for each in added):
            return False
        for each in added:
            bisect.insort(times, each)
        kept.extend(moved)
        for array in moved:
            self._members[array] = kept
        return True


def _overlaps(times: Ranges, one: tuple[int, int]) -> bool:
    at = bisect.bisect_right(times, one[1], key=lambda each: each[0])
    return at > 0 and times[at - 1][1] >= one[0]


def may_share(operation: Operation, position: int) -> bool:
    """Whether the operation may write its result over this operand."""
    if operation.opcode == _UPDATES_IN_PLACE:
        return position == 0
    if operation.opcode not in _IN_PLACE:
        return False
    operand, result = operation.operands[position], operation.result
    return operand.nbytes == result.nbytes and operand.itemsize == result.itemsize and operand.layout is None


class _Scan:
    """The times at which arrays are produced and read, gathered in one pass over the steps."""

    def __init__(self, steps: Sequence[Step]) -> None:
        boundaries = [(at, step) for at, step in enumerate(steps) if isinstance(step, Boundary)]
        self._places = {(boundary.region, boundary.stage): at for at, boundary in boundaries}
        self._end = 2 * len(steps) + 1
        self._first: dict[Array, int] = {}
        """The step that produces it; of a loop's state the one that enters the loop."""
        self._born: defaultdict[int, list[Array]] = defaultdict(list)
        """By time."""
        self._read: defaultdict[int, list[Array]] = defaultdict(list)
        """By time."""
        self._stages: dict[int, Stage] = {}
        """Of boundaries, by time."""
        self._loops: list[Loop] = []
        self._starts: list[int] = []
        """Of the loops that are open."""

    def born(self, array: Array, at: int) -> None:
        """It is produced by step `at`."""
        self._first.setdefault(array, at)
        self._born[2 * at + 1].append(array)

    def read(self, array: Array, at: int, *, late: bool = False) -> None:
        """It is read by step `at`, `late` if the writes of that step do not wait."""
        if array not in self._first:
            return
        time = 2 * at + late
        entered = bisect.bisect_right(self._starts, self._first[array])
        if entered < len(self._loops):
            time = 2 * self._places[self._loops[entered], Stage.LEAVE] + 1
        self._read[time].append(array)

    def boundary(self, boundary: Boundary, at: int) -> None:
        """Step `at` reads, then sets the state of a loop or the results of a branch."""
        for array in boundary.reads():
            self.read(array, at, late=boundary.decides)
        match boundary.stage:
            case Stage.ENTER:
                self._loops.append(boundary.loop)
                self._starts.append(at)
            case Stage.LEAVE:
                self._loops.pop()
                self._starts.pop()
        if boundary.stage in (Stage.ENTER, Stage.LEAVE, Stage.JOIN):
            for array in boundary.targets():
                self.born(array, at)
        self._stages[2 * at + 1] = boundary.stage

    def ranges(self) -> dict[Array, Ranges]:
        """Backwards from the end: a read opens a range, what produces the array closes it."""
        found: dict[Array, Ranges] = {array: [] for array in self._first}
        live = _Live(found)
        for time in range(self._end, -2, -1):
            for array in self._born.get(time, ()):
                is_behind = self._first[array] != (time - 1) // 2  # a state, where its loop is left
                if is_behind and array not in live:
                    continue
                live.close(array, time)
                if is_behind:
                    assert isinstance(array.producer, Loop)
                    self._read[2 * self._places[array.producer, Stage.BRANCH] + 1].append(array)
            match self._stages.get(time):
                case Stage.JOIN:
                    live.end_of_second()
                case Stage.ELSE:
                    live.end_of_first(time)
                case Stage.FORK:
                    live.fork(time)
            for array in self._read.get(time, ()):
                live.open(array, time)
        for ranges in found.values():
            ranges.reverse()
        return found


class _Live:
    """The arrays that are live at one time of a walk backwards.

    What lives at a join lives through both arms. What an arm reads besides lives from the fork to its last reader
    there, and in the other arm only as far as that one reads it, too.
    """

    def __init__(self, found: dict[Array, Ranges]) -> None:
        self._found = found
        self._until: dict[Array, int] = {}
        self._opened: list[list[Array]] = [[]]
        """Of each arm that the walk is in, the innermost last: what was opened there."""
        self._at_second: list[list[Array]] = []
        """Of each branch whose second arm is over: what lived when it began, but not at the join."""

    def __contains__(self, array: Array) -> bool:
        return array in self._until

    def open(self, array: Array, time: int) -> None:
        """It lives at `time` and before."""
        if array not in self._until:
            self._until[array] = time
            self._opened[-1].append(array)

    def close(self, array: Array, time: int) -> None:
        """It lives from `time` on."""
        self._found[array].append((time, self._until.pop(array, time)))

    def end_of_second(self) -> None:
        """A join."""
        self._opened.append([])

    def end_of_first(self, time: int) -> None:
        """The start of a second arm: nothing that it alone reads lives at the end of the first."""
        only = [array for array in dict.fromkeys(self._opened.pop()) if array in self._until]
        for array in only:
            self.close(array, time)
        self._at_second.append(only)
        self._opened.append([])

    def fork(self, time: int) -> None:
        """A fork: what lives at the start of one of the arms."""
        inside = self._opened.pop()
        self._opened[-1] += [array for array in inside if array in self._until]
        for array in self._at_second.pop():
            self.open(array, time)
