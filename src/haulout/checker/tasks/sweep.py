"""The pairs of tasks that need an order: each task against the last writes of its bytes and the reads since.

Tasks are taken in the order of their submission. Each atom keeps the task that wrote it last and those that have
read it since. A read needs a path from the write; a write needs one from each of these reads, or from the write where
nothing has read it. If all these pairs have paths, all conflicting pairs have: between two accesses of an atom, one
of them a write, there is a chain of such pairs.

A pair is listed once, for its first atom. Pairs with an arc between them, or with an event that both have an arc to,
are not listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.columns import grouped
from haulout.checker.tasks.atoms import Atoms
from haulout.checker.tasks.order import Order
from haulout.ir.schema import Bools, Ids, Ints
from haulout.ir.task_graph import TaskGraph
from haulout.support.jit import njit

FEW = 4
"""Of a task with more arcs, events between it and a later task are not looked for."""


class Pairs(NamedTuple):
    """Conflicting pairs of accesses, the earlier in the source order first."""

    first: Ids
    """Row of the access of the earlier task."""
    second: Ids
    needed: int
    """The number of pairs of tasks that need an order, with those that are not listed."""


def needed_pairs(graph: TaskGraph, order: Order, atoms: Atoms) -> Pairs:
    """The pairs of tasks that need a path and have no arc."""
    access = graph.accesses
    rows = np.lexsort((access.write, access.task))
    starts = np.searchsorted(access.task[rows], np.arange(len(graph.tasks) + 1))
    in_starts, in_rows = grouped(order.target, graph.nodes)
    out_starts, out_rows = grouped(order.source, graph.nodes)
    reads = np.flatnonzero(~access.write)
    lists = np.diff(np.append(0, np.cumsum(atoms.high - atoms.low))[atoms.starts])[atoms.of_access[reads]]
    first, second, needed = _scan(
        starts,
        rows,
        access.write,
        access.task,
        atoms.of_access,
        atoms.starts,
        atoms.low,
        atoms.high,
        atoms.count,
        int(lists.sum()),
        in_starts,
        order.source[in_rows],
        out_starts,
        order.target[out_rows],
    )
    return Pairs(first, second, needed)


@njit
def _scan(
    starts: Ints,
    rows: Ints,
    write: Bools,
    task: Ids,
    of_access: Ids,
    atom_starts: Ints,
    low: Ids,
    high: Ids,
    atom_count: int,
    list_size: int,
    in_starts: Ints,
    before: Ids,
    out_starts: Ints,
    after: Ids,
) -> tuple[Ids, Ids, int]:
    nodes = len(in_starts) - 1
    writer = np.full(atom_count, -1, np.int32)  # row of the access
    head = np.full(atom_count, -1, np.int32)
    link = np.empty(list_size, np.int32)
    reader = np.empty(list_size, np.int32)
    used = 0
    mark = np.full(nodes, -1, np.int32)  # nodes with an arc to the current task
    seen = np.full(nodes, -1, np.int32)  # tasks paired with the current task
    first = np.empty(1024, np.int32)
    second = np.empty(1024, np.int32)
    size = 0
    needed = 0
    for now in range(len(starts) - 1):
        for k in range(in_starts[now], in_starts[now + 1]):
            mark[before[k]] = now
        for k in range(starts[now], starts[now + 1]):
            row = rows[k]
            extent = of_access[row]
            for m in range(atom_starts[extent], atom_starts[extent + 1]):
                for atom in range(low[m], high[m]):
                    # A write comes after the reads since the last write; anything else after the last write.
                    other = writer[atom]
                    item = head[atom] if write[row] else -1
                    if item >= 0:
                        other = reader[item]
                        item = link[item]
                    while other >= 0:
                        that = task[other]
                        if that != now and seen[that] != now:
                            seen[that] = now
                            needed += 1
                            direct = mark[that] == now
                            if not direct and out_starts[that + 1] - out_starts[that] <= FEW:
                                for j in range(out_starts[that], out_starts[that + 1]):
                                    direct |= mark[after[j]] == now
                            if not direct:
                                if size == len(first):
                                    first = np.append(first, np.empty(size, np.int32))
                                    second = np.append(second, np.empty(size, np.int32))
                                first[size] = other
                                second[size] = row
                                size += 1
                        if item < 0:
                            break
                        other = reader[item]
                        item = link[item]
                    if write[row]:
                        writer[atom] = row
                        head[atom] = -1
                    elif head[atom] < 0 or task[reader[head[atom]]] != now:
                        reader[used] = row
                        link[used] = head[atom]
                        head[atom] = used
                        used += 1
    return first[:size].copy(), second[:size].copy(), needed
