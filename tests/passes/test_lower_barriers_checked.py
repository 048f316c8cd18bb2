"""What both passes make is proved by the checker and run by the simulator; where it is spoilt, the checker says so.

The checker shares nothing with the passes. What a spoilt program deserves is told by brute force: whether it hangs,
and whether all that touches a common byte is ordered still.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.brute import conflicts
from tests.passes.sync_runs import Execution, joint_order, joint_run

import haulout
from haulout import Program
from haulout.checker import check_program
from haulout.passes.base import PassContext
from haulout.passes.lower_barriers import LowerBarriers
from haulout.passes.lower_sync import LowerSync
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline
from haulout_generators.branch_programs import random_branch_program, random_inputs
from haulout_generators.programs import random_loop_program, random_program

DATA = Path(__file__).parents[1] / "end_to_end" / "data"


def compiled(source: Program, seed: int) -> Program:
    fences = "bracket" if seed % 4 == 0 else "minimal"
    return PassManager(standard_pipeline(fences=fences)).run(source, PassContext())  # type: ignore[arg-type]


def lowered(source: Program, semaphores: int = 32) -> Program:
    return PassManager([LowerSync(semaphores=semaphores), LowerBarriers()]).run(source, PassContext())


def complaints(program: Program) -> list[str]:
    """What the checker finds, but that it did not look at every way through."""
    return [each.code for each in check_program(program) if each.code != "unproved-paths"]


def source_program(kind: str, seed: int) -> Program:
    rng = Random(seed)
    match kind:
        case "straight":
            return random_program(rng, fences=0.2)
        case "loops":
            return random_loop_program(rng, steps=4, depth=1 + seed % 2)
    return random_branch_program(rng, cores=2 + seed % 3, steps=1, divergent=0.3 * (seed % 2), fences=0.1)


@pytest.mark.thin(5, "5 s")
@pytest.mark.parametrize("kind", ["straight", "loops", "branches"])
@pytest.mark.parametrize("seed", range(12))
def test_lowered_programs_are_clean(kind: str, seed: int) -> None:
    program = lowered(compiled(source_program(kind, seed), seed), (32, 1, 3)[seed % 3])
    assert not len(program.barriers)
    assert not len(program.dependences)
    assert complaints(program) == []


@pytest.mark.thin(6, "9 s")
@pytest.mark.parametrize("seed", range(12))
def test_lowered_programs_compute_the_same_on_every_way(seed: int) -> None:
    source = source_program("branches", seed)
    before = compiled(source, seed)
    after = lowered(before, (32, 1, 3)[seed % 3])
    for number in range(2):
        way = random_inputs(Random(10 * seed + number), source)
        expected = haulout.simulate(before, way).outputs
        for schedule in ("list", "random:1", "slowest:0:sync", "slowest:1:act"):
            found = haulout.simulate(after, way, schedule=schedule)
            assert found.diagnostics == ()
            assert found.outputs.keys() == expected.keys()
            for name, value in expected.items():
                np.testing.assert_array_equal(found.outputs[name], value, err_msg=f"{name} {schedule}")


HLO = ["all_gather.n2", "all_reduce_groups.n4", "fori_loop.n2", "while_loop.n2", "cond_collectives.n2"]


@pytest.mark.parametrize("example", [name for name in HLO if (DATA / f"{name}.hlo").exists()])
def test_partitioned_networks_compute_the_same(example: str) -> None:
    before = haulout.compile(DATA / f"{example}.hlo").program
    after = lowered(before)
    assert complaints(after) == []
    expected = haulout.simulate(before, seed=1).outputs
    for schedule in ("list", "random:2", "slowest:1:sync"):
        found = haulout.simulate(after, seed=1, schedule=schedule)
        assert found.diagnostics == ()
        for name, value in expected.items():
            np.testing.assert_array_equal(found.outputs[name], value)


# -- spoilt ----------------------------------------------------------------------------------------------------------


def spoilt(program: Program) -> Iterator[tuple[str, Program]]:
    """One signal or wait dropped, one constant one less or one more, one `wait_back` one further back."""
    table = program.semaphores
    for at in range(len(table)):
        what = f"{'wait' if table.wait[at] else 'signal'} of %{program.instruction_name(int(table.instruction[at]))}"
        yield f"no {what}", program.replace(semaphores=table.take(np.arange(len(table)) != at))
        for change in (1,) if table.back[at] else (-1, 1) if table.wait[at] else ():
            if table.value[at] + change > 0:
                value = table.value.copy()
                value[at] += change
                yield f"{change:+} {what}", program.replace(semaphores=table.replace(value=value))


def is_right(program: Program, way: int = 0) -> bool:
    """Whether it does not hang, and everything that conflicts is ordered, on one way through."""
    try:
        order = joint_order(program, joint_run(program, Random(way)))
    except AssertionError:
        return False
    ran: dict[tuple[int, str], list[Execution]] = {}
    for execution in order:
        ran.setdefault(execution[:2], []).append(execution)
    for rows in {(a, b) for physical in (False, True) for a, b, _ in conflicts(program, physical=physical)}:
        first, second = (
            ran.get((int(program.instruction_core[row]), program.instruction_name(row)), []) for row in rows
        )
        for a, b in product(first, second):
            if b not in order[a] and a not in order[b]:
                return False
    return True


@pytest.mark.thin(5, "12 s")
@pytest.mark.parametrize("seed", range(10))
def test_what_is_spoilt_is_found_and_nothing_else(seed: int) -> None:
    rng = Random(seed)
    source = random_program(rng, cores=2 + seed % 2, steps=5)
    program = lowered(compiled(source, seed), (32, 1)[seed % 2])
    assert is_right(program)
    assert complaints(program) == []
    every = [*spoilt(program)]
    wrong = 0
    for what, mutant in rng.sample(every, min(25, len(every))):
        right, found = is_right(mutant), set(complaints(mutant))
        assert found or right, what
        # Lifetimes are those of whole locations, conflicts those of bytes.
        assert not right or found <= {"overlapping-storage"}, what
        wrong += not right
    assert wrong


@pytest.mark.thin(6, "8 s")
@pytest.mark.parametrize("seed", range(12))
def test_what_is_spoilt_on_some_way_is_found(seed: int) -> None:
    """With loops and branches not every way can be tried: what is wrong on one of them must be found."""
    rng = Random(seed)
    while True:
        source = random_branch_program(rng, cores=2, steps=1, items=1, depth=1 + seed % 2, fences=0.3)
        program = lowered(compiled(source, 1), (32, 1)[seed % 2])
        if len(program.instructions) <= 90:
            break
    assert complaints(program) == []
    ways = [way for way in range(4) if sum(map(len, joint_run(program, Random(way)))) <= 130]
    assert all(is_right(program, way) for way in ways)
    every = [*spoilt(program)]
    for what, mutant in rng.sample(every, min(8, len(every))):
        if not all(is_right(mutant, way) for way in ways):
            assert complaints(mutant), what
