"""A run of a function with loops and forks: its executions of blocks, in order, once every choice is made.

A *choice* is made at each execution of the header of a loop whose trip count is unknown (how often the body runs) and
of a fork (which arm); at a divergent fork by each core for itself. A *path* has values for some of the choices. The
others are made so that least runs: no iteration, no arm where there is only one, else the first.

One list of executions serves all cores, in layout order; each says which cores take part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from haulout.checker.paths.step_trips import MAX_COPIES, Copies, guessed
from haulout.ir.enums import NONE
from haulout.ir.structure import Fold, Fork, Loop, Structure

Execution = tuple[int, tuple[int, ...]]
"""A block, and the iterations of the loops around it."""
Choice = tuple[int, tuple[int, ...], int]
"""A header or a fork, the iterations of the loops around it, and at a divergent fork the core; else NONE."""
Path = Mapping[Choice, int]
"""The iterations of a loop; the arm of a fork."""
Choose = Callable[[Choice, Sequence[int], int], int]
"""The value of a choice, given its options, the one in which most runs first, and the one in which least runs."""
Left = Callable[[Choice, Sequence[int], Path], Sequence[int]]
"""The options of a choice that are left where others are made, with NONE for the core."""

MAX_INSTRUCTIONS = 1 << 18
"""Instructions of the longest run. In a longer one, stepped patterns are taken for unknown ones."""
MAX_DEEP_INSTRUCTIONS = 1 << 16
"""Instructions of the longest run with many iterations. Where it would be longer, runs with few decide."""


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


def _all_options(choice: Choice, options: Sequence[int], path: Path) -> Sequence[int]:
    return options


def every_run(
    structure: Structure, copies: Mapping[int, Copies], cores: int, most: int, left: Left = _all_options
) -> Iterator[Run]:
    """The runs of a function, each once, all of them if they are no more than `most`.

    First comes the one in which all loops run and all forks take their first arm, then the others that differ from it
    in one choice and in what follows, and so on. Behind that choice all loops run, and all forks take the second arm
    if they took the first in the run before, else the first. So few runs show most combinations of two arms.
    """
    todo: deque[_Start] = deque([((), 0)])
    while todo:
        start, arm = todo.popleft()
        chosen = _Chosen(start, structure.fork_at, arm, left)
        yield walk(structure, copies, cores, chosen.choose)
        values = tuple(chosen.values)
        for at in range(len(start), len(values)):
            if len(todo) > most:
                break
            others = (value for value in chosen.options[at] if value != values[at])
            todo.extend(((*values[:at], value), 1 - arm) for value in others)


_Start = tuple[tuple[int, ...], int]
"""The first choices of a run, and which arm the others take."""


class _Chosen:
    """Chooses the values of a run, and keeps them."""

    def __init__(self, start: tuple[int, ...], forks: Mapping[int, int], arm: int, left: Left) -> None:
        self.start, self.forks, self.arm, self.left = start, forks, arm, left
        self.path: dict[Choice, int] = {}
        self.values: list[int] = []
        self.options: list[Sequence[int]] = []

    def choose(self, choice: Choice, options: Sequence[int], least: int) -> int:
        """The next value."""
        at, options = len(self.values), self.left(choice, options, self.path)
        most = self.arm if choice[0] in self.forks and self.arm in options else options[0]
        self.values.append(self.start[at] if at < len(self.start) else most)
        self.options.append(options)
        self.path[choice[0], choice[1], NONE] = self.values[at]
        return self.values[at]


def walk(structure: Structure, copies: Mapping[int, Copies], cores: int, choose: Choose) -> Run:
    """The run that choices make."""
    executions: list[Execution] = []
    masks: list[int] = []
    shortened: list[tuple[int, int]] = []
    taken: list[tuple[int, tuple[int, ...]]] = []

    def enter(block: int, around: tuple[int, ...], mask: int) -> None:
        executions.append((block, around))
        masks.append(mask)

    def sequence(blocks: range, around: tuple[int, ...], mask: int) -> None:
        for item in structure.items(blocks.start, blocks.stop):
            match item:
                case Loop():
                    run_loop(item, around, mask)
                case Fork():
                    run_fork(item, around, mask)
                case _:
                    enter(item, around, mask)

    def run_loop(loop: Loop, around: tuple[int, ...], mask: int) -> None:
        most = times = copies[loop.header].count
        if loop.trip == NONE:
            options = dict.fromkeys([most, *range(1, copies[loop.header].ends + 1), 0])
            times = choose((loop.header, around, NONE), tuple(options), 0)
        for iteration in range(times):
            enter(loop.header, (*around, iteration), mask)
            sequence(loop.body, (*around, iteration), mask)
        enter(loop.header, (*around, times), mask)
        if loop.trip == NONE and times < most:
            shortened.append((len(executions) - 1, times))

    def run_fork(fork: Fork, around: tuple[int, ...], mask: int) -> None:
        least = 0 if len(fork.sides[1]) else 1
        there = [core for core in range(cores) if mask >> core & 1]
        arms = [NONE] * cores
        for group in [[core] for core in there] if fork.divergent else [there]:
            chooser = group[0] if fork.divergent else NONE
            arm = choose((fork.block, around, chooser), (0, 1), least)
            for core in group:
                arms[core] = arm
        taken.append((len(executions) - 1, tuple(arms)))
        for arm, blocks in enumerate(fork.sides):
            if inside := sum(1 << core for core, each in enumerate(arms) if each == arm):
                sequence(blocks, around, inside)

    sequence(structure.functions[0], (), (1 << cores) - 1)
    return Run(tuple(executions), tuple(masks), tuple(shortened), tuple(taken))


# -- how many iterations ---------------------------------------------------------------------------------------------


def choose_copies(
    structure: Structure, wanted: Mapping[int, Copies], sizes: Sequence[int], queues: int, deep: bool
) -> dict[int, Copies]:
    """The iterations of each loop to check, by its header; `sizes` are the instructions of each block on all cores.

    More iterations only add order for what is outside of a loop. So a loop that runs more often than was checked may
    be blamed for a conflict that more iterations order; what few iterations find clean is clean. After a finding
    `deep` runs decide: an order through a loop goes from queue to queue, so as many iterations as there are queues
    show all.
    """
    chosen = dict(wanted)
    while longest(structure, chosen, sizes) > MAX_INSTRUCTIONS and any(each.stepped for each in chosen.values()):
        most = max((header for header, each in chosen.items() if each.stepped), key=lambda at: chosen[at].count)
        chosen[most] = guessed(structure.loops[structure.loop_at[most]].trip, chosen[most].turns)
    if not deep:
        return chosen
    deeper = dict(chosen)
    for loop in structure.loops.values():
        each = chosen[loop.header]
        if loop.trip != NONE:
            limit = MAX_COPIES if each.stepped else queues + 1
            count = loop.trip if loop.trip <= limit else max(each.count, queues + 1)
            deeper[loop.header] = replace(each, count=count)
    return deeper if longest(structure, deeper, sizes) <= MAX_DEEP_INSTRUCTIONS else chosen


def longest(structure: Structure, copies: Mapping[int, Copies], sizes: Sequence[int]) -> int:
    """Instructions of a run in which all loops run and both arms of every fork are taken."""
    fold: Fold[int] = structure.fold(
        block=lambda number: sizes[number],
        sequence=lambda values: sum(values),
        loop=lambda loop, header, body: copies[loop.header].count * (header + body) + header,
        fork=lambda fork, arms: sum(arms),
    )
    return fold.functions[0]
