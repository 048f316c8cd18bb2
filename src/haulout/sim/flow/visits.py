"""Visits: the sections that ran, in the order of their execution, each with the iterations of the loops around it.

A *visit* is one execution of a section, by several cores together. All of them take the same branches, except at a
divergent fork: the sections of an arm, and everything nested in them, are visited only by the cores that take it.
`Walk` moves every core through the sections, with branches decided by its caller, and limits the number of
instructions. Cores may be at different places; at the end the visits are sorted in program order, which is iterations
before layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, NoReturn

import numpy as np

from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids
from haulout.sim.flow.code import Code
from haulout.support.diagnostics import bad_input

MAX_INSTRUCTIONS = 1_000_000
"""Default limit of the instructions executed in loops, on all cores together; it ends a loop that would not end."""

Iteration = tuple[int, ...]
"""Of the loops around a section, outermost first, each counted from 0."""


@dataclass(frozen=True, slots=True)
class Visits:
    """Executions of sections, in order, as columns."""

    section: Ids
    iteration: Ids
    """[visit, depth]: of the loop around the section at that depth; NONE where there is none."""
    began: Ids
    """[visit, depth]: the visit of that loop's header that began the iteration; NONE: it is not among these
    visits.
    """
    before: Ids
    """Of a header: its visit in the previous iteration; NONE in the first one, and for other sections."""
    cores: Bools
    """[core, visit]: whether the core takes part."""
    taken: Bools
    """[core, visit]: whether the core's branch at the end of the section takes the first successor."""

    def __len__(self) -> int:
        return len(self.section)

    def around(self, visit: int) -> Iteration:
        """The iterations of one visit."""
        row = self.iteration[visit]
        return tuple(row[row != NONE].tolist())

    def attended(self, core: int) -> Bools:
        """Which visits a core takes part in."""
        return np.asarray(self.cores[core])

    def diverge(self) -> bool:
        """Whether a core does not take part in all visits."""
        return not self.cores.all()

    def takes(self, visit: int, core: int) -> bool:
        """Whether a core's branch takes the first successor."""
        return bool(self.taken[core, visit])


class Place(NamedTuple):
    """The next section of a core."""

    section: int
    iteration: Iteration = ()
    headers: tuple[int, ...] = ()
    """Visits of the headers around it that began these iterations, without its own."""
    before: int = NONE
    """Of a header: its visit in the previous iteration."""


@cache
def mask_of(cores: tuple[int, ...]) -> int:
    """A bit a core."""
    return sum(1 << core for core in cores)


