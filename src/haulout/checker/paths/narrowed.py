"""What is left of a function without the choices that no run survives.

A run that is stuck shows nothing else. So once a choice is known to lead to no other runs, and one of them is shown,
the rest is judged without it: a loop does not run, a fork takes its other arm, cores take the same arm of a divergent
fork. Runs are still made of the function as it is written, with these choices made for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from haulout.checker.paths.runs import Choice, Choose, Path
from haulout.ir.enums import NONE
from haulout.ir.structure import Arm, Loop, Structure


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Choices that are made."""

    sides: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(Block of a fork, core; NONE: all that come there) -> the arm that is left."""
    alike: frozenset[int] = frozenset()
    """Blocks of divergent forks of which all cores take the same arm."""
    unused: frozenset[int] = frozenset()
    """Headers of loops that do not run."""

    def __bool__(self) -> bool:
        """Whether any is."""
        return bool(self.sides or self.alike or self.unused)

    def structure(self, structure: Structure) -> Structure:
        """What is left of a structure; sides are no part of it."""
        if not (self.alike or self.unused):
            return structure
        regions = tuple(
            replace(each, trip=0) if isinstance(each, Loop) and each.header in self.unused else each
            for each in structure.regions
        )
        forks = tuple(
            replace(each, divergent=False) if each.block in self.alike else each for each in structure.forks
        )
        return replace(structure, regions=regions, forks=forks)

    def left(self, choice: Choice, options: Sequence[int], path: Path) -> Sequence[int]:
        """The options of a choice, where others of a `path` are made."""
        block, around, core = choice
        if block in self.unused:
            return (0,)
        if block in self.alike:
            core = NONE
        if (side := self.sides.get((block, core))) is not None:
            return (side,)
        made = path.get((block, around, NONE)) if block in self.alike else None
        return options if made is None else (made,)

    def follow(self, path: Path) -> Choose:
        """Chooses as a path through what is left says, and else so that least runs."""

        def choose(choice: Choice, options: Sequence[int], least: int) -> int:
            left = self.left(choice, options, path)
            return path.get(choice, least) if left is options else left[0]

        return choose

    def without(self, structure: Structure, block: int, core: int) -> Narrowed | None:
        """What is left where each run that comes to a block on a core is stuck; None: nothing.

        `structure` is what is left by now. A region is left out as a whole, so where other cores might run it
        without this one, what they do there is left out as well.
        """
        at = block
        for number in reversed(structure.around(block)):
            region = structure.regions[number]
            if isinstance(region, Arm):
                fork = structure.forks[region.fork]
                at, key = fork.block, (fork.block, core if fork.divergent else NONE)
                if self.sides.get(key, 1 - region.side) == 1 - region.side:
                    return replace(self, sides={**self.sides, key: 1 - region.side})
            elif region.trip == NONE and at != region.header:
                return replace(self, unused=self.unused | {region.header})
            else:
                at = region.header
        return None
