"""Walks of all cores through the blocks of their functions: the blocks that run.

A loop of known trip count runs that often; one of unknown count runs 0 to 3 times, or until patterns that move with
it have repeated twice; a branch takes either arm. First all executions of a loop or a branch make the same choice,
then each execution makes its own. All cores choose alike, except at a `divergent` branch, where each core chooses for
itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import lcm
from random import Random

from haulout.ir.enums import NONE
from haulout.ir.program import Program

MAX_RUNS = 40
MAX_STEPS = 600
UNKNOWN_TRIPS = (0, 1, 2, 3)
MAX_PHASES = 8
"""Distinct positions of a moving pattern that a loop of unknown trip count visits."""


class NotStraightError(Exception):
    """The program cannot be written out; the text says why."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One execution of a block."""

    block: int
    """Its number in the function."""
    loops: tuple[int, ...]
    """Headers of the loops around it, including its own."""
    iterations: tuple[int, ...]
    arms: tuple[tuple[int, int], ...]
    """Divergent branches around it, by their blocks, and the arms taken."""


@dataclass(slots=True)
class Blocks:
    """The control flow of one function, equal on all cores."""

    successors: list[list[int]]
    trips: list[int | None]
    divergent: list[bool]
    phases: list[int]
    """Of a header: iterations after which the patterns that move with its loop repeat."""

    def is_header(self, block: int) -> bool:
        """True if a block with two successors begins a loop: the block before its exit leads back to it."""
        return self.successors[self.successors[block][1] - 1] == [block]

    def options(self, block: int) -> tuple[int, ...]:
        """The trip counts, or the arms, to try."""
        if not self.is_header(block):
            return (0, 1)
        trip, phases = self.trips[block], min(self.phases[block], MAX_PHASES)
        if trip is not None:
            return (trip,)
        return UNKNOWN_TRIPS if phases == 1 else (*UNKNOWN_TRIPS, *range(len(UNKNOWN_TRIPS), phases + 1), 2 * phases)

    def same(self, other: Blocks) -> bool:
        """True if both have the same control flow."""
        return (self.successors, self.trips, self.divergent) == (other.successors, other.trips, other.divergent)


Walk = tuple[Visit, ...]
_Place = tuple[int, int]
"""A block that chooses, and the core that does; NONE: all of them."""


def walks(
    program: Program, functions: Sequence[int], limit: int, random: Random, steps: int = MAX_STEPS
) -> Iterator[list[Walk]]:
    """Lists with a walk of each core, of at most so many `steps`; `functions` are rows, core after core.

    Raises `NotStraightError`.
    """
    flows = [_flow(program, function) for function in functions]
    if not any(len(targets) > 1 for flow in flows for targets in flow.successors):
        yield [_walk(flow, _Choices({}, core), steps) for core, flow in enumerate(flows)]
        return
    if not all(flow.same(flows[0]) for flow in flows):
        raise NotStraightError("cores with different branches")
    # A pattern that moves on one core needs the same iterations on all cores.
    flow = flows[0]
    flow.phases = [lcm(*each) for each in zip(*(each.phases for each in flows), strict=True)]
    visited = set()
    for choices in _choices(flow, len(functions), limit, random):
        if any(flow.divergent):
            found = [_walk(flow, choices.of(core), steps) for core in range(len(functions))]
        else:
            found = [_walk(flow, choices, steps)] * len(functions)
        if tuple(found) not in visited:
            visited.add(tuple(found))
            yield found


def _flow(program: Program, function: int) -> Blocks:
    first, last = program.starts("blocks", "functions")[function : function + 2].tolist()
    cuts = program.starts("edges", "blocks")[first : last + 1].tolist()
    successors = [[target - first for target in program.edges.target[a:b].tolist()] for a, b in pairwise(cuts)]
    if any(len(targets) > 2 for targets in successors):
        raise NotStraightError("a block with more than two successors")
    trips = [None if trip == NONE else trip for trip in program.blocks.trip[first:last].tolist()]
    phases = [1] * (last - first)
    for header, modulus in zip(program.steps.header.tolist(), program.steps.modulus.tolist(), strict=True):
        if first <= header < last:
            phases[header - first] = lcm(phases[header - first], modulus or MAX_PHASES)
    return Blocks(successors, trips, program.blocks.divergent[first:last].tolist(), phases)


