"""Fences of loop nests against brute force: no cheaper set of slots orders every conflict between cores."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from tests.brute import unordered, written_out
from tests.property.test_compile_loops import runs

from haulout.analysis.loops import find_loops
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.extend_shared_lifetimes import ExtendSharedLifetimes, fence_runs
from haulout.passes.fences.nests import NestPlan, _Problem, block_weight, nest_slots, plan_nests
from haulout.passes.fences.slots import insert_fences
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline
from haulout.testing.programs import random_loop_program

MOST_SLOTS = 8


def crossing(program: Program, rng: Random) -> bool:
    """Whether some run leaves a conflict between two cores unordered."""
    for trips in runs(program, rng):
        straight, _ = written_out(program, trips)
        core = straight.instruction_core
        if any(core[a] != core[b] for a, b, _ in unordered(straight)):
            return True
    return False


def prepared(seed: int, steps: int) -> Program:
    """A random program up to order 80, without a fence."""
    source = random_loop_program(Random(seed), cores=2, steps=steps, depth=1)
    return PassManager(standard_pipeline()[:5]).run(source, PassContext())


@pytest.mark.parametrize("seed", range(40))
def test_no_cheaper_set_of_slots_orders_everything(seed: int) -> None:
    program = prepared(seed, steps=2)
    found = find_loops(program)
    plan = plan_nests(program, found)
    slots = _Problem(program, found).slots
    if plan is None or not found or len(slots) > MOST_SLOTS:
        pytest.skip("no loop, or too many slots to try all sets of them")
    assert not crossing(insert_fences(program, nest_slots(program, plan, "f"), "me"), Random(seed))
    for size in range(len(slots) + 1):
        for places in combinations(slots, size):
            cost = float(sum(block_weight(found, block) for block, _ in places))
            if cost < plan.cost:
                tried = insert_fences(program, nest_slots(program, NestPlan(list(places), cost), "f"), "me")
                assert crossing(tried, Random(seed)), places


@pytest.mark.parametrize("seed", range(100, 140))
def test_the_policy_takes_the_cheaper_of_the_two(seed: int) -> None:
    program = prepared(seed, steps=4)
    found = find_loops(program)
    plan = plan_nests(program, found)
    result = ExtendSharedLifetimes(fences="minimal").run(program, PassContext())
    if plan is not None and found:
        assert fence_runs(result, find_loops(result)) <= plan.cost
    assert not crossing(result, Random(seed))
