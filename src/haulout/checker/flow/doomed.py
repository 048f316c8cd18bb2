"""Waits that no run satisfies: each run that comes to one is stuck.

A wait is *short* when the signals before it in the text may not be enough. Behind it in the text there may be others,
which count where they need not come after the wait: signals of engines that run ahead. Claims (`claims.py`) tell
which do come after it; they are made without what short waits would tell, so they hold whatever satisfies these. When
the most that can be made before the wait and the most that need not come after it together are too few, the wait is
doomed the first time it comes.
"""

from __future__ import annotations

import numpy as np

from haulout.checker.flow.counts import Counts, Trust, places_of
from haulout.checker.flow.events import refused
from haulout.checker.flow.leads import lead_to
from haulout.checker.flow.pairs import find_signal_queries
from haulout.checker.flow.refusal import Refusal, Stuck
from haulout.checker.flow.text import Text
from haulout.checker.flow.trusted import find_open
from haulout.checker.paths.runs import Choice
from haulout.ir.enums import NONE
from haulout.ir.schema import Column, Ids


def find_doomed(text: Text) -> Stuck | None:
    """The first wait in the text that is doomed."""
    use, place = text.operations, places_of(text)
    short = np.flatnonzero(Counts(text, use, place).missing()[0] < 0).astype(np.int32)
    most = Counts(text, use, place, first=True).missing()[1][short]
    more = _run_ahead(text, short)
    doomed = short[most + more < 0] if more is not None else short[:0]
    if not len(doomed):
        return None
    wait = int(use.wait[doomed[np.argmin(place[use.wait[doomed]])]])
    block, core = int(text.events.block[wait]), int(text.events.core[wait])
    narrowed, structure, path = text.runs.narrowed, text.runs.flow.structure, dict[Choice, int]()
    lead_to(structure, block, core, (0, 0), path)
    why = refused(text.model, text.events, wait, "waits for a count that is never reached")
    return Stuck.at(why, narrowed, path, narrowed.without(structure, block, core))


def _run_ahead(text: Text, waits: Ids) -> Column | None:
    """How much signals behind some waits in the text may add before these at most; None: that is not known."""
    use, found = text.operations, np.zeros(len(waits))
    signals = np.flatnonzero(np.isin(use.signal_to, use.wait_for[waits])).astype(np.int32)
    count = len(waits) + len(signals)
    trust = Trust(short=frozenset(waits.tolist()))
    pairs = find_open(text, find_signal_queries(text, waits, signals), count, trust)
    if isinstance(pairs, Refusal):
        return None
    _, left = pairs
    for one, other, lag in zip(left.first.tolist(), left.second.tolist(), left.lag.tolist(), strict=True):
        signal = int(signals[other - len(waits)])
        times = np.inf if lag else _times(text, int(use.signal[signal]), int(use.wait[waits[one]]))
        found[one] += float(use.amount[signal]) * times
    return found


def _times(text: Text, event: int, other: int) -> float:
    """How often an event happens at most the first time that the loops around both it and another one run."""
    structure, block, core = text.runs.flow.structure, text.events.block, text.events.core
    around, times = structure.loops_around(int(block[other])), 1.0
    for number in structure.loops_around(int(block[event])):
        loop = structure.loops[number]
        alone = core[event] != core[other] and structure.divergent_fork(loop.header) != NONE
        if number not in around or alone:
            often = np.inf if loop.trip == NONE else loop.trip + (loop.header == int(block[event]))
            if not often:
                return 0.0
            times *= often
    return times
