"""Phases by data flow against every order of small programs, and the orders they give against the checker."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.test_dependences import ordered
from tests.brute import conflicts, longest_chain
from tests.tiers import examples

from haulout.analysis.flow_phases import STEPS, FlowScan
from haulout.analysis.order_scan import WALK_LIMIT
from haulout.checker import check_program, check_reordered
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import DependenceKind, Engine, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.extend_shared_lifetimes import ExtendSharedLifetimes
from haulout.passes.order_by_phases import sorted_by_time
from haulout.passes.order_cores import order_cores
from haulout.sim import compare_schedules
from haulout_generators.programs import random_program

NO_CUTS = np.zeros(0, np.int64)


def edges(program: Program) -> list[set[int]]:
    """Of each instruction those that must come before it: conflicts by source time, and dependences."""
    core, seq = program.instruction_core.tolist(), program.instructions.seq.tolist()
    before: list[set[int]] = [set() for _ in core]
    for a, b, _ in conflicts(program):
        if core[a] == core[b] or seq[a] < seq[b]:
            before[b].add(a)
        elif seq[b] < seq[a]:
            before[a].add(b)
    for row, producer in zip(program.dependences.instruction, program.dependences.producer, strict=True):
        before[int(row)].add(int(producer))
    return before


def heaviest_path(program: Program, before: list[set[int]], lists: list[list[int]] | None = None) -> int | None:
    """The largest number of edges between cores on a path, also along `lists`; None where they form a cycle."""
    core = program.instruction_core.tolist()
    before = [set(each) for each in before]
    for listed in lists or []:
        for one, other in pairwise(listed):
            before[other].add(one)
    level: dict[int, int] = {}
    while len(level) < len(core):
        ready = [row for row in range(len(core)) if row not in level and before[row] <= level.keys()]
        if not ready:
            return None
        for row in ready:
            level[row] = max((level[each] + (core[each] != core[row]) for each in before[row]), default=0)
    return max(level.values(), default=0)


def extensions(rows: list[int], before: list[set[int]]) -> Iterator[list[int]]:
    """Every order of some instructions that keeps the edges among them."""
    if not rows:
        yield []
    for row in rows:
        if not before[row] & set(rows) - {row}:
            for rest in extensions([each for each in rows if each != row], before):
                yield [row, *rest]


@settings(max_examples=examples(150))
@given(st.randoms(use_true_random=False))
def test_no_order_of_all_cores_needs_fewer_fences(rng: Random) -> None:
    program = random_program(rng, cores=rng.randint(2, 3), steps=rng.randint(1, 4))
    before = edges(program)
    rows = np.arange(len(program.instructions))
    lists = [rows[program.instruction_core == core].tolist() for core in range(program.lnc)]
    orders = [list(extensions(each, before)) for each in lists]
    least: int | None = None
    if reduce(lambda total, each: total * len(each), orders, 1) <= 400:
        needed = (heaviest_path(program, before, list(choice)) for choice in product(*orders))
        least = min(each for each in needed if each is not None)
    found = FlowScan(program).phases(NO_CUTS)
    assert found.simultaneous == 0
    most = int(found.earliest.max()) // STEPS
    assert most == int(found.latest.max()) // STEPS == heaviest_path(program, before)
    assert least in (None, most)


@settings(max_examples=examples(150))
@given(st.randoms(use_true_random=False), st.sampled_from([0, 1, 2, 4, 16]))
def test_every_sorted_order_is_proved_and_means_the_same(rng: Random, cuts: int) -> None:
    program = ordered(random_program(rng))
    scan = FlowScan(program)
    found = scan.phases(np.array(sorted(rng.choices(range(len(program.instructions) + 1), k=cuts)), np.int64))
    assert np.all(found.earliest // STEPS <= found.latest // STEPS)
    for time in (found.earliest, found.latest):
        moved, origin = sorted_by_time(program, scan.segment, time)
        assert check_reordered(program, moved, origin) == []
        # Conflicts keep their order, by another way to look at them.
        position = np.argsort(origin)
        core, seq, new = (
            program.instruction_core,
            program.instructions.seq,
            moved.instructions.seq[position],
        )
        for a, b, _ in conflicts(program):
            if core[a] == core[b]:
                assert position[a] < position[b]
            else:
                assert (seq[a] < seq[b]) == (new[a] < new[b])
        assert longest_chain(moved) <= int(time.max()) // STEPS
        moved, _ = order_cores(moved, set(DependenceKind), removable_fences=False)
        fenced = ExtendSharedLifetimes().run(moved, PassContext())
        assert check_program(fenced) == []
        assert compare_schedules(fenced).agrees


@settings(max_examples=examples(100))
@given(st.randoms(use_true_random=False))
def test_phases_do_not_fall_across_a_cut(rng: Random) -> None:
    program = ordered(random_program(rng))
    scan = FlowScan(program)
    seq = program.instructions.seq
    order = np.lexsort((seq, scan.segment))
    at = rng.randrange(len(order))
    found = scan.phases(np.array([at], np.int64))
    # the instructions of one time stay together
    at = int(np.searchsorted(seq[order], seq[order[at]]))
    for time in (found.earliest[order], found.latest[order]):
        assert (time[:at] // STEPS).max(initial=0) <= (time[at:] // STEPS).min()


def handed_on(count: int) -> Program:
    """Core 0 makes values, one after the other; core 1 reads each; core 0 also does work of its own."""
    build = ProgramBuilder("handed on", 2)
    for core in range(2):
        function = build.function(build.module(f"nc{core}", core), "main")
        block = build.block(function, "entry")
        for at in range(count):
            remote = None if core == 0 else (f"s{at}", 0)
            s = build.location(function, f"s{at}", Space.DRAM_SHARED, 8, remote=remote)
            t, u = (build.location(function, f"{name}{at}", Space.DRAM_LOCAL, 8) for name in "tu")
            if core == 0:
                build.instruction(block, f"w{at}", "fill", Engine.ACT, [], [s], seq=2 * at)
            else:
                build.instruction(block, f"r{at}", "copy", Engine.ACT, [s], [t], seq=2 * at + 1)
            build.instruction(block, f"o{at}", "fill", Engine.POOL, [], [u], seq=2 * at + core)
    return build.freeze()


def test_what_waits_for_a_fence_keeps_its_place_among_what_follows() -> None:
    program = handed_on(8)
    scan = FlowScan(program)
    found = scan.phases(np.array([len(program.instructions) // 2], np.int64))
    moved, _ = sorted_by_time(program, scan.segment, found.earliest)
    second = [moved.instruction_name(row) for row in np.flatnonzero(moved.instruction_core == 1).tolist()]
    # The reads of the first half are done in the second, between the work of its own of that half.
    assert second[4:12] == ["r0", "o4", "r1", "o5", "r2", "o6", "r3", "o7"]
    assert int(found.earliest.max()) // STEPS == 2


def pieces(count: int, *, covered: bool) -> Program:
    """Core 0 writes a location piece by piece, core 1 reads it, and writes the last piece back."""
    build = ProgramBuilder("pieces", 2)
    for core in range(2):
        function = build.function(build.module(f"nc{core}", core), "main")
        block = build.block(function, "entry")
        remote = None if core == 0 else ("s", 0)
        s = build.location(function, "s", Space.DRAM_SHARED, 4 * count, remote=remote)
        if core == 0:
            for at in range(count):
                build.instruction(block, f"w{at}", "fill", Engine.ACT, [], [(s, Pattern(4 * at, 4))], seq=at)
            if covered:
                build.instruction(block, "all", "fill", Engine.ACT, [], [s], seq=count)
        else:
            t = build.location(function, "t", Space.DRAM_LOCAL, 4)
            for at in range(count):
                time = count + 1 + at
                build.instruction(block, f"r{at}", "copy", Engine.ACT, [(s, Pattern(4 * at, 4))], [t], seq=time)
    return build.freeze()


@pytest.mark.parametrize("covered", [False, True])
def test_long_chains_may_cost_fences_but_never_order(covered: bool) -> None:
    program = pieces(3 * WALK_LIMIT, covered=covered)
    found = FlowScan(program).phases(NO_CUTS)
    first = program.instruction_core == 0
    assert np.all(found.earliest[first] // STEPS == 0)
    assert np.all(found.earliest[~first] // STEPS == 1)
    assert np.all(found.latest[first] // STEPS == 0)


def test_conflicts_of_one_seq_are_counted() -> None:
    build = ProgramBuilder("race", 2)
    for core in range(2):
        function = build.function(build.module(f"nc{core}", core), "main")
        s = build.location(function, "s", Space.DRAM_SHARED, 8, remote=None if core == 0 else ("s", 0))
        build.instruction(build.block(function, "entry"), "w", "fill", Engine.ACT, [], [s], seq=5)
    assert FlowScan(build.freeze()).phases(NO_CUTS).simultaneous == 1
