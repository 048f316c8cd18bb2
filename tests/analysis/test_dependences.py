"""In-core order against transitive closure: complete, and without an edge to spare."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.brute import conflicts, happens_before, unordered
from tests.tiers import examples

from haulout.analysis.dependences import missing_order
from haulout.ir.edit import add_dependences
from haulout.ir.enums import NONE, DependenceKind, Space
from haulout.ir.program import Program
from haulout.ir.schema import Dependences
from haulout.passes.anti_dependency_analyzer import AntiDependencyAnalyzerPostSharedDram
from haulout.passes.base import PassContext
from haulout.passes.build_fdeps import BuildFdeps
from haulout_generators.programs import random_program


def in_core(program: Program, pairs: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    core = program.instruction_core
    return [pair for pair in pairs if core[pair[0]] == core[pair[1]]]


def ordered(program: Program) -> Program:
    program = BuildFdeps().run(program, PassContext())
    return AntiDependencyAnalyzerPostSharedDram().run(program, PassContext())


@settings(max_examples=examples(150))
@given(st.randoms(use_true_random=False), st.sampled_from([0.0, 0.2]))
def test_every_conflict_inside_a_core_is_ordered(rng: Random, fences: float) -> None:
    program = random_program(rng, fences=fences)
    with_raw = BuildFdeps().run(program, PassContext())
    assert [pair for pair in in_core(program, unordered(with_raw)) if pair[2] == "raw"] == []
    assert in_core(program, unordered(ordered(program))) == []


@settings(max_examples=examples(60))
@given(st.randoms(use_true_random=False))
def test_no_edge_of_one_scan_is_implied_by_the_others(rng: Random) -> None:
    program = random_program(rng, steps=8)
    kinds = {DependenceKind.RAW, DependenceKind.WAR, DependenceKind.WAW}
    program = add_dependences(program, missing_order(program, kinds, removable_fences=False))
    assert in_core(program, unordered(program)) == []
    for at in range(len(program.dependences)):
        keep = np.arange(len(program.dependences)) != at
        less = program.replace(dependences=program.dependences.take(keep))
        row, producer = int(program.dependences.instruction[at]), int(program.dependences.producer[at])
        assert not happens_before(less)[row] >> producer & 1


@settings(max_examples=examples(60))
@given(st.randoms(use_true_random=False))
def test_edges_say_why_and_a_second_run_adds_none(rng: Random) -> None:
    program = ordered(random_program(rng))
    pairs = set(conflicts(program))
    names = {DependenceKind.RAW: "raw", DependenceKind.WAR: "war", DependenceKind.WAW: "waw"}
    rows: Dependences = program.dependences
    for row, producer, kind in zip(
        rows.instruction.tolist(), rows.producer.tolist(), rows.kind.tolist(), strict=True
    ):
        assert (producer, row, names[DependenceKind(kind)]) in pairs
    assert len(ordered(program).dependences) == len(rows)


@settings(max_examples=examples(100))
@given(st.randoms(use_true_random=False))
def test_reused_storage_waits_for_who_had_it_before(rng: Random) -> None:
    """Locations at random addresses, overlapping at will: order 84 orders every physical conflict of a core."""
    program = random_program(rng)
    locations = program.locations
    local = (locations.space == Space.DRAM_LOCAL) | (locations.remote_name == NONE)
    address = np.array([rng.randrange(8) * 8 + 4096 * int(core) for core in program.location_core])
    placed = program.replace(locations=locations.replace(address=np.where(local, address, NONE), align=1))
    views = np.flatnonzero(~local)
    address[views] = address[placed.owner[views]]
    placed = program.replace(locations=locations.replace(address=address, align=1))
    result = AntiDependencyAnalyzerPostSharedDram(fences_are_final=True).run(
        BuildFdeps().run(placed, PassContext()), PassContext()
    )
    assert in_core(result, unordered(result, physical=True)) == []
