"""Which engines regions use, as bit sets (bit `1 << Engine`).

Engines *uncertain* in a loop may stand still in a turn of it, or in all: those of arms and of loops that need not
run. Whoever wants to know that they are done cannot wait for their last instruction; there may have been none. So the
loop's join waits for what they did before the loop too, and a branch's join for what they did before the fork.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from haulout.analysis.regions import Regions
from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program


@dataclass(frozen=True, slots=True)
class RegionEngines:
    """Bit sets by index of region, and of branch."""

    body: list[int]
    """All that a region contains; of a loop without its header, which always runs."""
    uncertain: list[int]
    """Of loops."""
    branch: list[int]
    """All that a branch's arms contain."""


def region_engines(program: Program, found: Regions) -> RegionEngines:
    """What every region and branch uses."""
    in_block = np.zeros(len(program.blocks), np.int64)
    rows = program.instructions
    np.bitwise_or.at(in_block, rows.block, np.int64(1) << rows.engine.astype(np.int64))
    body = [
        int(np.bitwise_or.reduce(in_block[region.first + region.is_loop : region.last + 1]))
        for region in found.regions
    ]
    uncertain = [0] * len(body)
    # Inner regions stand behind outer ones.
    for index in range(len(body) - 1, -1, -1):
        region = found.regions[index]
        if region.is_loop and region.may_not_run:
            uncertain[index] = body[index]
        if region.parent != NONE:
            uncertain[region.parent] |= uncertain[index] if region.is_loop else body[index]
    branch = [0] * len(found.branches)
    for index, region in enumerate(found.regions):
        if not region.is_loop:
            branch[region.branch] |= body[index]
    return RegionEngines(body, uncertain, branch)


def engines_in(mask: int) -> list[Engine]:
    """The engines of a bit set."""
    return [engine for engine in Engine if mask >> engine & 1]