class Walk:
    """The places of the cores, and the visits so far.

    Raises `bad-input` when loops execute more than `limit` instructions on all cores together.
    """

    def __init__(self, code: Code, limit: int) -> None:
        self.code, self.sections, self.sizes = code, code.sections, code.sizes
        self.limit, self.left = limit, limit
        self.headers = self.sections.structure.loop_at
        start = Place(0, (0,) * (0 in self.headers))
        self.ready: dict[Place, tuple[int, ...]] = {start: tuple(range(code.program.lnc))}
        """Cores that can enter their next section."""
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
        """Let the cores that are first in program order enter their section; the visit and these cores."""
        place = next(iter(self.ready)) if len(self.ready) == 1 else min(self.ready, key=self.rank)
        cores = self.ready.pop(place)
        key = place.section, place.iteration
        visit = self._number.setdefault(key, len(self.places))
        if visit == len(self.places):
            self.places.append(place)
            for column in (self.cores, self.decided, self.taken):
                column.append(0)
        self.cores[visit] |= mask_of(cores)
        is_choice = place.section in self.sections.choices
        if place.iteration:
            # A branch counts even when its block is empty; otherwise an empty loop would never end.
            self.left -= sum(self.sizes[place.section][core] for core in cores) + is_choice
            if self.left < 0:
                self._refuse(place)
        if is_choice:
            self.undecided.update(dict.fromkeys(cores, visit))
        else:
            self._advance(place, visit, cores, True)
        return visit, cores

    def decide(self, visit: int, cores: tuple[int, ...], taken: bool) -> None:
        """Move cores to the successor that their branches at the end of a visit take."""
        for core in cores:
            del self.undecided[core]
        mask = mask_of(cores)
        self.decided[visit] |= mask
        self.taken[visit] |= mask if taken else 0
        self._advance(self.places[visit], visit, cores, taken)

    def rank(self, place: Place) -> tuple[int, ...]:
        """A key that sorts places in program order."""
        pairs = zip(self._headers_around(place.section), place.iteration, strict=True)
        return (*(number for pair in pairs for number in pair), place.section)

    def visits(self, some: dict[int, int] | None = None) -> Visits:
        """All visits in program order, or some of them with masks of the cores that take part."""
        chosen = list(range(len(self.places))) if some is None else list(some)
        ranks = [self.rank(self.places[visit]) for visit in chosen]
        chosen = [visit for _, visit in sorted(zip(ranks, chosen, strict=True))]
        at = {visit: number for number, visit in enumerate(chosen)}
        at[NONE] = NONE
        depth = max(self.sections.depths, default=0)
        places, lnc = [self.places[visit] for visit in chosen], self.code.program.lnc
        began = [self._began(place, visit) for place, visit in zip(places, chosen, strict=True)]
        return Visits(
            np.array([place.section for place in places], np.int32),
            _padded([place.iteration for place in places], depth),
            _padded([tuple(at.get(visit, NONE) for visit in each) for each in began], depth),
            np.array([at.get(place.before, NONE) for place in places], np.int32),
            _of_masks([self.cores[visit] if some is None else some[visit] for visit in chosen], lnc),
            _of_masks([self.taken[visit] for visit in chosen], lnc),
        )

    def chosen(self, some: dict[int, int]) -> list[int]:
        """The numbers of some visits of this walk, in the order of the rows that `visits` returns."""
        return sorted(some, key=lambda visit: self.rank(self.places[visit]))

    def _advance(self, place: Place, visit: int, cores: tuple[int, ...], taken: bool) -> None:
        following = self.sections.following[place.section][not taken]
        if following != NONE:
            target = self._step(place, visit, following)
            others = self.ready.get(target)
            self.ready[target] = cores if others is None else tuple(sorted(others + cores))

    def _step(self, place: Place, visit: int, section: int) -> Place:
        """The place that follows one whose section was just visited."""
        depth = self.sections.depths[section]
        began = self._began(place, visit)
        if section not in self.headers:
            return Place(section, place.iteration[:depth], began[:depth])
        if section <= place.section:
            around, last = place.iteration[: depth - 1], place.iteration[depth - 1]
            return Place(section, (*around, last + 1), began[: depth - 1], began[depth - 1])
        around = place.iteration[: depth - 1]
        return Place(section, (*around, 0), began[: depth - 1])

    def _began(self, place: Place, visit: int) -> tuple[int, ...]:
        """The visits of the headers around a place, its own included."""
        return (*place.headers, visit) if place.section in self.headers else place.headers

    def _headers_around(self, section: int) -> list[int]:
        structure = self.sections.structure
        return [structure.loops[loop].header for loop in structure.loops_around(section)]

    def _refuse(self, place: Place) -> NoReturn:
        names = map(self.code.choice_name, self._headers_around(place.section))
        inside = ", ".join(f"{name} in iteration {k}" for name, k in zip(names, place.iteration, strict=True))
        bad_input(
            f"the loops have executed {self.limit:,} instructions and do not end: {inside}",
            help=["let the simulator run for longer with max_instructions, or --max-instructions"],
        )


Decide = Callable[[int, Iteration, int], bool]
"""Whether a core's branch at the end of a section takes the first successor."""


def walk(code: Code, decide: Decide, limit: int) -> Visits:
    """The visits when `decide` takes the branches."""
    going = Walk(code, limit)
    while going.ready:
        visit, entered = going.enter()
        place = going.places[visit]
        if place.section in code.sections.choices:
            for core in entered:
                going.decide(visit, (core,), decide(place.section, place.iteration, core))
    return going.visits()


def one_visit(section: int, mask: int, cores: int) -> Visits:
    """The visit of one section alone, by a mask of the `cores` that there are."""
    none = np.zeros((1, 0), np.int32)
    first = np.array([NONE], np.int32)
    return Visits(np.array([section], np.int32), none, none, first, _of_masks([mask], cores), _of_masks([0], cores))


def _of_masks(masks: list[int], cores: int) -> Bools:
    """[core, mask]: whether the mask has the core's bit."""
    width = (cores + 7) // 8
    packed = np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in masks), np.uint8)
    bits = np.unpackbits(packed.reshape(len(masks), width), axis=1, count=cores, bitorder="little")
    return np.ascontiguousarray(bits.T).view(bool)


def _padded(rows: list[tuple[int, ...]], depth: int) -> Ids:
    return np.array([(*row, *(NONE,) * (depth - len(row))) for row in rows], np.int32).reshape(len(rows), depth)
