"""A lower bound above the most bytes live at one moment: buffers that conflict in pairs, never all at once.

Ranges with holes make conflict graphs that are no interval graphs. Of three buffers, each two may be live together at
another moment, as separations of structured problems make them: no moment has all three, but no two share a byte.

    one    [------)         [--)
    two           [--)      [--)    [--)       pairs: one and two, two and three, one and three
    three  [--)                     [--)

The bound is the most bytes in a clique. The search takes rows by weight and cuts where the rows left cannot exceed
the best clique: rows of a colour conflict in no pair, so a clique has one of each colour at most, and the heaviest of
each colour bound it. The number of visits is limited: the best clique found is a bound in any case.

Source: Tomita, Seki, *An efficient branch-and-bound algorithm for finding a maximum clique*, 2003 (colours).
"""

from __future__ import annotations

import numpy as np

from haulout.packing.instance import Instance

_MAX_VISITS = 50_000  # rows coloured: about 50 milliseconds


def heaviest_clique(instance: Instance) -> list[int]:
    """Rows that conflict in pairs, as heavy as the search finds them; ascending."""
    weight = instance.size.tolist()
    rows = sorted(range(len(instance)), key=lambda row: (-weight[row], row))
    place = {row: at for at, row in enumerate(rows)}
    near = [0] * len(rows)  # bits are places in `rows`
    for one, two in _conflicts(instance):
        near[place[one]] |= 1 << place[two]
        near[place[two]] |= 1 << place[one]
    best, chosen = _search([weight[row] for row in rows], near)
    assert best == sum(weight[rows[at]] for at in chosen)
    return sorted(rows[at] for at in chosen)


def _conflicts(instance: Instance) -> list[tuple[int, int]]:
    """The pairs of rows that are live in one column, through the columns as a matrix."""
    live = np.zeros((len(instance), instance.columns), np.float32)
    owner = np.repeat(np.arange(len(instance)), np.diff(instance.range_of))
    ranges = zip(owner.tolist(), instance.range_first.tolist(), instance.range_last.tolist(), strict=True)
    for row, first, last in ranges:
        live[row, first:last] = 1.0
    together = np.triu(live @ live.T, 1)
    return list(zip(*(side.tolist() for side in np.nonzero(together)), strict=True))


def _search(weight: list[int], near: list[int]) -> tuple[int, list[int]]:
    """The heaviest clique of places in descending order of weight, and its weight."""
    best, visits = 0, 0
    chosen: list[int] = []

    def grow(clique: list[int], total: int, left: int) -> None:
        nonlocal best, chosen, visits
        if total > best:
            best, chosen = total, clique
        order = _coloured(weight, near, left)
        visits += len(order)
        for at, most in reversed(order):
            if visits > _MAX_VISITS or total + most <= best:
                return
            grow([*clique, at], total + weight[at], left & near[at])
            left &= ~(1 << at)

    grow([], 0, (1 << len(weight)) - 1)
    return best, chosen


def _coloured(weight: list[int], near: list[int], left: int) -> list[tuple[int, int]]:
    """The places of `left`, colour by colour, each with the most that a clique of it and those before it weighs."""
    order: list[tuple[int, int]] = []
    most = 0
    while left:
        free, heaviest = left, 0
        while free:
            low = free & -free
            at = low.bit_length() - 1
            free &= ~low & ~near[at]
            left &= ~low
            heaviest = heaviest or weight[at]  # the first is the heaviest
            order.append((at, most + heaviest))
        most += heaviest
    return order
