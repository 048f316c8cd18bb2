"""Construction heuristics: dives by every key; best fit in XLA's orders.

`place` is one construction by given priorities. The method depends on the instance:

    plain        a dive
    with holes   a dive that ignores the holes, then `settle`, which fills them; or fit by gaps
                 (holes stay unused where filling them would take too long)
    with pins    fit by gaps, in the order of priority, around the pinned rows
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from haulout.packing.best_fit import _scan_line, best_fit, cost, settle, xla_orders
from haulout.packing.dive import _scan_dive, dive
from haulout.packing.incumbent import Incumbent
from haulout.packing.instance import F64, Instance
from haulout.packing.keys import KEYS, key
from haulout.packing.problem import I64
from haulout.support.jit import plain_if_small

_COST_LIMIT = 20_000_000_000  # of a best fit by gaps: above it holes stay unused, above a tenth no XLA orders
_ROWS_LIMIT = 800_000  # rows of all dives; with more rows there are fewer dives, and at least three
_LEAST_DIVES = 3
# The dives that come first where there is no time for all: mostly the best ones of 30,000 to 300,000 rows.
_OF_MANY = (
    ("area", False),
    ("load-area", True),
    ("area", True),
    ("load-area", False),
    ("size", True),
    ("span", True),
)
_LEAST_EFFORT = 0.1
_FIT_COST = 2_000_000_000  # of a best fit in XLA's order, times the effort: two seconds
_FIT_COST_A_ROW = 12_000  # the same for each row of a larger problem, so that no size is the last one with a fit
_MAX_PLAIN_ROWS = 64  # so few are always constructed in plain Python while the kernels are not loaded
_MAX_PLAIN_WORK = 1_200  # of more rows, so many in all: a dive takes about 30 microseconds a row
_MAX_UNSTORED_WORK = 8_000  # the same if the kernel has to be compiled: a quarter of a second
_VISITS = 200  # row visits of a best fit in that time


def plain_turn(instance: Instance) -> AbstractContextManager[None]:
    """Run `place` in plain Python for few rows, as long as that is faster than loading the kernels."""
    return _plain(instance, 0) if len(instance) <= _MAX_PLAIN_ROWS else nullcontext()


def place(instance: Instance, priority: F64, variant: bool) -> tuple[I64, int]:
    """One construction; offsets and peak in units, peak -1 when it exceeds 2**62 bytes.

    `variant`: a dive takes the fullest column first; with holes, first fit in the order of priority replaces the
    dive; with pins, best fit replaces first fit.
    """
    holes = instance.has_holes and cost(instance) <= _COST_LIMIT
    if instance.has_pins or (holes and variant):
        order = np.argsort(-priority, kind="stable")
        return best_fit(instance, order, tight=variant and instance.has_pins)
    offset, peak = dive(instance, priority, variant)
    return settle(instance, offset) if holes and peak >= 0 else (offset, peak)


def construct(state: Incumbent) -> None:
    """Offer a placement for each key and variant until the goal is reached.

    Small instances are constructed in plain Python, which is faster than loading the kernels; the results are equal.
    """
    if state.over:
        return
    instance = state.instance
    if state.hint is not None:
        with _plain(instance, 0):
            _follow_hint(state, state.hint)
    tries = [(name, variant) for variant in (False, True) for name in KEYS]
    gaps = instance.has_pins or instance.has_holes
    if (dives := _dives(instance)) < len(tries) and not gaps:
        tries = [*_OF_MANY, *(each for each in tries if each not in _OF_MANY)]
    for number, (name, variant) in enumerate(tries[:dives]):
        if state.over:
            return
        fits = instance.has_pins or (variant and instance.has_holes)
        with _plain(instance, number):
            offset, peak = place(instance, key(instance, name), variant)
        state.offer(offset, peak, f"{'fit' if fits else 'dive'} by {name}")
        state.count("constructions")


def fit(state: Incumbent, effort: float) -> None:
    """Offer the placements of XLA's heap, unless a fit would take too long: the result is never worse than XLA's."""
    instance = state.instance
    if cost(instance) <= max(effort, _LEAST_EFFORT) * max(_FIT_COST, _FIT_COST_A_ROW * len(instance)):
        for order in xla_orders(instance):
            if state.over:
                return
            with _plain_fit(instance):
                state.offer(*best_fit(instance, order), "best fit")
            state.count("constructions")


def _dives(instance: Instance) -> int:
    """How many constructions there are time for, so that a larger problem never takes less of it."""
    gaps = instance.has_pins or instance.has_holes
    few = gaps and cost(instance) > _COST_LIMIT // 50
    return _LEAST_DIVES if few else max(_LEAST_DIVES, _ROWS_LIMIT // max(len(instance), 1))


def _plain(instance: Instance, number: int) -> AbstractContextManager[None]:
    """Run construction `number` in plain Python if that is faster than loading the kernels."""
    rows = len(instance)
    gaps = instance.has_pins or instance.has_holes
    work = 4 * rows + cost(instance) // _VISITS if gaps else rows
    many = rows > _MAX_PLAIN_ROWS and work * (number + 1) > _MAX_PLAIN_WORK
    kernel = _scan_line if gaps else _scan_dive
    return plain_if_small(kernel, work, 0 if many else _MAX_PLAIN_WORK, unstored=_MAX_UNSTORED_WORK)


def _plain_fit(instance: Instance) -> AbstractContextManager[None]:
    """The same for a best fit; two of them are done sooner than their kernel is compiled."""
    work = len(instance) + cost(instance) // _VISITS
    limit = _MAX_PLAIN_WORK if len(instance) <= _MAX_PLAIN_ROWS else 0
    return plain_if_small(_scan_line, work, limit, unstored=4 * _MAX_PLAIN_WORK)


def _follow_hint(state: Incumbent, hint: I64) -> None:
    """First fit by ascending hint, rows without one last. A valid hint is never made worse."""
    instance = state.instance
    order = np.lexsort((np.arange(len(instance)), np.where(hint < 0, np.iinfo(np.int64).max, hint)))
    state.offer(*best_fit(instance, order, tight=False), "hint")
    state.count("constructions")
