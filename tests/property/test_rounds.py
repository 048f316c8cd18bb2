"""Rounds of a loop against brute force: every way to place that many fences, and every way to place one less."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.checker import check_program
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.fences.loop_fences import Conflict, least_rounds
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline


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


def one_loop(rng: Random) -> Program:
    """A loop whose body touches shared locations, every operation on one core."""
    cores, length, buffers = rng.choice((2, 3, 4, 6)), rng.randint(3, 10), rng.randint(2, 5)
    owner = [rng.randrange(cores) for _ in range(buffers)]
    script = [(rng.randrange(cores), rng.randrange(buffers), rng.random() < 0.5) for _ in range(length)]
    build = ProgramBuilder("one loop", cores)
    for core in range(cores):
        function = build.function(build.module(f"nc{core}", core), "main")
        cond = build.location(function, "c", Space.DRAM_LOCAL, 4, kind=Kind.INPUT)
        shared = [
            build.location(
                function,
                f"s{k}",
                Space.DRAM_SHARED,
                64,
                kind=Kind.INOUT if owner[k] == core else Kind.INTERNAL,
                remote=None if owner[k] == core else (f"s{k}", owner[k]),
            )
            for k in range(buffers)
        ]
        entry, header, body, behind = (
            build.block(function, name, cond=cond if name == "head" else None)
            for name in ("entry", "head", "body", "behind")
        )
        for source, target in ((entry, header), (header, body), (header, behind), (body, header)):
            build.edge(source, target)
        for at, (mine, buffer, write) in enumerate(script):
            if mine == core:
                operands = [shared[buffer]]
                reads, writes = ([], operands) if write else (operands, [])
                build.instruction(body, f"i{at}", "iota" if write else "copy", Engine.VECTOR, reads, writes, seq=at)
        build.instruction(behind, "end", "nop", Engine.VECTOR, [], [], seq=length)
    return build.freeze()


@pytest.mark.parametrize(("seed", "rounds"), [(171, True), (221, True), (0, False), (1, False), (2, False)])
def test_rounds_are_taken_where_cores_must_shift(seed: int, rounds: bool) -> None:
    context = PassContext()
    program = PassManager(standard_pipeline()).run(one_loop(Random(seed)), context)
    assert check_program(program) == []
    placement = context.counters["extend_shared_lifetimes.placement"]
    assert (placement == {"rounds": 1}) is rounds
