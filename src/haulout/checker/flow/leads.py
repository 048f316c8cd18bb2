"""The choices that lead to a place of the text."""

from __future__ import annotations

from haulout.checker.paths.runs import Choice
from haulout.ir.enums import NONE
from haulout.ir.structure import Arm, Structure


def lead_to(
    structure: Structure, block: int, core: int, later: tuple[int, int], path: dict[Choice, int]
) -> tuple[int, ...]:
    """Choose what leads to a block, in a later iteration of the loop of a level, and the first one of others. Returns
    the iterations of the loops around it.
    """
    around: tuple[int, ...] = ()
    for number in structure.around(block):
        region = structure.regions[number]
        if isinstance(region, Arm):
            fork = structure.forks[region.fork]
            path[fork.block, around, core if fork.divergent else NONE] = region.side
            continue
        turn = later[1] if len(around) + 1 == later[0] else 0
        if region.trip == NONE:
            key = region.header, around, NONE
            path[key] = max(path.get(key, 0), turn + (block != region.header))
        around = (*around, turn)
    return around