class _Choices:
    """Choices: the same at each execution (`fixed`), or drawn by `random`, but equal on all cores."""

    def __init__(
        self,
        fixed: dict[_Place, int],
        core: int = NONE,
        random: Random | None = None,
        drawn: dict[object, int] | None = None,
    ) -> None:
        self.fixed, self.core, self.random = fixed, core, random
        self.drawn: dict[object, int] = {} if drawn is None else drawn

    def of(self, core: int) -> _Choices:
        """The same choices as one core makes them."""
        return _Choices(self.fixed, core, self.random, self.drawn)

    def choose(self, flow: Blocks, block: int, iterations: tuple[int, ...]) -> int:
        """A trip count, or an arm (0: the first successor)."""
        core = self.core if flow.divergent[block] else NONE
        if self.random is None:
            return self.fixed[block, core]
        place = block, core, iterations
        if place not in self.drawn:
            self.drawn[place] = self.random.choice(flow.options(block))
        return self.drawn[place]


def _choices(flow: Blocks, cores: int, limit: int, random: Random) -> Iterator[_Choices]:
    """Equal choices for all executions of a block first, then mixed ones."""
    places: list[_Place] = []
    for block, targets in enumerate(flow.successors):
        if len(targets) > 1:
            places += [(block, core) for core in range(cores)] if flow.divergent[block] else [(block, NONE)]
    options = [flow.options(block) for block, _ in places]
    count = 1
    for each in options:
        count *= len(each)
    uniform = list(product(*options)) if count <= 4096 else []
    if not uniform or len(uniform) > limit:
        uniform = [tuple(random.choice(each) for each in options) for _ in range(limit)]
    for chosen in uniform:
        yield _Choices(dict(zip(places, chosen, strict=True)))
    for _ in range(limit - len(uniform) if any(len(each) > 1 for each in options) else 0):
        yield _Choices({}, random=random)


def _walk(flow: Blocks, choices: _Choices, steps: int) -> Walk:
    visits: list[Visit] = []
    loops: list[int] = []
    counts: list[int] = []
    left: list[int] = []
    arms: list[tuple[int, int, int]] = []
    """Divergent branches that are not joined yet: block, arm, join."""
    block = 0
    while flow.successors:
        targets = flow.successors[block]
        if len(visits) > steps:
            raise NotStraightError("too many iterations")
        while arms and arms[-1][2] == block:
            arms.pop()
        around = tuple((fork, arm) for fork, arm, _ in arms)
        if len(targets) == 2 and flow.is_header(block):
            if not loops or loops[-1] != block:
                left.append(choices.choose(flow, block, tuple(counts)))
                loops.append(block)
                counts.append(0)
            visits.append(Visit(block, tuple(loops), tuple(counts), around))
            if left[-1] > 0:
                left[-1] -= 1
                block = targets[0]
            else:
                for each in (loops, counts, left):
                    each.pop()
                block = targets[1]
            continue
        visits.append(Visit(block, tuple(loops), tuple(counts), around))
        if len(targets) == 2:
            arm = choices.choose(flow, block, tuple(counts))
            if flow.divergent[block]:
                arms.append((block, arm, flow.successors[targets[1] - 1][0]))
            block = targets[arm]
            continue
        if not targets:
            if loops:
                raise NotStraightError("a loop that is left from inside")
            return tuple(visits)
        if loops and targets[0] == loops[-1]:
            counts[-1] += 1
        elif not loops and any(visit.block == targets[0] for visit in visits):
            raise NotStraightError("a back edge to no header")
        block = targets[0]
    return ()
