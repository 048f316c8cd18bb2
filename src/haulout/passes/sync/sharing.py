"""Choose the engines that share a semaphore, if there are fewer semaphores than engines to wait for.

One counter for each engine is exact: an engine completes in order, so "at least k" means that its first k signals are
done. A counter of two engines is exact too if its signals are ordered: if each signal waits for the one before it in
list order, on either engine. These extra waits are the cost. Engines are joined two by two, the pair with the fewest
new waits first; signals that are already ordered cost nothing.
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
    """The rows that signal one semaphore and are not ordered after the previous signal."""
    before, after = rows[:-1], rows[1:]
    late: Ids = after[clock[after, line[before]] < before]
    return late
