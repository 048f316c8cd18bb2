"""What the iterations that a run leaves out would do to semaphores.

A run executes some iterations of a loop, and stands for all that do the same (`runs.py`). Two things would be
different with all of them.

1. They add to what stands behind. `wait_back` counts what its core issues before it, so it shrinks with the run. From
   a count that is a constant, what the iterations left out would have added before is subtracted. (Where a wait for a
   constant stands in the loop, `wait_trips.py` has it run often enough.)

2. Engines run ahead: signals of later iterations may satisfy a wait before them, when those that it means have not
   been made yet. So signals of the last iteration count as often as one likes for waits before that iteration. For
   waits inside it nothing changes: what can happen to them happens to those of the iteration before as well. But a
   wait for a constant is in later iterations satisfied by more signals: for one in a loop that signals, or behind one
   with unknown trips, they count so as well.

   So it is with a `wait_back` where an iteration signals more than its core issues: when other cores signal it from
   arms of a divergent fork that it does not take. Such a wait stands still while the signals go on, and is taken for
   a constant, less what its core issues.

3. What `wait_back` counts may rise by more in each iteration than is signalled: such a wait is *outrun* in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haulout.checker.model import Model
from haulout.checker.paths.unroll import Unrolled
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
    outrun: list[Outrun]


class Outrun(NamedTuple):
    """A wait that is never satisfied once a loop has run often enough."""

    wait: int
    """Its row."""
    loop: str
    """`^header`."""
    wanted: int
    """How much its count rises in an iteration."""
    added: int
    """How much is signalled in an iteration."""


class Given(NamedTuple):
    """Signals and waits of a model, as columns. A semaphore is a number, the same on both sides."""

    signal: Ids
    to: Ints
    issued: Ints
    """Of each signal: the semaphore of that name of the signalling core; what `wait_back` counts."""
    amount: Ints
    wait: Ids
    semaphore: Ints
    value: Ints
    constant: Bools


def left_out(model: Model, given: Given) -> LeftOut:
    """What a run leaves out, for each wait and signal."""
    if model.unrolled is None:
        waits = np.zeros(len(given.wait), np.int32)
        return LeftOut(waits, waits.astype(np.int64), np.full(len(given.signal), -1, np.int32), [])
    of_row = model.unrolled.execution[model.rows]
    place, signal_place = of_row[given.wait], of_row[given.signal]
    added, issued = (_by_place(signal_place, key, given.amount) for key in (given.to, given.issued))
    instances = list(_instances(model.unrolled))
    after: list[tuple[int, dict[int, int]]] = []
    after_issued: list[tuple[int, dict[int, int]]] = []
    open_until = np.full(len(model.unrolled.run.executions), -1, np.int32)
    for each in instances:
        if each.is_open:
            inside = [at for at, iteration in each.places if iteration >= each.times - 1]
            open_until[inside] = np.maximum(open_until[inside], inside[0])
        if each.missing > 0:
            for by_place, so_far in ((added, after), (issued, after_issued)):
                if sums := _missing(each, by_place, so_far):
                    so_far.append((each.places[-1][0], sums))
    omitted = np.zeros(len(given.wait), np.int64)
    shown = place.copy()
    rates = {id(each): (_rate(each, added), _rate(each, issued)) for each in instances if each.is_open}
    for row, constant in enumerate(given.constant.tolist()):
        at, key = int(place[row]), int(given.semaphore[row])
        omitted[row] = sum(sums.get(key, 0) for end, sums in after if end < at)
        if not constant:
            counted = sum(sums.get(key, 0) for end, sums in after_issued if end < at)
            omitted[row] = max(omitted[row] - counted, 0)
        for each in instances:
            begin, end = each.places[0][0], each.places[-1][0]
            within = begin <= at <= end or (at > end and each.missing == NONE)
            if not within or not each.is_open:
                continue
            if constant:
                grows = any(key in added.get(inside, {}) for inside, _ in each.places)
            else:
                comes, expected = rates[id(each)]
                grows = comes.get(key, 0) > expected.get(key, 0)
            if grows:
                shown[row] = -1
    return LeftOut(shown, omitted, open_until[signal_place], _outrun(given, place, instances, added, issued))


def _outrun(
    given: Given,
    place: Ids,
    instances: Sequence[_Instance],
    added: dict[int, dict[int, int]],
    issued: dict[int, dict[int, int]],
) -> list[Outrun]:
    total: dict[int, int] = {}
    for key, amount in zip(given.to.tolist(), given.amount.tolist(), strict=True):
        _add(total, key, amount)
    found: list[Outrun] = []
    for each in instances:
        if not each.is_open:
            continue
        rates = [_rate(each, sums) for sums in (issued, added)]
        for row in np.flatnonzero(~given.constant & (place >= each.places[0][0])).tolist():
            key = int(given.semaphore[row])
            wanted, comes = (rate.get(key, 0) for rate in rates)
            short = int(given.value[row]) - total.get(key, 0)
            if wanted > comes and (each.missing == NONE or short + each.missing * (wanted - comes) > 0):
                found.append(Outrun(row, each.name, wanted, comes))
    return found


def _rate(each: _Instance, by_place: dict[int, dict[int, int]]) -> dict[int, int]:
    """Sums over the last iteration."""
    rate: dict[int, int] = {}
    for at, iteration in each.places:
        if iteration == each.times - 1:
            for key, amount in by_place.get(at, {}).items():
                _add(rate, key, amount)
    return rate


def _by_place(place: Ids, keys: Ints, amounts: Ints) -> dict[int, dict[int, int]]:
    """Place -> semaphore -> sum."""
    found: dict[int, dict[int, int]] = {}
    for at, key, amount in zip(place.tolist(), keys.tolist(), amounts.tolist(), strict=True):
        _add(found.setdefault(at, {}), key, amount)
    return found


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
    name: str
    """`^header`."""


def _instances(unrolled: Unrolled) -> Iterator[_Instance]:
    """Inner ones first, since an outer iteration that is left out has inner ones."""
    structure, run = unrolled.structure, unrolled.run
    found: dict[tuple[int, int, tuple[int, ...]], list[tuple[int, int]]] = {}
    for at, (block, iterations) in enumerate(run.executions):
        for depth, loop in enumerate(structure.loops_around(block)):
            found.setdefault((-depth, loop, iterations[:depth]), []).append((at, iterations[depth]))
    exact = {place for place, _ in run.shortened}
    for (_, loop, _), places in sorted(found.items()):
        end, times = places[-1]
        trip, name = structure.loops[loop].trip, unrolled.flow.name(structure.loops[loop].header)
        if trip == NONE:
            yield _Instance(places, times, NONE, times > 0 and end not in exact, name)
        else:
            yield _Instance(places, times, trip - times, 0 < times < trip, name)


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
