"""What ran: the sections in the order of their execution, each with the iterations of the loops around it.

A *visit* is one execution of a section; cores take part in it together. All take the same branches, except at a
divergent fork: the sections of its arms are visited only by the cores that take them, and so is what stands in there.
`Walk` leads every core through the nest, as whoever knows which branches are taken tells it, and keeps an eye on the
number of instructions. Cores may be at different places; the visits are put into the order of the program in the
end, which is iterations before layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids, Masks
from haulout.sim.flow.control import Fork, Loop, Nest
from haulout.support.diagnostics import bad_input

MOST_INSTRUCTIONS = 1_000_000
"""Executed on all cores together, by default; a loop that does not end must not run for ever."""

Iteration = tuple[int, ...]
"""Of the loops around a section, outermost first, each counted from 0."""


@dataclass(frozen=True, slots=True)
class Visits:
    """Executions of sections, in order, as columns."""

    section: Ids
    iteration: Ids
    """[visit, depth]: of the loop at that depth of the section's path; NONE beyond it."""
    began: Ids
    """[visit, depth]: the visit of the loop's header with which its iteration began; NONE: before these visits."""
    before: Ids
    """Of a header: its visit in the previous iteration; NONE in the first one, and for other sections."""
    cores: Masks
    """Who takes part, a bit a core."""
    taken: Masks
    """Whose branch at the end of the section takes the first successor."""

    def __len__(self) -> int:
        return len(self.section)

    def around(self, visit: int) -> Iteration:
        """The iterations of one visit."""
        row = self.iteration[visit]
        return tuple(row[row != NONE].tolist())

    def attended(self, core: int) -> Bools:
        """Which visits a core takes part in."""
        return np.asarray((self.cores >> np.uint64(core)) & np.uint64(1) != 0)

    def is_parted(self, cores: int) -> bool:
        """Whether not all cores take part in everything."""
        return bool((self.cores != np.uint64(mask_of(tuple(range(cores))))).any())

    def takes(self, visit: int, core: int) -> bool:
        """Whether a core's branch takes the first successor."""
        return bool(int(self.taken[visit]) >> core & 1)


class Place(NamedTuple):
    """Where a core is about to go on."""

    section: int
    iteration: Iteration = ()
    headers: tuple[int, ...] = ()
    """Visits of the headers around it with which these iterations began; its own not among them."""
    before: int = NONE
    """Of a header: its visit in the previous iteration."""


@cache
def mask_of(cores: tuple[int, ...]) -> int:
    """A bit a core."""
    return sum(1 << core for core in cores)


