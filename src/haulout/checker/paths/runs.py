"""A run of a function with loops and branches: its executions of blocks, in order, once every choice is made.

A *choice* is made at each execution of the header of a loop whose trip count is unknown (how often it runs) and of a
fork (which arm); at a divergent fork by each core for itself. A *way* is a choice for each of them; what it does not
say is chosen so that least runs: no iteration, no arm where there is but one, else the first. `ways.py` says which
ways are looked at.

One list of executions serves all cores, in layout order; each says which cores take part. A fork may also take
neither of its arms (`SKIP`). No program does that where there are two, but as dropping instructions never adds order,
what is ordered without them is ordered in every run: such a run can prove, and not accuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from haulout.checker.paths.loops import Nest
from haulout.checker.paths.step_trips import MOST_COPIES, Copies, guessed
from haulout.ir.enums import NONE

Execution = tuple[int, tuple[int, ...]]
"""A block, and the iterations of the loops on its path."""
Choice = tuple[int, tuple[int, ...], int]
"""A header or a fork, the iterations of the loops around it, and at a divergent fork the core; else NONE."""
Way = Mapping[Choice, int]
"""The iterations of a loop; the arm of a fork, or `SKIP`."""

SKIP = 2
"""Of a fork: neither arm."""
MOST_ROWS = 1 << 18
"""Instructions of the longest run, beyond which stepped patterns are taken for unknown ones."""
MOST_DEEP = 1 << 16
"""Instructions of the longest deep run; where it would be longer, what the short ones find stands."""


@dataclass(frozen=True, slots=True)
class Run:
    """Executions of blocks in order, and what was chosen."""

    executions: tuple[Execution, ...]
    cores: tuple[int, ...]
    """Of each execution: the cores that take part, a bit a core."""
    shortened: tuple[tuple[int, int], ...]
    """(Place of the last execution of a header, iterations) of loops that might have run more often."""
    taken: tuple[tuple[int, tuple[int, ...]], ...]
    """(Place of the execution of a fork, the arm of each core); NONE: the core was not there."""
    segments: tuple[int, ...] = ()
    """Places of executions that begin a segment: all cores meet at a fence there, whatever is chosen."""
    forgets: bool = False
    """A `carried` that names what need not run in every iteration counts for nothing."""


def walk(
    nest: Nest,
    copies: Sequence[Copies],
    cores: int,
    way: Way,
    everything: bool = False,
    segments: Sequence[Execution] = (),
    forgets: bool = False,
) -> Run:
    """The run of a way; with `everything`, loops run and forks take their first arm where it does not say."""
    executions: list[Execution] = []
    masks: list[int] = []
    shortened: list[tuple[int, int]] = []
    taken: list[tuple[int, tuple[int, ...]]] = []

    def enter(block: int, around: tuple[int, ...], mask: int) -> None:
        executions.append((block, around))
        masks.append(mask)

    def sequence(begin: int, end: int, around: tuple[int, ...], mask: int) -> None:
        at = begin
        while at < end:
            if at in nest.headers:
                at = loop(nest.headers[at], around, mask)
                continue
            enter(at, around, mask)
            at = branch(nest.forking[at], around, mask) if at in nest.forking else at + 1

    def loop(number: int, around: tuple[int, ...], mask: int) -> int:
        each = nest.loops[number]
        times = copies[number].count
        if each.trip == NONE:
            times = way.get((each.header, around, NONE), times if everything else 0)
        for iteration in range(times + 1):
            enter(each.header, (*around, iteration), mask)
            if iteration < times:
                sequence(each.header + 1, each.end, (*around, iteration), mask)
        if each.trip == NONE and times < copies[number].count:
            shortened.append((len(executions) - 1, times))
        return each.end

    def branch(number: int, around: tuple[int, ...], mask: int) -> int:
        fork = nest.forks[number]
        other = 0 if everything or len(fork.arms[1]) else 1
        arms = [NONE] * cores
        for core in range(cores):
            if mask >> core & 1:
                arms[core] = way.get((fork.block, around, core if fork.divergent else NONE), other)
        taken.append((len(executions) - 1, tuple(arms)))
        for arm, blocks in enumerate(fork.arms):
            inside = sum(1 << core for core, each in enumerate(arms) if each == arm)
            if inside:
                sequence(blocks.start, blocks.stop, around, inside)
        return fork.join

    sequence(0, len(nest.paths), (), (1 << cores) - 1)
    begins = set(segments)
    places = tuple(place for place, each in enumerate(executions) if each in begins)
    return Run(tuple(executions), tuple(masks), tuple(shortened), tuple(taken), places, forgets)


# -- how many iterations ---------------------------------------------------------------------------------------------


def choose_copies(
    nest: Nest, wanted: Sequence[Copies], sizes: Sequence[int], queues: int, deep: bool
) -> list[Copies]:
    """The iterations of each loop to look at; `sizes` are the instructions of each block on all cores.

    Extra iterations only add order for what stands around a loop. So a loop that runs more often than was looked at
    may be blamed for a conflict that more iterations order; what few iterations find clean is clean. After a finding
    `deep` runs decide: an order through a loop goes from queue to queue, so as many iterations as there are queues
    show all.
    """
    chosen = list(wanted)
    while longest(nest, chosen, sizes) > MOST_ROWS and any(each.stepped for each in chosen):
        most = max((number for number, each in enumerate(chosen) if each.stepped), key=lambda n: chosen[n].count)
        chosen[most] = guessed(nest.loops[most].trip)
    if not deep:
        return chosen
    deeper = list(chosen)
    for number, loop in enumerate(nest.loops):
        each = chosen[number]
        if loop.trip != NONE:
            most = MOST_COPIES if each.stepped else queues + 1
            deeper[number] = replace(each, count=loop.trip if loop.trip <= most else max(each.count, queues + 1))
    return deeper if longest(nest, deeper, sizes) <= MOST_DEEP else chosen


def longest(nest: Nest, copies: Sequence[Copies], sizes: Sequence[int]) -> int:
    """Instructions of a run in which all loops run and both arms of every fork are taken."""
    total = 0
    for block, path in enumerate(nest.paths):
        times = 1
        for number in path:
            times *= copies[number].count + (nest.loops[number].header == block)
        total += times * sizes[block]
    return total
