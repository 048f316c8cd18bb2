"""Squeaky wheel optimization: rows that end too high get blame and are placed earlier in the next construction.

Construct, analyse, prioritise, repeat. A row's priority is its key plus its blame. After a construction, rows that
end above the goal gain blame, all blame decays a little, and the next construction follows the new priorities.
Several searches take turns; they differ in the key, the column rule and the amount of blame. After `_LIFE` turns a
search restarts without blame and with other noise.

The noise is a hash of (turn, row), so runs are reproducible.

Source: Joslin and Clements, "Squeaky wheel optimization", 1999.
"""

from __future__ import annotations

import numpy as np

from haulout.packing.construct import place, plain_turn
from haulout.packing.incumbent import Incumbent
from haulout.packing.instance import F64
from haulout.packing.keys import key
from haulout.packing.problem import I64

_SEARCHES = (
    ("area", False, 0.1),
    ("duration", False, 0.02),
    ("span", False, 0.5),
    ("span", False, 0.005),
    ("span", True, 0.1),
    ("duration", True, 0.1),
    ("span", False, 0.02),
    ("span-duration", True, 0.1),
)
_LIFE = 60
_DECAY = 0.97


def squeaky_wheel(state: Incumbent, turns: int) -> None:
    """Improve `state` by `turns` constructions."""
    instance = state.instance
    keys = {name: key(instance, name) for name, _, _ in _SEARCHES}
    blame = np.zeros((len(_SEARCHES), len(instance)))
    for turn in range(turns):
        which = turn % len(_SEARCHES)
        name, fullest, loudness = _SEARCHES[which]
        if turn // len(_SEARCHES) % _LIFE == 0:
            blame[which] = 0.0
        with plain_turn(instance):
            offset, peak = place(instance, keys[name] + blame[which], fullest)
        state.count("squeaky wheel turns")
        state.offer(offset, peak, "squeaky wheel")
        if state.over:
            return
        high = np.flatnonzero(offset + instance.size > state.goal)
        blame[which] *= _DECAY
        blame[which, high] += loudness * (0.5 + noise(turn, high))


def noise(turn: int, rows: I64) -> F64:
    """Numbers in [0, 1), one a row: the top 53 bits of splitmix64 of turn and row."""
    x = rows.astype(np.uint64) + np.uint64((turn * 0x9E3779B97F4A7C15) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
