"""What ran: the sections in the order of their execution, each with the iterations of the loops around it.

All cores take the same branches, so one list tells it for all of them. Whoever knows, or finds out, which branches
are taken lets `walk` go through the nest; it keeps the list and an eye on the number of instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids
from haulout.sim.control import Nest
from haulout.support.diagnostics import bad_input

MOST_INSTRUCTIONS = 1_000_000
"""Executed on all cores together, by default; a loop that does not end must not run for ever."""

Iteration = tuple[int, ...]
"""Of the loops around a section, outermost first, each counted from 0."""
Decide = Callable[[int, Iteration], bool]
"""Whether the branch of a loop's header takes the body."""


@dataclass(frozen=True, slots=True)
class Visits:
    """Executions of sections, in order, as columns."""

    section: Ids
    iteration: Ids
    """[visit, depth]: of the loop at that depth of the section's path; NONE beyond it."""
    began: Ids
    """[visit, depth]: the visit of the loop's header with which its iteration began."""
    before: Ids
    """Of a header: its visit in the previous iteration; NONE in the first one, and for other sections."""
    taken: Bools
    """Of a header: whether the body follows."""

    def __len__(self) -> int:
        return len(self.section)

    def around(self, visit: int) -> Iteration:
        """The iterations of one visit."""
        row = self.iteration[visit]
        return tuple(row[row != NONE].tolist())


def walk(
    nest: Nest,
    sizes: Sequence[int],
    decide: Decide,
    visit: Callable[[int, Iteration], None] | None = None,
    most: int = MOST_INSTRUCTIONS,
) -> Visits:
    """Go through the nest; `visit` is called for every section, then `decide` if it is a header.

    `sizes`: instructions of each section. Raises `bad-input` when the loops execute more than `most` of them.
    """
    keeper = _Keeper(nest, sizes, most)
    headers = nest.headers

    def region(begin: int, end: int, around: Iteration, began: tuple[int, ...]) -> None:
        at = begin
        while at < end:
            loop = headers.get(at, NONE)
            if loop == NONE:
                keeper.enter(at, around, began, NONE, NONE)
                if visit is not None:
                    visit(at, around)
                at += 1
                continue
            iteration, previous, taken = 0, NONE, True
            while taken:
                inside = (*around, iteration)
                here = keeper.enter(at, inside, began, previous, loop)
                if visit is not None:
                    visit(at, inside)
                taken = keeper.taken[here] = decide(loop, inside)
                if taken:
                    region(at + 1, nest.loops[loop].end, inside, (*began, here))
                iteration, previous = iteration + 1, here
            at = nest.loops[loop].end

    region(0, len(nest.sections), (), ())
    return keeper.visits()


def counted(trips: Sequence[int]) -> Decide:
    """Branches of loops that run so often."""
    return lambda loop, iteration: iteration[-1] < trips[loop]


class _Keeper:
    """The visits so far."""

    def __init__(self, nest: Nest, sizes: Sequence[int], most: int) -> None:
        self.nest, self.sizes, self.most = nest, sizes, most
        self.depth = nest.depth
        self.left = most
        self.section: list[int] = []
        self.iteration: list[int] = []
        self.began: list[int] = []
        self.before: list[int] = []
        self.taken: list[bool] = []

    def enter(self, section: int, iteration: Iteration, began: tuple[int, ...], before: int, loop: int) -> int:
        """Note a visit; its number."""
        here = len(self.section)
        if loop != NONE:
            began = (*began, here)
        padding = (NONE,) * (self.depth - len(iteration))
        self.section.append(section)
        self.iteration += iteration + padding
        self.began += began + padding
        self.before.append(before)
        self.taken.append(False)
        if iteration:
            # A header costs something even when it is empty, or a loop without instructions would never end.
            self.left -= self.sizes[section] + (loop != NONE)
            if self.left < 0:
                self._too_long(section, iteration)
        return here

    def visits(self) -> Visits:
        shape = len(self.section), self.depth
        return Visits(
            np.array(self.section, np.int32),
            np.array(self.iteration, np.int32).reshape(shape),
            np.array(self.began, np.int32).reshape(shape),
            np.array(self.before, np.int32),
            np.array(self.taken, np.bool_),
        )

    def _too_long(self, section: int, iteration: Iteration) -> None:
        names = [self.nest.loops[loop].name for loop in self.nest.sections[section].path]
        inside = ", ".join(f"{name} in iteration {k}" for name, k in zip(names, iteration, strict=True))
        bad_input(
            f"the loops have executed {self.most:,} instructions and do not end: {inside}",
            help=["let the simulator run for longer with `max_instructions`"],
        )
