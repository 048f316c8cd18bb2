"""Which runs of a function with loops show every conflict: how often each loop runs in each.

A *run* gives every execution of a loop (an *instance*: the loop, and the iterations of the loops around it) its
number of iterations; its executions of blocks in order are a straight line. In a loop whose trip count is known
nothing is left to choose. One that may run zero times orders nothing for what stands around it, so for two accesses
the weakest run is that in which no loop runs that may stand still, but for those around the two. Hence the runs:

    all loops run; none does; for each instance, it alone (and those around it); for each two instances, they alone

Were those too many, only the first three are taken, and those in which one loop alone does not run; then only the
first two and each loop of the function alone.

Extra iterations only add order for what stands around a loop. So a loop that runs more often than was looked at may
be blamed for a conflict that more iterations order; what two iterations find clean is clean. After a finding `deep`
runs decide: an order through a loop goes from queue to queue, so as many iterations as there are queues show all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from haulout.check.loops import Nest
from haulout.check.steps import MOST_COPIES, Copies, guessed
from haulout.ir.enums import NONE

Execution = tuple[int, tuple[int, ...]]
"""A block, and the iterations of the loops on its path."""
Instance = tuple[int, tuple[int, ...]]
"""A loop, and the iterations of the loops around it."""

MOST_RUNS = 64
"""Runs that are looked at; with more choices, fewer of them are combined."""
MOST_WORK = 1 << 22
"""Instructions of all these runs together; of a program so long that this leaves less than 8 runs, 8 may be taken."""
MOST_ROWS = 1 << 18
"""Instructions of the longest run, beyond which stepped patterns are taken for unknown ones."""
MOST_DEEP = 1 << 16
"""Instructions of the longest deep run; where it would be longer, what the short ones find stands."""


@dataclass(frozen=True, slots=True)
class Run:
    """Executions of blocks in order, and the instances that might have run more often than they did."""

    executions: tuple[Execution, ...]
    shortened: tuple[tuple[int, int], ...]
    """(Place of the last execution of a header, iterations)."""


def choose_copies(
    nest: Nest, wanted: Sequence[Copies], sizes: Sequence[int], queues: int, deep: bool
) -> list[Copies]:
    """The iterations of each loop to look at; `sizes` are the instructions of each block on all cores."""
    chosen = list(wanted)
    while rows(nest, chosen, sizes) > MOST_ROWS and any(each.stepped for each in chosen):
        longest = max((number for number, each in enumerate(chosen) if each.stepped), key=lambda n: chosen[n].count)
        chosen[longest] = guessed(nest.loops[longest].trip)
    if not deep:
        return chosen
    deeper = list(chosen)
    for number, loop in enumerate(nest.loops):
        each = chosen[number]
        if loop.trip != NONE:
            most = MOST_COPIES if each.stepped else queues + 1
            deeper[number] = replace(each, count=loop.trip if loop.trip <= most else max(each.count, queues + 1))
    return deeper if rows(nest, deeper, sizes) <= MOST_DEEP else chosen


def rows(nest: Nest, copies: Sequence[Copies], sizes: Sequence[int]) -> int:
    """Instructions of the run in which all loops run."""
    total = 0
    for block, path in enumerate(nest.paths):
        times = 1
        for number in path:
            times *= copies[number].count + (nest.loops[number].header == block)
        total += times * sizes[block]
    return total


def most_runs(nest: Nest, copies: Sequence[Copies], sizes: Sequence[int]) -> int:
    """How many runs are looked at."""
    return min(MOST_RUNS, max(8, MOST_WORK // max(rows(nest, copies, sizes), 1)))


def find_runs(nest: Nest, copies: Sequence[Copies], most: int = MOST_RUNS) -> Iterator[Run]:
    """The runs that show everything, the one in which all loops run first; each is made when it is asked for."""
    everything = _walk(nest, copies, lambda loop, _: copies[loop].count)
    open_ones = [
        (number, path[:-1])
        for block, path in everything.executions
        if (number := nest.headers.get(block, NONE)) != NONE and nest.loops[number].trip == NONE and path[-1] == 0
    ]
    seen = {everything.executions}
    yield everything
    for kept in _choices(nest, open_ones, most):
        for trips in _trips(kept, copies):
            run = _walk(nest, copies, _chooser(nest, copies, trips))
            if run.executions not in seen:
                seen.add(run.executions)
                yield run


def _chooser(
    nest: Nest, copies: Sequence[Copies], trips: dict[Instance, int]
) -> Callable[[int, tuple[int, ...]], int]:
    def trip(loop: int, around: tuple[int, ...]) -> int:
        return copies[loop].count if nest.loops[loop].trip != NONE else trips.get((loop, around), 0)

    return trip


def _choices(nest: Nest, instances: list[Instance], most: int) -> list[tuple[Instance, ...]]:
    """Sets of instances that run, of those that need not, each with the instances around it."""
    alone = [(each,) for each in instances]
    everything = tuple(instances)
    chosen: list[tuple[Instance, ...]] = [everything, (), *alone, *combinations(instances, 2)]
    if len(chosen) > most:
        but_one = [tuple(other for other in instances if other != each) for each in instances]
        chosen = [everything, (), *alone, *but_one]
    if len(chosen) > most:
        loops = sorted({loop for loop, _ in instances})
        chosen = [everything, ()]
        for number in loops[: most // 2 - 1]:
            chosen.append(tuple(each for each in instances if each[0] == number))
            chosen.append(tuple(each for each in instances if each[0] != number))
    return [_with_those_around(nest, instances, kept) for kept in chosen]


def _with_those_around(nest: Nest, instances: list[Instance], kept: tuple[Instance, ...]) -> tuple[Instance, ...]:
    wanted = set(kept)
    for loop, around in kept:
        path = nest.paths[nest.loops[loop].header]
        wanted |= {(outer, around[:depth]) for depth, outer in enumerate(path[:-1])}
    return tuple(each for each in instances if each in wanted)


def _trips(kept: tuple[Instance, ...], copies: Sequence[Copies]) -> Iterator[dict[Instance, int]]:
    """How often the instances run. Where patterns move, the one that an access is in may end after any iteration."""
    full = {(loop, around): copies[loop].count for loop, around in kept}
    yield full
    moving = [each for each in kept if copies[each[0]].ends]
    for instance in moving:
        for trip in range(1, copies[instance[0]].ends + 1):
            yield {**full, instance: trip}


def _walk(nest: Nest, copies: Sequence[Copies], trip: Callable[[int, tuple[int, ...]], int]) -> Run:
    """The executions of a run."""
    executions: list[Execution] = []
    shortened: list[tuple[int, int]] = []
    headers = nest.headers

    def region(begin: int, end: int, around: tuple[int, ...]) -> None:
        at = begin
        while at < end:
            number = headers.get(at, NONE)
            if number == NONE:
                executions.append((at, around))
                at += 1
                continue
            loop = nest.loops[number]
            times = trip(number, around)
            for iteration in range(times + 1):
                executions.append((at, (*around, iteration)))
                if iteration < times:
                    region(at + 1, loop.end, (*around, iteration))
            if loop.trip == NONE and times < copies[number].count:
                shortened.append((len(executions) - 1, times))
            at = loop.end

    region(0, len(nest.paths), ())
    return Run(tuple(executions), tuple(shortened))
