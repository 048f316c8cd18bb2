"""What the iterations that a run leaves out would do to semaphores.

A run executes some iterations of a loop, and stands for all that do the same (`runs.py`). Two things would be
different with all of them.

1. They add to what stands behind. `wait_back` counts what its core issues before it, so it shrinks with the run. From
   a count that is a constant, what the iterations left out would have added before is subtracted. (Where a wait for a
   constant stands in the loop, `constants.py` has it run often enough.)

2. Engines run ahead: signals of later iterations may satisfy a wait before them, when those that it means have not
   been made yet. So signals of the last iteration count as often as one likes for waits before that iteration. For
   waits inside it nothing changes: what can happen to them happens to those of the iteration before as well. But a
   wait for a constant is in later iterations satisfied by more signals: for one in a loop that signals, or behind one
   with unknown trips, they count so as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.check.model import Model
from haulout.check.unroll import Unrolled
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids, Ints


class LeftOut(NamedTuple):
    """Columns over waits and signals."""

    place: Ids
    """Of each wait: the execution that it stands in; -1: all signals that may be repeated are."""
    omitted: Ints
    """Of each wait: what was to be added to its semaphore before, and is left out."""
    open_until: Ids
    """Of each signal: for waits at places before this one it is repeated any number of times; -1: for none."""


def left_out(model: Model, signals: tuple[Ids, Ints, Ints], wait: Ids, for_key: Ints, constant: Bools) -> LeftOut:
    """For signals (instruction, semaphore, amount) and waits (instruction, semaphore, is it for a constant)."""
    instruction, to_key, amount = signals
    if model.unrolled is None:
        waits = np.zeros(len(wait), np.int32)
        return LeftOut(waits, waits.astype(np.int64), np.full(len(instruction), -1, np.int32))
    of_row = model.unrolled.execution[model.rows]
    place, signal_place = of_row[wait], of_row[instruction]
    by_place: dict[int, dict[int, int]] = {}
    for at, key, added in zip(signal_place.tolist(), to_key.tolist(), amount.tolist(), strict=True):
        _add(by_place.setdefault(at, {}), key, added)
    instances = list(_instances(model.unrolled))
    after: list[tuple[int, dict[int, int]]] = []
    open_until = np.full(len(model.unrolled.run.executions), -1, np.int32)
    for each in instances:
        if each.is_open:
            inside = [at for at, iteration in each.places if iteration >= each.times - 1]
            open_until[inside] = np.maximum(open_until[inside], inside[0])
        if each.missing > 0 and (sums := _missing(each, by_place, after)):
            after.append((each.places[-1][0], sums))
    omitted = np.zeros(len(wait), np.int64)
    shown = place.copy()
    for row in np.flatnonzero(constant).tolist():
        at, key = int(place[row]), int(for_key[row])
        omitted[row] = sum(sums.get(key, 0) for end, sums in after if end < at)
        for each in instances:
            begin, end = each.places[0][0], each.places[-1][0]
            within = begin <= at <= end or (at > end and each.missing == NONE)
            if within and each.is_open and any(key in by_place.get(inside, {}) for inside, _ in each.places):
                shown[row] = -1
    return LeftOut(shown, omitted, open_until[signal_place])


@dataclass(frozen=True, slots=True)
class _Instance:
    """A loop in given iterations of the loops around it."""

    places: list[tuple[int, int]]
    """(Place, iteration) of its executions."""
    times: int
    """Its iterations; the header's last execution is one more."""
    missing: int
    """Iterations left out; NONE: there may be any number."""
    is_open: bool
    """There may be more iterations than the run has."""


def _instances(unrolled: Unrolled) -> Iterator[_Instance]:
    """Inner ones first, since an outer iteration that is left out has inner ones."""
    nest, run = unrolled.nest, unrolled.run
    found: dict[tuple[int, int, tuple[int, ...]], list[tuple[int, int]]] = {}
    for at, (block, iterations) in enumerate(run.executions):
        for depth, loop in enumerate(nest.paths[block]):
            found.setdefault((-depth, loop, iterations[:depth]), []).append((at, iterations[depth]))
    exact = {place for place, _ in run.shortened}
    for (_, loop, _), places in sorted(found.items()):
        end, times = places[-1]
        trip = nest.loops[loop].trip
        if trip == NONE:
            yield _Instance(places, times, NONE, times > 0 and end not in exact)
        else:
            yield _Instance(places, times, trip - times, 0 < times < trip)


def _missing(
    each: _Instance, by_place: dict[int, dict[int, int]], after: list[tuple[int, dict[int, int]]]
) -> dict[int, int]:
    """What the iterations left out would add: as often as they are, what the last one does."""
    sums: dict[int, int] = {}
    last = [at for at, iteration in each.places if iteration == each.times - 1]
    if not last:
        return sums
    for at in last:
        for key, added in by_place.get(at, {}).items():
            _add(sums, key, each.missing * added)
    for end, more in after:
        if last[0] <= end <= last[-1]:
            for key, added in more.items():
                _add(sums, key, each.missing * added)
    return sums


def _add(sums: dict[int, int], key: int, added: int) -> None:
    sums[key] = sums.get(key, 0) + added
