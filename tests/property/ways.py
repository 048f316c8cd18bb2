"""Every way through a program with loops and branches, by walking its edges: the truth for what judges all paths.

Nothing of the library's own views of control flow is used: a block with two successors is a loop's header when the
block laid out before its second successor leads back to it, else a fork, whose join is where that block leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from haulout.ir.enums import NONE
from haulout.ir.program import Program

MOST_TRIPS = 2
"""Of a loop whose trip count is not known."""

Key = tuple[int, ...]
"""Time of a visit: (header, iteration) of each loop around, the outermost first, then the block."""


class Visit(NamedTuple):
    """A block, number on its core, that runs."""

    block: int
    key: Key
    atom: Key | None
    """The visit of the outermost divergent fork that it is in an arm of."""
    loops: tuple[int, ...]
    """Headers around it."""


Way = list[list[Visit]]
"""Of each core, what it runs."""


def ways(program: Program, most: int, rng: Random) -> list[Way]:
    """All ways; `most` of them at random when there are more."""
    found: list[Way] = []
    choices = _Choices()
    while True:
        found.append(_walk(program, choices.choose))
        if len(found) > most:
            return [_walk(program, rng.randrange) for _ in range(most)]
        if not choices.advance():
            return found


class _Choices:
    """Counts through all choices, the last one fastest."""

    def __init__(self) -> None:
        self.planned: list[int] = []
        self.made: list[tuple[int, int]] = []
        """(picked, options)"""

    def choose(self, options: int) -> int:
        """The next choice of this turn."""
        at = len(self.made)
        self.made.append((self.planned[at] if at < len(self.planned) else 0, options))
        return self.made[-1][0]

    def advance(self) -> bool:
        """Whether there is another turn."""
        while self.made and self.made[-1][0] + 1 == self.made[-1][1]:
            self.made.pop()
        self.planned = [picked for picked, _ in self.made]
        if self.planned:
            self.planned[-1] += 1
        self.made = []
        return bool(self.planned)


def _walk(program: Program, choose: Callable[[int], int]) -> Way:
    made: dict[tuple[Key, int | None], int] = {}
    count = len(program.blocks) // program.lnc
    leads = [program.edges.target[program.edges.source == block].tolist() for block in range(count)]

    def decide(key: Key, core: int | None, options: int) -> int:
        if (key, core) not in made:
            made[key, core] = choose(options)
        return made[key, core]

    return [list(_visits(program, leads, core, decide)) for core in range(program.lnc)]


def _visits(
    program: Program, leads: list[list[int]], core: int, decide: Callable[[Key, int | None, int], int]
) -> Iterator[Visit]:
    stack: list[list[int]] = []
    """[header, iteration]"""
    apart: tuple[Key, int] | None = None
    """Key of the outermost divergent fork that the core is in an arm of, and the join."""
    block = 0
    while True:
        targets = leads[block]
        is_header = len(targets) == 2 and leads[targets[1] - 1] == [block]
        if is_header and (not stack or stack[-1][0] != block):
            stack.append([block, 0])
        if apart is not None and apart[1] == block:
            apart = None
        key: Key = (*(number for pair in stack for number in pair), block)
        yield Visit(block, key, None if apart is None else apart[0], tuple(header for header, _ in stack))
        alone = None if apart is None else core
        if not targets:
            return
        if is_header:
            trip = int(program.blocks.trip[block])
            again = stack[-1][1] < trip if trip != NONE else stack[-1][1] < MOST_TRIPS and decide(key, alone, 2) == 1
            if not again:
                stack.pop()
            block = targets[0] if again else targets[1]
            continue
        if len(targets) == 2:
            divergent = bool(program.blocks.divergent[block])
            if divergent and apart is None:
                apart = key, leads[targets[1] - 1][0]
            block = targets[decide(key, core if divergent or alone is not None else None, 2)]
            continue
        if targets[0] <= block:
            stack[-1][1] += 1
        block = targets[0]
