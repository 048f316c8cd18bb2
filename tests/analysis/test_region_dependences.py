"""In-core order of programs with branches and loops, against every way that chance takes through them."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.brute_paths import executions, illegal_edges, races_inside, random_walk

from haulout.ir.enums import NONE, Space
from haulout.ir.program import Program
from haulout.ir.text import print_bir
from haulout.ir.verify import verify
from haulout.passes.anti_dependency_analyzer import AntiDependencyAnalyzerPostSharedDram
from haulout.passes.base import PassContext
from haulout.passes.build_fdeps import BuildFdeps
from haulout.testing.branch_programs import random_branch_program

WAYS = 6
LONGEST = 150
"""Executions on a way that is looked at."""


def ordered(program: Program) -> Program:
    program = BuildFdeps().run(program, PassContext())
    return AntiDependencyAnalyzerPostSharedDram().run(program, PassContext())


def small(rng: Random) -> Program:
    return random_branch_program(
        rng, cores=2, steps=rng.randint(1, 3), depth=rng.randint(1, 3), loops=rng.choice((0.0, 0.4, 0.7)), fences=0.1
    )


def names(program: Program, row: int) -> str:
    return program.instruction_name(row)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32))
def test_every_conflict_is_ordered_on_every_way_and_every_edge_is_legal(seed: int) -> None:
    rng = Random(seed)
    program = ordered(small(rng))
    assert verify(program) == []
    for _ in range(WAYS):
        for core in range(2):
            ran = executions(program, random_walk(program, core, rng))
            if len(ran) > LONGEST:
                continue
            assert illegal_edges(program, ran) == []
            assert [(names(program, ran[a].row), names(program, ran[b].row)) for a, b in races_inside(program, ran)] == []
