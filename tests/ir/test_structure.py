"""The structure of control flow: what is read, what is refused, and the questions that it answers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from random import Random

import numpy as np
import pytest

from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.program import Program
from haulout.ir.read_structure import MAX_DEPTH, chain, function_structure, program_structure
from haulout.ir.structure import Arm, Fork, Loop, Structure, Walk, run
from haulout.support.diagnostics import Diagnostic, HauloutError

NEST = "a>b b>c,g:cond,trip=3 c>d,e:cond d>f e>f f>b g>h,i:cond,divergent h>i i"
"""A loop ^b around the fork ^c, and a divergent fork of one arm, ^g, after it."""


def blocks(*cores: str) -> Program:
    """A function; blocks are written `name>successors:attributes`."""
    build = ProgramBuilder("blocks", len(cores))
    for core, text in enumerate(cores):
        function = build.function(build.module(f"nc{core}", core, subgraph=0), "main")
        p = build.location(function, "p", Space.DRAM_LOCAL, 1, dtype="pred", shape=[1], kind=Kind.INPUT)
        rows, leads = {}, []
        for each in text.split():
            edges, _, attrs = each.partition(":")
            name, _, targets = edges.partition(">")
            marks = dict(mark.partition("=")[::2] for mark in attrs.split(",") if mark)
            rows[name] = build.block(
                function,
                name,
                cond=p if "cond" in marks else None,
                trip=int(marks["trip"]) if "trip" in marks else None,
                divergent="divergent" in marks,
            )
            leads.append((name, [target for target in targets.split(",") if target]))
        for name, after in leads:
            for target in after:
                build.edge(rows[name], rows[target])
    return build.freeze()


def refusals(program: Program) -> Iterator[Diagnostic]:
    """What a program is refused for, and its function."""
    for read in (program_structure, partial(function_structure, functions=range(program.lnc))):
        with pytest.raises(HauloutError) as caught:
            read(program)
        yield from caught.value.diagnostics


def random_blocks(random: Random, depth: int) -> str:
    """Blocks that are properly nested."""
    leads: list[tuple[list[int], str]] = []

    def sequence(left: int) -> None:
        for kind in random.choices("blf" if left else "b", k=random.randint(1, 3)):
            at = len(leads)
            leads.append(([at + 1], ""))
            if kind == "b":
                continue
            sequence(left - 1)
            middle = len(leads)
            if kind == "l":
                leads[-1] = ([at], "")
                leads[at] = ([at + 1, middle], "cond," + random.choice(["trip=0", "trip=2", ""]))
            else:
                if random.random() < 0.6:
                    sequence(left - 1)
                leads[at] = ([at + 1, middle], random.choice(["cond", "cond,divergent"]))
                leads[middle - 1] = leads[-1] = ([len(leads)], "")
            leads.append(([len(leads) + 1], ""))

    sequence(depth)
    leads[-1] = ([], "")
    return " ".join(
        f"b{at}>{','.join(f'b{to}' for to in targets)}:{marks}" for at, (targets, marks) in enumerate(leads)
    )


def structures(depth: int = 3) -> list[tuple[Structure, list[list[int]]]]:
    """Random structures, each with the successors of its blocks."""
    found = []
    for seed in range(60):
        program = blocks(random_blocks(Random(seed), depth))
        edges, count = program.edges, len(program.blocks)
        leads = [edges.target[edges.source == block].tolist() for block in range(count)]
        if count <= 60:
            found.append((program.structure, leads))
    assert sum(len(each.loops) for each, _ in found) > 20 < sum(len(each.forks) for each, _ in found)
    return found


def test_a_nest() -> None:
    found = blocks(NEST).structure
    assert found.regions == (
        Loop(1, 6, NONE, 3),
        Arm(3, 4, 0, 0, 0),
        Arm(4, 5, 0, 0, 1),
        Arm(7, 8, NONE, 1, 0),
    )
    assert found.forks == (Fork(2, 4, 5, False, 0, (1, 2)), Fork(6, 8, 8, True, NONE, (3,)))
    assert found.region_of == (NONE, 0, 0, 1, 2, 0, NONE, 3, NONE)
    assert list(found.items(0, 9)) == [0, found.regions[0], 6, found.forks[1], 8]
    assert [found.divergent_fork(block) for block in range(9)] == [NONE] * 7 + [1, NONE]
    assert found.around(4) == (0, 2) and found.loops_around(4) == (0,) and found.around(8) == ()


def test_cores_share_a_structure() -> None:
    program = blocks(NEST, NEST)
    assert len(program.structure.regions) == 8
    assert function_structure(program, [0, 1]) == blocks(NEST).structure


def test_a_program_keeps_its_structure_while_its_blocks_stay() -> None:
    program = blocks(NEST)
    found = program.structure
    assert program.replace(name="other").structure is found
    less = program.blocks.replace(trip=np.where(program.blocks.trip == 3, 2, program.blocks.trip).astype(np.int32))
    assert program.replace(blocks=less).structure.regions[0] == Loop(1, 6, NONE, 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a>b,c b c", "^a has two successors but no cond"),
        ("a>b,c,d:cond b c d", "^a has 3 successors"),
        ("a>b b>b,c:cond,trip=3 c", "^b is a fork; only the header of a loop can have trip"),
        ("a>c,b:cond b c>a", "^a is a fork; its first successor must be the next block"),
        ("a>c,d:cond b>c c>d d", "^a is a fork; its first successor"),
        ("a>b,c:cond b c", "^a is a fork whose arms do not end in one block of the same region"),
        ("a>b,d:cond b>c,d:cond c>d d>a e", "^b is a fork whose arms do not end"),
        ("a>b b>a", "^b leads to ^a, but is the last block of its function"),
        ("a b", "^a has no successor, but is not the last block"),
        ("a>b,c:cond,divergent b>a c", "^a is the header of a loop, which cannot be divergent"),
        ("a>c,d:cond b>c c>a d", "^a is the header of a loop; its first successor must be the next block"),
        ("a>b,c:cond b>e c>d,e:cond d>c e", "^c is the header of a loop that no block of the same region follows"),
        ("a>b,c:cond b>c c>d,e:cond d>c e", "^c is the join of a fork and the header of a loop"),
        ("a>b,d:cond b>a c>d d", "^b must lead to ^c, the next block"),
        ("a>b,c:cond b>d c>e d>e e", "^c must lead to ^d, the join of its fork"),
        ("z>a:trip=2 a>b,c:cond b>a c", "^z has cond or trip, which need two successors"),
        ("z>a:divergent a>b,c:cond b>a c", "^z is divergent, which needs two successors"),
    ],
)
def test_other_forms_are_refused(text: str, says: str) -> None:
    for diagnostic in refusals(blocks(text)):
        assert diagnostic.code == "bad-input"
        assert f"block {says}" in diagnostic.message
        assert diagnostic.labels[0].message == f"{says.split()[0]} on core 0"


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (NEST.replace("trip=3", "trip=2"), "^b on core 1"),
        (NEST.replace(",trip=3", ""), "^b on core 1"),
        (NEST.replace(",divergent", ""), "^g on core 1"),
        (NEST.replace("h>i i", "h>x x>i i"), "^g on core 1"),
        (NEST + ">j j", "^i on core 1"),
        ("a", "^a on core 1"),
    ],
)
def test_cores_that_differ_are_refused(other: str, where: str) -> None:
    assert [each.labels[0].message for each in refusals(blocks(NEST, other))] == [where, where]


@pytest.mark.parametrize(
    ("text", "order"),
    [("a>c b c>b", [0, 2, 1]), ("a", [0]), ("a b", None), ("a>a", None), (NEST, None), ("a:trip=2", None)],
)
def test_chains(text: str, order: list[int] | None) -> None:
    assert chain(blocks(text), 0) == order


def reached_without(leads: list[list[int]], start: int, without: int) -> set[int]:
    """Blocks that paths from a block reach, itself included, that do not pass another one."""
    found, work = set[int](), [start]
    while work:
        block = work.pop()
        if block != without and block not in found:
            found.add(block)
            work += leads[block]
    return found


def test_dominators_are_those_of_the_graph() -> None:
    for found, leads in structures():
        count = len(leads)
        back: list[list[int]] = [[] for _ in leads]
        for block, targets in enumerate(leads):
            for target in targets:
                back[target].append(block)
        passed = [reached_without(leads, 0, block) for block in range(count)]
        passed_after = [reached_without(back, count - 1, block) for block in range(count)]
        for first, second in product(range(count), repeat=2):
            assert found.dominates(first, second) == (second not in passed[first])
            assert found.post_dominates(first, second) == (second not in passed_after[first])
        for block in range(count):
            above = [each for each in range(count) if each != block and block not in passed[each]]
            assert found.dominator[block] == max(above, key=lambda each: len(passed[each]), default=NONE)
            below = [each for each in range(count) if each != block and block not in passed_after[each]]
            nearest = max(below, key=lambda each: len(passed_after[each]), default=NONE)
            assert found.post_dominator[block] == nearest


def test_regions_of_pairs() -> None:
    for found, leads in structures():
        for first, second in product(range(len(leads)), repeat=2):
            here, there = found.around(first), found.around(second)
            common = [one for one, other in zip(here, there, strict=False) if one == other]
            assert found.common_region(first, second) == (common[-1] if common else NONE)
            loops = [each for each in common if each in found.loops]
            assert found.common_loop(first, second) == (loops[-1] if loops else NONE)
            left = here[len(common) :]
            assert found.left_region(first, second) == (left[0] if left else NONE)
            forks = [
                number
                for number, fork in enumerate(found.forks)
                for side in (0, 1)
                if first in fork.sides[side] and second in fork.sides[not side]
            ]
            assert found.separating_fork(first, second) == (forks[0] if forks else NONE)


def test_fold_meets_every_block_once_and_in_order() -> None:
    for found, leads in structures():
        folded = found.fold(
            lambda block: [block],
            lambda parts: [block for part in parts for block in part],
            lambda loop, header, body: header + body,
            lambda fork, arms: [block for arm in arms for block in arm],
        )
        assert folded.functions == [list(range(len(leads)))]
        assert folded.regions == {
            number: list(range(region.begin, region.end)) for number, region in enumerate(found.regions)
        }
        assert folded.forks == {
            number: list(range(fork.block + 1, fork.join)) for number, fork in enumerate(found.forks)
        }


def test_a_fold_of_one_function() -> None:
    found = blocks(NEST, NEST).structure
    folded = found.fold(
        lambda block: {block},
        lambda parts: set().union(*parts),
        lambda loop, header, body: header | body,
        lambda fork, arms: set().union(*arms),
        found.functions[1:],
    )
    assert folded.functions == [set(range(9, 18))]
    assert set(folded.regions) == {4, 5, 6, 7} and set(folded.forks) == {2, 3}


def test_a_walk_goes_deep() -> None:
    seen = []

    def walk(left: int) -> Walk:
        if left:
            yield walk(left - 1)
        seen.append(left)

    run(walk(5000))
    assert seen == list(range(5001))


def test_descend_hands_down() -> None:
    for found, leads in structures():
        top: list[int] = []
        around = found.descend(top, lambda outer, number, region: [*outer, number])
        assert [tuple(around[found.region_of[block]]) for block in range(len(leads))] == [
            found.around(block) for block in range(len(leads))
        ]


def nested(depth: int, is_loop: bool) -> Program:
    """Loops or arms, each inside the one before."""
    names = [f"f{at}" for at in range(depth)]
    after = [f"j{at}" for at in range(depth)]
    opening = [
        f"{name}>{inner},{join}:cond" for name, inner, join in zip(names, [*names[1:], "x"], after, strict=True)
    ]
    outer = [names[at] if is_loop else after[at] for at in range(depth)]
    closing = [f"{after[at]}>{outer[at - 1] if at else ''}" for at in reversed(range(depth))]
    return blocks(" ".join([*opening, f"x>{outer[-1]}", *closing]))


@pytest.mark.parametrize("is_loop", [True, False])
def test_deep_nests(is_loop: bool) -> None:
    found = nested(MAX_DEPTH, is_loop).structure
    folded = found.fold(lambda block: 1, sum, lambda loop, header, body: header + body, lambda fork, arms: sum(arms))
    assert folded.functions == [2 * MAX_DEPTH + 1]
    assert found == nested(MAX_DEPTH, is_loop).structure
    with pytest.raises(HauloutError, match=f"inside more than {MAX_DEPTH} loops and arms"):
        _ = nested(MAX_DEPTH + 1, is_loop).structure
