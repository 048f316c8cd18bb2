"""Which accesses an event may conflict with that are not claimed to be complete: the questions of `claims.py`."""

from __future__ import annotations

from haulout.checker.flow.graph import Graph, Queries
from haulout.checker.flow.learning import Found, Here
from haulout.support.jit import njit


@njit
def ask(
    graph: Graph, queries: Queries, here: Here, level: int, aparts: int, row: int, event: int, found: Found
) -> None:
    """List the accesses that may conflict with those of an event and are not claimed to be complete in what a row
    knows.

    Those before `here.current` have come in the walk, but for what is `here.later` in the first arms of a fork that
    is walked in parts.
    """
    for k in range(queries.starts[event], queries.starts[event + 1]):
        _ask(graph, queries, here, level, aparts, row, graph.line[event], queries.access[k], found)


@njit
def _ask(
    graph: Graph,
    queries: Queries,
    here: Here,
    level: int,
    aparts: int,
    row: int,
    line: int,
    access: int,
    found: Found,
) -> None:
    """The same for one access."""
    lines, levels, know, apart = len(graph.line_core), graph.depth + 1, here.know, here.apart
    writes = queries.write[access]
    starts = queries.any_starts if writes else queries.write_starts
    group_line = queries.any_line if writes else queries.write_line
    group_of = queries.any_of if writes else queries.write_of
    positions = queries.any_position if writes else queries.write_position
    accesses = queries.any_access if writes else queries.write_access
    for at in range(queries.key_starts[access], queries.key_starts[access + 1]):
        key = queries.key[at]
        for group in range(starts[key], starts[key + 1]):
            other = group_line[group]
            if other == line:
                continue
            deepest = level  # the innermost level whose iterations the two lines share
            while deepest and 0 <= graph.loops[here.around[deepest], 3] != graph.line_core[other]:
                deepest -= 1
            for lev in range(deepest + 1):
                for lag in range(3 if lev else 1):
                    low, high = 0, int(here.current[other])
                    if lev:
                        low = int(graph.places[other, graph.loops[here.around[lev], 0]])
                    if lag:
                        high = int(graph.places[other, graph.loops[here.around[lev], 1]])
                    elif lev:
                        high = min(high, int(graph.places[other, graph.loops[here.around[lev], 1]]))
                    if lag == 0 and lev < deepest:
                        high = min(high, int(graph.places[other, graph.loops[here.around[lev + 1], 0]]))
                    if low >= high:
                        continue
                    cell = ((row * levels + lev) * 3 + lag) * lines + other
                    pos, k = low, 0
                    while pos < high:
                        while k < 4 and know[cell, 2 * k + 1] <= pos:
                            k += 1
                        stop = high
                        if k < 4:
                            if know[cell, 2 * k] <= pos:
                                pos = int(know[cell, 2 * k + 1])
                                continue
                            stop = min(high, int(know[cell, 2 * k]))
                        begin, end = group_of[group], group_of[group + 1]
                        while begin < end:
                            middle = (begin + end) >> 1
                            if positions[middle] < pos:
                                begin = middle + 1
                            else:
                                end = middle
                        if begin >= group_of[group + 1] or positions[begin] >= stop:
                            pos = stop
                            continue
                        spot = int(positions[begin])
                        skip = -1
                        if lag == 0:
                            if here.later[other, 0] <= spot < here.later[other, 1]:
                                skip = int(here.later[other, 1])
                            for f in range(aparts):
                                if apart[f, 0] == lev and (apart[f, 3] < 0 or graph.line_core[other] == apart[f, 3]):
                                    first, last = graph.places[other, apart[f, 1]], graph.places[other, apart[f, 2]]
                                    if first <= spot < last:
                                        skip = int(last)
                        if skip >= 0:
                            pos = skip
                            continue
                        while begin < group_of[group + 1] and positions[begin] == spot:
                            count = found.total[0]
                            if count < len(found.first):
                                found.first[count], found.second[count] = accesses[begin], access
                                found.level[count], found.lag[count] = lev, lag
                            found.total[0] += 1
                            begin += 1
                        pos = spot + 1
                        if found.total[0] > len(found.first):
                            return
