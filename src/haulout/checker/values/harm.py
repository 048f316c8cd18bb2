"""Which reads of bytes that nothing has written do harm, and what is the first of each location.

Bytes that reach nothing together reach nothing alone. So many are tried at once, and only halves that reach something
are looked at again. The other way round, one read may need those before it: an access that touches some bytes, not
known which, takes over undefined ones for certain when all of them are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.sendrecv import Meetings
from haulout.checker.values.undefined import Flow, Reach, Read
from haulout.checker.values.undefined_in_loops import Everywhere
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids


class Harm(NamedTuple):
    """A read of bytes that nothing has written, the first of its location that does harm."""

    location: int
    read: Read
    reach: Reach
    certain: bool
    everywhere: bool
    """In the run at hand they reach nothing, but in another they may (`Everywhere`)."""
    times: int
    """Reads of such bytes of this location."""


def find_harm(model: Model, events: Ids, meetings: Meetings, locations: Sequence[int], most: int) -> list[Harm]:
    """For each of some locations the first read that does harm, `most` of them."""
    flow = Flow(model, events, meetings)
    reads = {location: flow.missing(location) for location in locations}
    found = []
    for location in _guilty(list(reads), lambda some: flow.reach(_all(reads, some), False) is not None, most):
        mine = reads[location]
        sure = [each for each in mine if each.certain]
        certain = flow.reach(sure, True) is not None
        mine = sure if certain else mine
        read, reach = _first(mine, partial(flow.reach, certain=certain))
        found.append(Harm(location, read, reach, certain, False, len(mine)))
    if model.unrolled is None or len(found) == most:
        return found
    source = model.unrolled.source
    rows = np.unique(source.instruction_function[model.unrolled.origin[model.unrolled.origin != NONE]])
    everywhere = Everywhere(source, rows.tolist(), model.owners())
    guilty = {each.location for each in found}
    left = [location for location in reads if location not in guilty]

    def spreads(some: Sequence[Read]) -> Reach | None:
        return everywhere.reach([(int(flow.owner[each.access]), each.missing) for each in some])

    for location in _guilty(left, lambda some: spreads(_all(reads, some)) is not None, most - len(found)):
        read, reach = _first(reads[location], spreads)
        found.append(Harm(location, read, reach, False, True, len(reads[location])))
    return found


def _all(reads: dict[int, list[Read]], locations: Iterable[int]) -> list[Read]:
    return [read for location in locations for read in reads[location]]


def _guilty(locations: list[int], is_guilty: Callable[[list[int]], bool], most: int) -> list[int]:
    """Those of some locations that are guilty, at most so many; several are tried at once."""
    if not locations or most <= 0 or not is_guilty(locations):
        return []
    if len(locations) == 1:
        return locations
    half = len(locations) // 2
    found = _guilty(locations[:half], is_guilty, most)
    return found + _guilty(locations[half:], is_guilty, most - len(found))


def _first(reads: Sequence[Read], reach: Callable[[Sequence[Read]], Reach | None]) -> tuple[Read, Reach]:
    """The first of some reads that reaches something, alone or with those before it, and what; together they do."""
    low, high = 0, len(reads) - 1
    while low < high:
        middle = (low + high) // 2
        if reach(reads[: middle + 1]) is None:
            low = middle + 1
        else:
            high = middle
    found = reach(reads[: low + 1])
    assert found is not None
    return reads[low], found