class Walk:
    """The places of the cores, and the visits so far.

    `sizes`: for each section the instructions of each core. Raises `bad-input` when the loops execute more than
    `most` on all cores together.
    """

    def __init__(self, nest: Nest, sizes: Sequence[Sequence[int]], cores: int, most: int) -> None:
        self.nest, self.sizes, self.most, self.left = nest, sizes, most, most
        start = Place(0, (0,) * (0 in nest.headers))
        self.ready: dict[Place, tuple[int, ...]] = {start: tuple(range(cores))}
        """Cores that may enter their next section."""
        self.undecided: dict[int, int] = {}
        """Core -> the visit whose branch it has not executed."""
        self.places: list[Place] = []
        """Of each visit."""
        self.cores: list[int] = []
        self.decided: list[int] = []
        self.taken: list[int] = []
        """Of each visit: masks."""
        self._number: dict[tuple[int, Iteration], int] = {}

    def enter(self) -> tuple[int, tuple[int, ...]]:
        """Let the cores that are furthest behind, in the order of the program, enter their section: visit, cores."""
        place = next(iter(self.ready)) if len(self.ready) == 1 else min(self.ready, key=self.rank)
        cores = self.ready.pop(place)
        key = place.section, place.iteration
        visit = self._number.setdefault(key, len(self.places))
        if visit == len(self.places):
            self.places.append(place)
            for column in (self.cores, self.decided, self.taken):
                column.append(0)
        self.cores[visit] |= mask_of(cores)
        is_choice = place.section in self.nest.choices
        if place.iteration:
            # A branch costs something even when nothing stands in its block, or an empty loop would never end.
            self.left -= sum(self.sizes[place.section][core] for core in cores) + is_choice
            if self.left < 0:
                self._too_long(place)
        if is_choice:
            self.undecided.update(dict.fromkeys(cores, visit))
        else:
            self._go_on(place, visit, cores, True)
        return visit, cores

    def decide(self, visit: int, cores: tuple[int, ...], taken: bool) -> None:
        """Let cores go where their branches at the end of a visit lead."""
        for core in cores:
            del self.undecided[core]
        mask = mask_of(cores)
        self.decided[visit] |= mask
        self.taken[visit] |= mask if taken else 0
        self._go_on(self.places[visit], visit, cores, taken)

    def rank(self, place: Place) -> tuple[int, ...]:
        """A key that puts places into the order of the program."""
        loops, path = self.nest.loops, self.nest.sections[place.section].path
        pairs = zip((loops[loop].header for loop in path), place.iteration, strict=True)
        return (*(number for pair in pairs for number in pair), place.section)

    def visits(self, some: dict[int, int] | None = None) -> Visits:
        """All visits in the order of the program, or some of them, with the cores that are to take part."""
        chosen = list(range(len(self.places))) if some is None else list(some)
        ranks = [self.rank(self.places[visit]) for visit in chosen]
        chosen = [visit for _, visit in sorted(zip(ranks, chosen, strict=True))]
        at = {visit: number for number, visit in enumerate(chosen)}
        at[NONE] = NONE
        depth = self.nest.depth
        places = [self.places[visit] for visit in chosen]
        headers = self.nest.headers
        began = [
            (*place.headers, visit) if place.section in headers else place.headers
            for visit, place in zip(chosen, places, strict=True)
        ]
        return Visits(
            np.array([place.section for place in places], np.int32),
            _padded([place.iteration for place in places], depth),
            _padded([tuple(at.get(visit, NONE) for visit in each) for each in began], depth),
            np.array([at.get(place.before, NONE) for place in places], np.int32),
            np.array([self.cores[visit] if some is None else some[visit] for visit in chosen], np.uint64),
            np.array([self.taken[visit] for visit in chosen], np.uint64),
        )

    def chosen(self, some: dict[int, int]) -> list[int]:
        """The numbers that some visits have here, in the order in which `visits` returns them."""
        return sorted(some, key=lambda visit: self.rank(self.places[visit]))

    def _go_on(self, place: Place, visit: int, cores: tuple[int, ...], taken: bool) -> None:
        following = self.nest.following[place.section][not taken]
        if following < len(self.nest.sections):
            behind = self._step(place, visit, following)
            others = self.ready.get(behind)
            self.ready[behind] = cores if others is None else tuple(sorted(others + cores))

    def _step(self, place: Place, visit: int, section: int) -> Place:
        """The place behind one whose section was just visited."""
        loop = self.nest.headers.get(section, NONE)
        depth = len(self.nest.sections[section].path)
        headers = (*place.headers, visit) if place.section in self.nest.headers else place.headers
        if loop == NONE:
            return Place(section, place.iteration[:depth], headers[:depth])
        if section <= place.section:
            around, last = place.iteration[: depth - 1], place.iteration[depth - 1]
            return Place(section, (*around, last + 1), headers[: depth - 1], headers[depth - 1])
        return Place(section, (*place.iteration[: depth - 1], 0), headers[: depth - 1])

    def _too_long(self, place: Place) -> None:
        names = [self.nest.loops[loop].name for loop in self.nest.sections[place.section].path]
        inside = ", ".join(f"{name} in iteration {k}" for name, k in zip(names, place.iteration, strict=True))
        bad_input(
            f"the loops have executed {self.most:,} instructions and do not end: {inside}",
            help=["let the simulator run for longer with max_instructions, or --max-instructions"],
        )


Decide = Callable[[Loop | Fork, Iteration, int], bool]
"""Whether a core's branch takes the first successor."""


def walk(nest: Nest, sizes: Sequence[Sequence[int]], cores: int, decide: Decide, most: int) -> Visits:
    """The visits when `decide` tells where branches go."""
    going = Walk(nest, sizes, cores, most)
    while going.ready:
        visit, entered = going.enter()
        place = going.places[visit]
        choice = nest.choices.get(place.section)
        if choice is not None:
            for core in entered:
                going.decide(visit, (core,), decide(choice, place.iteration, core))
    return going.visits()


def one_visit(section: int, cores: int) -> Visits:
    """The visit of one section alone, by cores that are a mask."""
    none = np.zeros((1, 0), np.int32)
    nobody = np.array([NONE], np.int32)
    return Visits(
        np.array([section], np.int32), none, none, nobody, np.array([cores], np.uint64), np.zeros(1, np.uint64)
    )


def _padded(rows: list[tuple[int, ...]], depth: int) -> Ids:
    return np.array([(*row, *(NONE,) * (depth - len(row))) for row in rows], np.int32).reshape(len(rows), depth)
