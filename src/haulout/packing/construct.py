"""Placements made in one go: dives by every key, best fit in XLA's orders.

`place` is one construction under given priorities, by the means that the instance allows:

    plain        a dive
    with holes   a dive over the ranges as if without holes, then everything settles into them; or fit by gaps
                 (the holes are not used where that would take too long)
    with pins    fit by gaps, in the order of priority, around the pinned rows
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np

from haulout.packing.best_fit import _scan_line, best_fit, cost, settle, xla_orders
from haulout.packing.dive import _scan_dive, dive
from haulout.packing.incumbent import Incumbent
from haulout.packing.instance import F64, Instance
from haulout.packing.keys import KEYS, key
from haulout.packing.problem import I64
from haulout.support.jit import interpreted, plain_if_small

_COST = 20_000_000_000  # of a best fit by gaps, above which holes are not used; XLA's orders are tried up to a tenth
_MANY = 200_000  # rows above which three dives have to do
_PLAIN = 64  # rows up to which kernels are not compiled for construction
_PLAIN_AT_FIRST = 4_000  # rows constructed in plain Python in all, as long as the kernels are not loaded


def place(instance: Instance, priority: F64, variant: bool) -> tuple[I64, int]:
    """One construction; offsets and peak in units, peak -1 when 2**62 was passed.

    `variant`: the fullest column first for a dive; with holes, the lowest gap in the order of priority instead of a
    dive; with pins, the tightest gap instead of the lowest.
    """
    holes = instance.has_holes and cost(instance) <= _COST
    if instance.has_pins or (holes and variant):
        order = np.argsort(-priority, kind="stable")
        return best_fit(instance, order, tight=variant and instance.has_pins)
    offset, peak = dive(instance, priority, variant)
    return settle(instance, offset) if holes and peak >= 0 else (offset, peak)


def construct(state: Incumbent) -> None:
    """Offer one placement a key and variant, and XLA's two, until the goal is reached.

    Small instances are constructed in plain Python, so that a handful of buffers does not wait for the compiler; the
    results are the same.
    """
    if state.over:
        return
    instance = state.instance
    rows = len(instance)
    gaps = instance.has_pins or instance.has_holes
    many = rows > _MANY or (gaps and cost(instance) > _COST // 50)
    if state.hint is not None:
        with _plain(instance, 0):
            _follow_hint(state, state.hint)
    tries = [(name, variant) for variant in (False, True) for name in KEYS]
    for number, (name, variant) in enumerate(tries[:3] if many else tries):
        if state.over:
            return
        fits = instance.has_pins or (variant and instance.has_holes)
        with _plain(instance, number):
            offset, peak = place(instance, key(instance, name), variant)
        state.offer(offset, peak, f"{'fit' if fits else 'dive'} by {name}")
        state.count("constructions")
    if not many and cost(instance) <= _COST // 10:
        for order in xla_orders(instance):
            if state.over:
                return
            with _plain(instance, len(tries)):
                state.offer(*best_fit(instance, order), "best fit")
            state.count("constructions")


def _plain(instance: Instance, number: int) -> AbstractContextManager[None]:
    """Plain Python for construction `number` where that is done before the compiler would be."""
    rows = len(instance)
    if rows <= _PLAIN:
        return interpreted()
    gaps = instance.has_pins or instance.has_holes
    work = rows * (number + 1) * (4 if gaps else 1)
    return plain_if_small(_scan_line if gaps else _scan_dive, work, _PLAIN_AT_FIRST)


def _follow_hint(state: Incumbent, hint: I64) -> None:
    """First fit in the order of the hinted offsets, rows without one last: no row ends higher than a valid hint."""
    instance = state.instance
    order = np.lexsort((np.arange(len(instance)), np.where(hint < 0, np.iinfo(np.int64).max, hint)))
    state.offer(*best_fit(instance, order, tight=False), "hint")
    state.count("constructions")
