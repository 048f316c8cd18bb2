"""Engines that do nothing between two barriers of all engines, or before the first of a function, or behind the last.

    block:  work @pe   |   work @act   |   work @pe       pe is idle between the barriers: it does not wait for the
                     first          second                first, and has nothing to tell the second

What an engine tells and what it waits for alternate in its list: here, go, here, go. A pair that goes away, go of the
first barrier and here of the second, leaves them alternating. So an engine tells a barrier only when the barrier
before it in that list has let it go, and no count runs ahead.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from haulout.ir.enums import NONE, Engine
from haulout.ir.program import Program


class Idle(NamedTuple):
    """(row of a barrier, engine) of barriers that an engine need not tell, and need not wait for."""

    before: set[tuple[int, Engine]]
    behind: set[tuple[int, Engine]]


def find_idle(program: Program) -> Idle:
    """Block by block; ends of a function count where its first and last block are no part of a loop."""
    idle = Idle(set(), set())
    engine = program.instructions.engine
    barriers = program.barriers.instruction
    fences = barriers[engine[barriers] == Engine.ALL]
    structure, block, function = program.structure, program.instructions.block, program.blocks.function
    starts = program.starts("instructions", "blocks").tolist()
    used = [
        np.unique(engine[program.instruction_function == each]).tolist() for each in range(len(program.functions))
    ]
    for here in np.unique(block[fences]).tolist():
        begin, end = starts[here], starts[here + 1]
        mine = fences[slice(*np.searchsorted(fences, [begin, end]))].tolist()
        whole = structure.region_of[here] == NONE
        opens = whole and structure.dominator[here] == NONE
        closes = whole and structure.post_dominator[here] == NONE
        cuts = [begin - 1, *mine, end]
        for first, second in pairwise(cuts):
            if (first < begin and not opens) or (second == end and not closes):
                continue
            busy = set(engine[first + 1 : second].tolist())
            for each in (each for each in used[function[here]] if each not in busy):
                if second < end:
                    idle.before.add((second, Engine(each)))
                if first >= begin:
                    idle.behind.add((first, Engine(each)))
    return idle
