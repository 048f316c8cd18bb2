"""In-core order of programs with branches and loops, against every way that chance takes through them."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.brute_paths import Execution, executions, illegal_edges, races_inside, random_walk
from tests.tiers import examples

from haulout.ir.enums import NONE, Kind, Space
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.passes.anti_dependency_analyzer import AntiDependencyAnalyzerPostSharedDram
from haulout.passes.base import PassContext
from haulout.passes.build_fdeps import BuildFdeps
from haulout_generators.branch_programs import random_branch_program
from haulout_generators.programs import random_loop_program

CORES = 2
WAYS = 6
LONGEST = 150
"""Executions on a way that is looked at."""

SEEDS = st.integers(0, 2**32 - 1)


def ordered(program: Program, *, placed: bool = False) -> Program:
    program = BuildFdeps().run(program, PassContext())
    return AntiDependencyAnalyzerPostSharedDram(fences_are_final=placed).run(program, PassContext())


def small(rng: Random) -> Program:
    """Branches and loops in each other, up to three deep."""
    return random_branch_program(
        rng,
        cores=CORES,
        steps=rng.randint(1, 3),
        depth=rng.randint(1, 3),
        loops=rng.choice((0.0, 0.4, 0.7)),
        divergent=rng.choice((0.0, 0.4)),
        fences=rng.choice((0.0, 0.2)),
    )


def ways(program: Program, rng: Random, most: int = WAYS) -> list[list[Execution]]:
    """Some ways of each core, those that are not too long."""
    found = [executions(program, random_walk(program, core, rng)) for core in range(CORES) for _ in range(most)]
    return [ran for ran in found if len(ran) <= LONGEST]


def unordered(program: Program, ran: list[Execution], *, physical: bool = False) -> list[tuple[str, str]]:
    pairs = races_inside(program, ran, physical=physical)
    return [(program.instruction_name(ran[a].row), program.instruction_name(ran[b].row)) for a, b in pairs]


@settings(max_examples=examples(150))
@given(SEEDS)
def test_every_conflict_is_ordered_on_every_way_and_every_edge_is_legal(seed: int) -> None:
    rng = Random(seed)
    program = ordered(small(rng))
    assert verify(program) == []
    for ran in ways(program, rng):
        assert illegal_edges(program, ran) == []
        assert unordered(program, ran) == []


@settings(max_examples=examples(50))
@given(SEEDS)
def test_the_same_for_nests_of_loops_alone(seed: int) -> None:
    rng = Random(seed)
    program = ordered(random_loop_program(rng, cores=CORES, steps=4, depth=1 + seed % 2))
    for ran in ways(program, rng):
        assert illegal_edges(program, ran) == []
        assert unordered(program, ran) == []


@settings(max_examples=examples(100))
@given(SEEDS)
def test_reused_storage_waits_for_who_had_it_before(seed: int) -> None:
    """Locations at random addresses, overlapping at will: order 84 orders every physical conflict of a core."""
    rng = Random(seed)
    program = small(rng)
    locations = program.locations
    moves = (locations.kind == Kind.INTERNAL) & (locations.size > 4) & (locations.remote_name == NONE)
    address = np.where(
        moves,
        [rng.randrange(8) * 8 + 8192 * int(core) for core in program.location_core],
        4096 + 64 * np.arange(len(locations)) + 8192 * program.location_core,
    )
    views = np.flatnonzero(locations.remote_name != NONE)
    address[views] = address[program.owner[views]]
    assert bool(np.all(locations.space <= Space.DRAM_SHARED))
    program = ordered(program.replace(locations=locations.replace(address=address, align=1)), placed=True)
    for ran in ways(program, rng):
        assert illegal_edges(program, ran) == []
        assert unordered(program, ran, physical=True) == []


@settings(max_examples=examples(50))
@given(SEEDS)
def test_a_second_run_changes_nothing(seed: int) -> None:
    program = ordered(small(Random(seed)))
    assert print_bir(ordered(program)) == print_bir(program)
    assert print_bir(ordered(parse_bir(print_bir(program)))) == print_bir(program)


def test_brute_force_sees_a_missing_edge() -> None:
    """Of the edges of random programs most are needed on some way: without one of those, the check above fails."""
    needed = tried = 0
    for seed in range(20):
        rng = Random(seed)
        program = ordered(small(rng))
        runs = ways(program, rng, 20)
        edges = program.dependences
        for at in rng.sample(range(len(edges)), min(len(edges), 8)):
            less = program.replace(dependences=edges.take(np.arange(len(edges)) != at))
            tried += 1
            needed += any(unordered(less, ran) for ran in runs)
    assert needed > tried // 3


def test_random_programs_are_sound_and_hold_what_they_promise() -> None:
    loops = branches = divergent = nested = 0
    for seed in range(40):
        program = random_branch_program(Random(seed), depth=3, divergent=0.3)
        assert verify(program) == []
        assert print_bir(random_branch_program(Random(seed), depth=3, divergent=0.3)) == print_bir(program)
        found = program.structure
        loops += len(found.loops)
        branches += len(found.forks)
        divergent += sum(fork.divergent for fork in found.forks)
        nested += sum(region.parent != NONE for region in found.regions)
    assert min(loops, branches, divergent, nested) > 40
