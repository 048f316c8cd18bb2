"""What the iterations that a run skips would do to semaphores.

A run executes some iterations of a loop and represents all runs that do the same (`runs.py`). With all iterations
three things would be different.

1. Skipped iterations add to semaphores before later waits. `wait_back` counts what its core issues before it, so it
   shrinks with the run. From a count that is a constant, what the skipped iterations would have added is subtracted.
   (Where a wait for a constant is in the loop, `wait_trips.py` makes the loop run often enough.)

2. Engines run ahead: signals of later iterations may satisfy a wait before them, when those that it means have not
   been made yet. So signals of the last iteration count any number of times for waits before that iteration. For
   waits inside it nothing changes: what can happen to them happens to those of the previous iteration as well. But in
   later iterations more signals satisfy a wait for a constant: for one in a loop that signals, or after one with
   unknown trips, they count any number of times too.

   The same holds for a `wait_back` where an iteration signals more than its core issues, which happens when other
   cores signal it from arms of a divergent fork that this core does not take. Its count stays while the signals go
   on, so it is treated as a constant, less what its core issues.

3. What `wait_back` counts may rise by more in each iteration than the signals add: such a wait is *outrun* at last.
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


class Skipped(NamedTuple):
    """Columns over waits and signals."""

    place: Ids
    """Of each wait: its execution; -1: every signal that may be repeated is repeated."""
    omitted: Ints
    """Of each wait: what the skipped iterations would have added to its semaphore before."""
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
    """How much its signals add in an iteration."""


class SemaphoreOps(NamedTuple):
    """Signals and waits of a model, as columns. Semaphores have one numbering for both."""

    signal: Ids
    to: Ints
    issued: Ints
    """Of each signal: the semaphore of that name on the signalling core, which `wait_back` counts."""
    amount: Ints
    wait: Ids
    semaphore: Ints
    value: Ints
    constant: Bools


def find_skipped(model: Model, ops: SemaphoreOps) -> Skipped:
    """What a run skips, for each wait and signal."""
    if model.unrolled is None:
        waits = np.zeros(len(ops.wait), np.int32)
        return Skipped(waits, waits.astype(np.int64), np.full(len(ops.signal), -1, np.int32), [])
    of_row = model.unrolled.execution[model.rows]
    place, signal_place = of_row[ops.wait], of_row[ops.signal]
    added, issued = (_by_place(signal_place, key, ops.amount) for key in (ops.to, ops.issued))
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
    omitted = np.zeros(len(ops.wait), np.int64)
    seen_from = place.copy()
    rates = {id(each): (_rate(each, added), _rate(each, issued)) for each in instances if each.is_open}
    for row, constant in enumerate(ops.constant.tolist()):
        at, key = int(place[row]), int(ops.semaphore[row])
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
                seen_from[row] = -1
    return Skipped(seen_from, omitted, open_until[signal_place], _outrun(ops, place, instances, added, issued))


def _outrun(
    ops: SemaphoreOps,
    place: Ids,
    instances: Sequence[_LoopInstance],
    added: dict[int, dict[int, int]],
    issued: dict[int, dict[int, int]],
) -> list[Outrun]:
    total: dict[int, int] = {}
    for key, amount in zip(ops.to.tolist(), ops.amount.tolist(), strict=True):
        _add(total, key, amount)
    found: list[Outrun] = []
    for each in instances:
        if not each.is_open:
            continue
        rates = [_rate(each, sums) for sums in (issued, added)]
        for row in np.flatnonzero(~ops.constant & (place >= each.places[0][0])).tolist():
            key = int(ops.semaphore[row])
            wanted, comes = (rate.get(key, 0) for rate in rates)
            short = int(ops.value[row]) - total.get(key, 0)
            if wanted > comes and (each.missing == NONE or short + each.missing * (wanted - comes) > 0):
                found.append(Outrun(row, each.name, wanted, comes))
    return found


def _rate(each: _LoopInstance, by_place: dict[int, dict[int, int]]) -> dict[int, int]:
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
class _LoopInstance:
    """A loop in given iterations of the loops around it."""

    places: list[tuple[int, int]]
    """(Place, iteration) of its executions."""
    times: int
    """Its iterations; the header's last execution is one more."""
    missing: int
    """Skipped iterations; NONE: there may be any number."""
    is_open: bool
    """The program may have more iterations than the run."""
    name: str
    """`^header`."""


def _instances(unrolled: Unrolled) -> Iterator[_LoopInstance]:
    """Inner ones first, since a skipped outer iteration has inner ones."""
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
            yield _LoopInstance(places, times, NONE, times > 0 and end not in exact, name)
        else:
            yield _LoopInstance(places, times, trip - times, 0 < times < trip, name)


def _missing(
    each: _LoopInstance, by_place: dict[int, dict[int, int]], after: list[tuple[int, dict[int, int]]]
) -> dict[int, int]:
    """What the skipped iterations would add: each of them what the last executed one adds."""
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
