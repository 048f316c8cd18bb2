"""alternate_buffers: the same results, bit for bit, and proved, whether or not it pays."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.cli.command import CHEAP_FENCES
from tests.tiers import examples

import haulout
from haulout.ir.verify import check_sound
from haulout.passes.alternate_buffers import AlternateBuffers
from haulout.passes.base import PassContext
from haulout.passes.unrolling.buffers import alternating, with_buffers
from haulout.passes.unrolling.unroll import refusal, unroll
from haulout_generators.lockstep_programs import lockstep_inputs, random_lockstep_program
from haulout_generators.state_programs import random_state_program


def with_all(rng: Random, program: haulout.Program) -> tuple[haulout.Program, int, int]:
    """The program with its loops written out twice, inner ones first, some with all their second buffers; how many
    loops, and buffers.
    """
    names = [
        int(program.blocks.name[each.header])
        for each in reversed(program.structure.loops.values())
        if each.header < len(program.blocks) // program.lnc
    ]
    loops = buffers = 0
    for name in names:
        loop = next(each for each in program.structure.loops.values() if program.blocks.name[each.header] == name)
        if refusal(program, loop) is not None or rng.random() < 0.2:
            continue
        chosen = [each for each in alternating(program, loop) if rng.random() < 0.8]
        made = with_buffers(program, loop, chosen)
        program = check_sound(unroll(made.program, loop, made.halves))
        loops, buffers = loops + 1, buffers + len(chosen)
    return program, loops, buffers


def check_same(program: haulout.Program, changed: haulout.Program, seed: int) -> None:
    """Where a program is not proved, it may read what nothing has written, and its results are anything."""
    inputs = lockstep_inputs(Random(seed), program)
    before = haulout.compile(program, share="none")
    expected = haulout.simulate(before.program, inputs).outputs
    result = haulout.compile(changed, share="none")
    if not before.proved:
        return
    # A loop that is written out has twice the forks, and where one is left to the runs there may be too many.
    assert result.proved or {each.code for each in result.diagnostics} == {"unproved-paths"}, result.diagnostics
    found = haulout.simulate(result.program, inputs).outputs
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@settings(max_examples=examples(200), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_written_out_twice_with_two_buffers(seed: int) -> None:
    program = random_state_program(Random(seed))
    check_same(program, with_all(Random(seed), program)[0], seed)


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=13313)
def test_any_program_in_lockstep(seed: int) -> None:
    program = random_lockstep_program(Random(seed), cores=2)
    check_same(program, with_all(Random(seed), program)[0], seed)


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32), cores=st.sampled_from([2, 4]))
def test_divided_with_two_buffers(seed: int, cores: int) -> None:
    program = random_state_program(Random(seed), cores=cores)
    changed = eagerly(program, PassContext())
    inputs = lockstep_inputs(Random(seed), program)
    expected = haulout.simulate(haulout.compile(program, share="none").program, inputs).outputs
    result = haulout.compile(changed)
    # Of many branches, the checker does not follow all paths.
    assert result.proved or not haulout.compile(program, target=CHEAP_FENCES).proved, [
        str(each) for each in result.diagnostics
    ]
    found = haulout.simulate(result.program, inputs).outputs
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def eagerly(program: haulout.Program, context: PassContext) -> haulout.Program:
    """Two buffers wherever cores touch parts of others."""
    return check_sound(
        AlternateBuffers(least_gain=-1.0, most_bytes=1.0, target=str(CHEAP_FENCES)).run(program, context)
    )


def test_many_random_loops_are_changed() -> None:
    """Else the tests above say little."""
    loops = buffers = 0
    for seed in range(60):
        made = with_all(Random(seed), random_state_program(Random(seed)))
        loops, buffers = loops + made[1], buffers + made[2]
    assert loops >= 30
    assert buffers >= 60
    context = PassContext()
    for seed in range(40):
        eagerly(random_state_program(Random(seed), cores=4), context)
    assert context.counters["alternate_buffers"]["loops"] >= 3
