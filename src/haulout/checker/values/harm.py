"""Reads of unwritten bytes that do harm, the first one of each location.

Bytes that reach nothing together reach nothing alone. So many are tried at once, and only halves that reach something
are searched further. The converse does not hold: a read may need those before it, because an access with unknown
bytes certainly takes undefined ones only when all bytes that it may touch are undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.sendrecv import SendRecvs
from haulout.checker.values.undefined import Flow, Reach, Read
from haulout.checker.values.undefined_in_loops import AnyOrderFlow
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids

T = TypeVar("T")


class Harm(NamedTuple):
    """A read of unwritten bytes, the first of its location that does harm."""

    location: int
    read: Read
    reach: Reach
    certain: bool
    in_other_run: bool
    """The bytes reach nothing in this run, but may in another one (`AnyOrderFlow`)."""
    times: int
    """Reads of such bytes of this location."""


def find_harm(model: Model, schedule: Ids, sendrecvs: SendRecvs, locations: Sequence[int], limit: int) -> list[Harm]:
    """For each of some locations the first read that does harm, at most `limit` of them."""
    flow = Flow(model, schedule, sendrecvs)
    reads = {location: flow.missing(location) for location in locations}
    found = []
    for location in guilty(list(reads), lambda some: flow.reach(_all(reads, some), False) is not None, limit):
        mine = reads[location]
        sure = [each for each in mine if each.certain]
        certain = flow.reach(sure, True) is not None
        mine = sure if certain else mine
        read, reach = _first(mine, partial(flow.reach, certain=certain))
        found.append(Harm(location, read, reach, certain, False, len(mine)))
    if model.unrolled is None or len(found) == limit:
        return found
    source = model.unrolled.source
    rows = np.unique(source.instruction_function[model.unrolled.origin[model.unrolled.origin != NONE]])
    in_other_run = AnyOrderFlow(source, rows.tolist(), model.owners())
    known = {each.location for each in found}
    left = [location for location in reads if location not in known]

    def spreads(some: Sequence[Read]) -> Reach | None:
        return in_other_run.reach([(int(flow.owner[each.access]), each.missing) for each in some])

    for location in guilty(left, lambda some: spreads(_all(reads, some)) is not None, limit - len(found)):
        read, reach = _first(reads[location], spreads)
        found.append(Harm(location, read, reach, False, True, len(reads[location])))
    return found


def _all(reads: dict[int, list[Read]], locations: Iterable[int]) -> list[Read]:
    return [read for location in locations for read in reads[location]]


def guilty(some: list[T], is_guilty: Callable[[list[T]], bool], limit: int) -> list[T]:
    """Locations whose reads do harm, or reads that do, at most `limit` of them; several are tried at once."""
    if not some or limit <= 0 or not is_guilty(some):
        return []
    if len(some) == 1:
        return some
    half = len(some) // 2
    found = guilty(some[:half], is_guilty, limit)
    return found + guilty(some[half:], is_guilty, limit - len(found))


def _first(reads: Sequence[Read], reach: Callable[[Sequence[Read]], Reach | None]) -> tuple[Read, Reach]:
    """The first of some reads that reaches something, alone or with those before it, and what it reaches."""
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
