"""Which forks have the same meetings in both arms, so that cores meet whichever arm each of them chooses.

Then what a core knows at a meeting is what its own arm says and, of other cores, what both of their arms say
(`claims.py`). The meetings are barriers of all cores, the same sequence of engines in both arms on every core.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from haulout.checker.flow.apart import Meetings, find_apart
from haulout.checker.flow.constants import Settled
from haulout.checker.flow.events import Events, refused
from haulout.checker.flow.refusal import Refusal, Stuck
from haulout.checker.flow.steps import Cuts
from haulout.checker.model import Model, Runs
from haulout.checker.order.barriers import Barriers
from haulout.ir.schema import Ids
from haulout.ir.structure import Arm

_APART = "in an arm that each core chooses for itself"


@dataclass(slots=True)
class Parts:
    """The forks whose arms are walked in parts."""

    cuts: dict[int, Cuts] = field(default_factory=dict)
    """By the number of the fork."""
    twins: list[tuple[int, int]] = field(default_factory=list)
    """Events of two barriers, one in each arm, that are the same meeting."""


def find_parts(
    runs: Runs, settled: Settled, model: Model, events: Events, barriers: Barriers, meetings: Ids
) -> Parts | Refusal:
    """The forks that have `meetings`, events in arms that each core chooses for itself."""
    found, structure = Parts(), runs.flow.structure
    if apart := _apart(runs, settled, model, events, barriers, meetings):
        return apart
    count = np.zeros(len(model.rows), np.int32)
    count[barriers.instruction] = np.array([len(each) for each in barriers.members], np.int32)[barriers.cores]
    sequences: dict[int, tuple[list[list[int]], list[list[int]]]] = {}
    for event in meetings.tolist():
        block, instruction = int(events.block[event]), int(events.instruction[event])
        fork, region = structure.divergent_fork(block), structure.regions[structure.region_of[block]]
        if not isinstance(region, Arm) or region.fork != fork:
            return refused(model, events, event, f"is inside a loop or a branch {_APART}")
        if count[instruction] != model.cores:
            kind = "a barrier of some cores" if count[instruction] else "a sendrecv"
            return refused(model, events, event, f"is {kind} {_APART}")
        if fork not in sequences:
            sequences[fork] = [[] for _ in range(model.cores)], [[] for _ in range(model.cores)]
        sequences[fork][region.side][int(events.core[event])].append(event)
    for fork, sides in sequences.items():
        engines = [model.engine[events.instruction[each]].tolist() for side in sides for each in side]
        if engines.count(engines[0]) < len(engines):
            event = next(each[0] for side in sides for each in side if each)
            why = f"is {_APART}, and not all arms of all cores have the same barriers"
            return refused(model, events, event, why)
        found.cuts[fork] = sides
        found.twins += zip(sides[0][0], sides[1][0], strict=True)
    return found


def _apart(
    runs: Runs, settled: Settled, model: Model, events: Events, barriers: Barriers, meetings: Ids
) -> Stuck | None:
    """The first fork that has arms which cores cannot take together, if all meetings are in the arms themselves."""
    structure, forks = runs.flow.structure, set[int]()
    for block in np.unique(events.block[meetings]).tolist():
        fork, region = structure.divergent_fork(block), structure.regions[structure.region_of[block]]
        if not isinstance(region, Arm) or region.fork != fork:
            return None
        forks.add(fork)
    if not forks:
        return None
    return find_apart(Meetings(structure, model, events, barriers), sorted(forks), settled, runs.narrowed)
