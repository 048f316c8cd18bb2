"""Control flow of random graphs, cycles of every kind included, against the definitions by enumeration of paths."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from haulout.analysis.cfg import control_flow
from haulout.ir.enums import NONE

Graph = list[list[int]]


def random_graph(rng: Random) -> Graph:
    """One to eight blocks with up to two successors each: no structure at all."""
    count = rng.randint(1, 8)
    return [rng.sample(range(count), min(count, rng.choice((0, 1, 1, 2, 2)))) for _ in range(count)]


def simple_paths(graph: Graph, block: int, before: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """All paths from a block that visit no block twice."""
    path = (*before, block)
    yield path
    for target in graph[block]:
        if target not in path:
            yield from simple_paths(graph, target, path)


def dominators(graph: Graph, block: int) -> set[int] | None:
    """Blocks on every path from the entry; None: there is no path."""
    paths = [set(path) for path in simple_paths(graph, 0) if path[-1] == block]
    return set.intersection(*paths) if paths else None


def post_dominators(graph: Graph, block: int) -> set[int] | None:
    """Blocks on every path to an exit; None: there is no path."""
    paths = [set(path) for path in simple_paths(graph, block) if not graph[path[-1]]]
    return set.intersection(*paths) if paths else None


@pytest.mark.parametrize("seed", range(400))
def test_dominators_are_what_all_paths_pass(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng)
    flow = control_flow(graph)
    blocks = range(len(graph))
    above = {block: found for block in blocks if (found := dominators(graph, block)) is not None}
    below = {block: found for block in blocks if (found := post_dominators(graph, block)) is not None}
    assert sorted(flow.order) == sorted(above)
    assert {b: {a for a in blocks if flow.dominates(a, b)} for b in above} == above
    assert {b: {a for a in blocks if flow.post_dominates(a, b)} for b in below} == below
    for some, common in ((above, flow.common_dominator), (below, flow.common_post_dominator)):
        for _ in range(5 if some else 0):
            chosen = rng.sample(sorted(some), rng.randint(1, len(some)))
            shared = set.intersection(*(some[block] for block in chosen))
            # Common ancestors form a chain; the nearest is the one that all others are above of.
            nearest = [each for each in shared if some[each] == shared]
            assert common(chosen) == (nearest[0] if nearest else NONE), chosen


@pytest.mark.parametrize("seed", range(400))
def test_natural_loops_and_their_nest(seed: int) -> None:
    graph = random_graph(Random(seed))
    flow = control_flow(graph)
    reached = {block for block in range(len(graph)) if dominators(graph, block) is not None}
    expected: dict[int, set[int]] = {}
    for source in sorted(reached):
        for header in graph[source]:
            if header in (dominators(graph, source) or ()):
                inside = expected.setdefault(header, {header})
                # what reaches the edge back by a path that does not pass the header
                inside |= {
                    block
                    for block in reached - {header}
                    if any(path[-1] == source and header not in path for path in simple_paths(graph, block))
                }
    assert {each.header: set(each.blocks) for each in flow.loops} == expected
    for block in range(len(graph)):
        around = [flow.loops[at] for at in flow.loops_around(block)]
        assert {each.header for each in around} == {header for header, inside in expected.items() if block in inside}
        assert [len(each.blocks) for each in around] == sorted(len(each.blocks) for each in around)


def test_order_of_a_diamond_in_a_loop() -> None:
    flow = control_flow([[1], [2, 5], [3, 4], [4], [1], []])
    assert flow.order == [0, 1, 2, 3, 4, 5]
    assert (flow.common_dominator([3, 4]), flow.common_post_dominator([3, 2])) == (2, 4)
    assert [each.blocks for each in flow.loops] == [{1, 2, 3, 4}]


def test_no_blocks() -> None:
    assert control_flow([]).order == []
