"""Random programs with loops and branches, compiled: every schedule computes what the source's list order does.

Also with the dependences of the compiled program made into semaphores.
"""

from random import Random

import pytest

import haulout
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.lower_sync import LowerSync
from haulout.sim import compare_schedules, simulate
from haulout.sim.inputs import Values
from haulout_generators.branch_programs import random_branch_program, random_way


def expect_same(program: Program, inputs: Values, expected: Values, seed: int) -> None:
    report = compare_schedules(program, inputs, values=True)
    assert report.agrees, report.diagnostics
    for schedule in ("list", f"random:{seed}"):
        outputs = simulate(program, inputs, schedule=schedule).outputs
        assert {name: value.tobytes() for name, value in outputs.items()} == {
            name: value.tobytes() for name, value in expected.items()
        }


@pytest.mark.thin(4, "10 s")
@pytest.mark.parametrize("divergent", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(8))
def test_compiled_programs_compute_what_the_source_does(seed: int, divergent: float) -> None:
    rng = Random(seed)
    source = random_branch_program(rng, divergent=divergent)
    compiled = haulout.compile(source).program
    lowered = LowerSync().run(compiled, PassContext())
    for _ in range(2):
        inputs = random_way(rng, source)
        expected = simulate(source, inputs).outputs
        expect_same(compiled, inputs, expected, seed)
        expect_same(lowered, inputs, expected, seed)
