"""Placements made in one go: dives by every key, best fit in XLA's orders.

`place` is one construction under given priorities, by the means that the instance allows:

    plain        a dive
    with holes   a dive over the ranges as if without holes, then everything settles into them; or fit by gaps
                 (above 20,000 rows the holes are not used)
    with pins    fit by gaps, in the order of priority, around the pinned rows
"""

from __future__ import annotations

import numpy as np

from haulout.passes.allocator.best_fit import best_fit, settle, xla_orders
from haulout.passes.allocator.dive import dive
from haulout.passes.allocator.incumbent import Incumbent
from haulout.passes.allocator.instance import F64, Instance
from haulout.passes.allocator.keys import KEYS, key
from haulout.passes.allocator.problem import I64

_QUADRATIC = 20_000  # rows above which best fit, of O(n^2), is used only where nothing else applies
_MANY = 200_000  # rows above which three dives have to do


def place(instance: Instance, priority: F64, variant: bool) -> tuple[I64, int]:
    """One construction; offsets and peak in units, peak -1 when 2**62 was passed.

    `variant`: the fullest column first for a dive; with holes, the lowest gap in the order of priority instead of a
    dive; with pins, the tightest gap instead of the lowest.
    """
    holes = instance.has_holes and len(instance) <= _QUADRATIC
    if instance.has_pins or (holes and variant):
        order = np.argsort(-priority, kind="stable")
        return best_fit(instance, order, tight=variant and instance.has_pins)
    offset, peak = dive(instance, priority, variant)
    return settle(instance, offset) if holes and peak >= 0 else (offset, peak)


def construct(state: Incumbent) -> None:
    """Offer one placement a key and variant, and XLA's two, until the goal is reached."""
    instance = state.instance
    many = len(instance) > (_QUADRATIC if instance.has_pins else _MANY)
    names = KEYS[:3] if many else KEYS
    for variant in (False,) if many else (False, True):
        fits = instance.has_pins or (variant and instance.has_holes)
        for name in names:
            offset, peak = place(instance, key(instance, name), variant)
            state.offer(offset, peak, f"{'fit' if fits else 'dive'} by {name}")
            state.count("constructions")
            if state.over:
                return
    if len(instance) <= _QUADRATIC:
        for order in xla_orders(instance):
            state.offer(*best_fit(instance, order), "best fit")
            state.count("constructions")
            if state.over:
                return
