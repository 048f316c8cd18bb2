"""Which engines regions use, as bit sets (bit `1 << Engine`).

An engine is *uncertain* in a loop if it may execute nothing in an iteration, because its instructions are in arms or
in loops that need not run. A wait for its last instruction does not say that it is idle, since there may be none. So
the join of a loop also waits for what uncertain engines did before the loop, and the join of a fork for what they did
before the fork.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from haulout.ir.enums import Engine
from haulout.ir.program import Program
from haulout.ir.structure import Loop


@dataclass(frozen=True, slots=True)
class RegionEngines:
    """Bit sets by the number of the region, and of the fork."""

    body: dict[int, int]
    """All that a region contains; of a loop without its header, which always runs."""
    uncertain: dict[int, int]
    """Of loops: in an iteration, or in all of them."""
    forks: dict[int, int]
    """All that the arms of a fork contain."""


def region_engines(program: Program) -> RegionEngines:
    """What every region and fork uses."""
    structure, rows = program.structure, program.instructions
    used = np.zeros(len(program.blocks), np.int64)
    np.bitwise_or.at(used, rows.block, np.int64(1) << rows.engine.astype(np.int64))
    in_block: list[int] = used.tolist()
    body: dict[int, int] = {}
    uncertain: dict[int, int] = {}

    def loop(each: Loop, header: tuple[int, int], inside: tuple[int, int]) -> tuple[int, int]:
        number = structure.loop_at[each.header]
        body[number] = inside[0]
        uncertain[number] = inside[0] if each.may_not_run else inside[1]
        return header[0] | inside[0], uncertain[number]

    def joined(parts: list[tuple[int, int]]) -> tuple[int, int]:
        return reduce(or_, (part[0] for part in parts), 0), reduce(or_, (part[1] for part in parts), 0)

    # (engines, those that are uncertain) of each part
    found = structure.fold(
        lambda block: (in_block[block], 0), joined, loop, lambda fork, arms: (joined(arms)[0],) * 2
    )
    return RegionEngines(
        {number: body.get(number, engines) for number, (engines, _) in found.regions.items()},
        uncertain,
        {number: engines for number, (engines, _) in found.forks.items()},
    )


def engines_in(mask: int) -> list[Engine]:
    """The engines of a bit set."""
    return [engine for engine in Engine if mask >> engine & 1]
