"""Claims that rest on semaphores only as far as they show that they may."""

from __future__ import annotations

import numpy as np

from haulout.checker.flow.claims import scan_claims
from haulout.checker.flow.counts import Trust, less_trust
from haulout.checker.flow.graph import Graph, Open, Queries
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import Text
from haulout.checker.flow.waits import find_graph
from haulout.support.jit import compiled_if_large

MAX_OPEN = 1 << 18
"""Unordered pairs."""


def find_open(text: Text, queries: Queries, accesses: int, trust: Trust) -> tuple[Graph, Open] | Refusal:
    """What a text waits for, and the pairs of so many accesses that are not claimed to be ordered. In the queries the
    signals of `chains` come behind them; waits for semaphores whose signals do not come in order are not trusted.
    """
    while True:
        graph = find_graph(text, trust)
        if isinstance(graph, Refusal):
            return graph
        # Each event asks what all lines know. This kernel takes far longer to compile than others.
        with compiled_if_large(12 * len(text.schedule) * len(text.places), limit=60_000):
            found = scan_claims(graph, queries, MAX_OPEN)
        if found.total > MAX_OPEN:
            return Refusal("too many pairs of accesses are not known to be ordered")
        signals = np.flatnonzero(found.first[: found.total] >= accesses)
        columns = (
            found.first[signals] - accesses,
            found.second[signals] - accesses,
            found.level[signals],
            found.lag[signals],
        )
        less = less_trust(text, trust, list(zip(*(column.tolist() for column in columns), strict=True)))
        if less == trust:
            kept = np.flatnonzero(found.first[: found.total] < accesses)
            sides = found.first[kept], found.second[kept], found.level[kept], found.lag[kept]
            return graph, Open(len(kept), *sides, found.walks)
        trust = less
