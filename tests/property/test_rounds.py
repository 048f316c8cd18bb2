"""Rounds of a loop against brute force: every way to place that many fences, and every way to place one less."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

from hypothesis import given
from hypothesis import strategies as st

from haulout.passes.fences.rounds import Conflict, least_rounds


@st.composite
def loops(draw: st.DrawFn) -> tuple[list[list[int]], list[Conflict]]:
    """Rows of two or three cores, numbered through, and conflicts between cores."""
    sizes = draw(st.lists(st.integers(0, 3), min_size=2, max_size=3))
    first = 0
    lists = []
    for size in sizes:
        lists.append(list(range(first, first + size)))
        first += size
    pairs = [(x, y) for one in lists for other in lists if one is not other for x in one for y in other]
    if not pairs:
        return lists, []
    # Source order gives forward conflicts a direction: no cycle of them, so no pair both ways.
    order = draw(st.permutations(range(first)))
    time = {row: at for rows in lists for row, at in zip(rows, sorted(order[row] for row in rows), strict=True)}
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=4))
    return lists, [
        (x, y, distance)
        for x, y in chosen
        for distance in draw(st.sets(st.sampled_from([0, 1, 2]), min_size=1))
        if distance or time[x] < time[y]
    ]


def possible(lists: list[list[int]], conflicts: list[Conflict], count: int) -> bool:
    """Whether some places of `count` fences on every core cut every conflict."""
    places = [list(combinations_with_replacement(range(len(rows) + 1), count)) for rows in lists]
    for chosen in product(*places):
        before = {
            row: sum(place <= at for place in fences)
            for rows, fences in zip(lists, chosen, strict=True)
            for at, row in enumerate(rows)
        }
        if all(
            before[y] > before[x] if not distance else count - before[x] + (distance - 1) * count + before[y] >= 1
            for x, y, distance in conflicts
        ):
            return True
    return False


@given(loops())
def test_no_fewer_fences_an_iteration_order_everything(loop: tuple[list[list[int]], list[Conflict]]) -> None:
    lists, conflicts = loop
    solved = least_rounds(lists, conflicts)
    assert solved is not None
    count, rounds = solved
    assert all(0 <= each <= count for each in rounds.values())
    assert possible(lists, conflicts, count)
    assert count == 0 or not possible(lists, conflicts, count - 1)
