"""Which engines share a semaphore, when there are fewer semaphores than engines that are waited for.

One counter an engine is exact: an engine completes in order, so "at least k" says that its k-th signal is made, and
all before it. A counter that two engines signal says so too when its signals follow one another: when each signal
waits for the one before it, in list order, on whatever engine. Those waits are the price. Engines are put together
two by two, the pair first whose signals need the fewest new waits; signals that are ordered anyway cost nothing.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.schema import Ids


def share(signals: dict[int, Ids], clock: Ids, line: Ids, most: int) -> list[list[int]]:
    """At most `most` (>= 1) groups of lines. `signals`: line -> the rows that signal, ascending."""
    groups = [[each] for each in sorted(signals)]
    rows = [signals[each] for each in sorted(signals)]
    cost = [0] * len(groups)
    price: dict[tuple[int, int], int] = {}
    alive = list(range(len(groups)))
    while len(alive) > most:
        for at, one in enumerate(alive):
            for other in alive[at + 1 :]:
                if (one, other) not in price:
                    together = merged(rows[one], rows[other])
                    price[one, other] = len(unordered(together, clock, line)) - cost[one] - cost[other]
        best = min(
            ((one, other) for at, one in enumerate(alive) for other in alive[at + 1 :]), key=lambda p: (price[p], p)
        )
        one, other = best
        groups.append(sorted(groups[one] + groups[other]))
        rows.append(merged(rows[one], rows[other]))
        cost.append(cost[one] + cost[other] + price[best])
        alive = [each for each in alive if each not in best] + [len(groups) - 1]
    return sorted(groups[each] for each in alive)


def merged(one: Ids, other: Ids) -> Ids:
    """Both, ascending."""
    both: Ids = np.sort(np.concatenate([one, other]))
    return both


def unordered(rows: Ids, clock: Ids, line: Ids) -> Ids:
    """Of rows that signal one semaphore, those that nothing keeps behind the one before them."""
    before, after = rows[:-1], rows[1:]
    late: Ids = after[clock[after, line[before]] < before]
    return late
