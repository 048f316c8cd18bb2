"""Loops that cores leave after different numbers of iterations."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.hlo.test_hlo_branches import blocks, lowered, message, opcodes, run

STATE = "(f32[2], s32[])"
COMPUTATIONS = f"""
below {{
  s = {STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}}
up {{
  s = {STATE} parameter(0)
  x = f32[2] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  y = f32[2] add(x, x)
  n = s32[] constant(1)
  m = s32[] add(i, n)
  ROOT r = {STATE} tuple(y, m)
}}
up_together {{
  s = {STATE} parameter(0)
  x = f32[2] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  y = f32[2] all-reduce(x), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=sum
  n = s32[] constant(1)
  m = s32[] add(i, n)
  ROOT r = {STATE} tuple(y, m)
}}
again {{
  s = {STATE} parameter(0)
  ROOT w = {STATE} while(s), condition=below, body=up
}}
rest {{
  ROOT s = {STATE} parameter(0)
}}
"""
START = f"s = {STATE} tuple(x, k)\n"
LOOP = f"{START}w = {STATE} while(s), condition=below, body=up\n"
FIRST = "ROOT r = f32[2] get-tuple-element(w), index=0"


def test_each_core_runs_it_as_often_as_it_needs() -> None:
    program = lowered(LOOP + FIRST, more=COMPUTATIONS)
    assert blocks(program) == [
        "^entry -> ^w",
        "^w -> ^w.body, ^w.end cond=w.cond",
        "^w.body -> ^w.step, ^w.body.end cond=w.body.cond divergent=true",
        "^w.step -> ^w.body.end",  # what the body computes goes where the state lives: nothing to do for the others
        "^w.body.end -> ^w",
        "^w.end",
    ]
    assert opcodes(program).count("all_reduce") == 1
    for starts in ((0, 3), (4, 0), (5, 9), (2, 2)):
        for core, (found,) in enumerate(run(program, k=starts)):
            assert found.tolist() == (np.array([1, 2]) * 2.0 ** max(0, 5 - starts[core])).tolist()


def test_where_the_condition_is_the_same_nothing_is_added() -> None:
    for entry, body in ((LOOP.replace("(x, k)", "(x, j)"), "up"), (LOOP, "up_together")):
        program = lowered(entry.replace("body=up", f"body={body}") + FIRST, more=COMPUTATIONS)
        assert blocks(program)[1] == "^w -> ^w.body, ^w.end cond=c"
        assert not program.blocks.divergent.any()
        assert opcodes(program).count("all_reduce") == (body == "up_together")


def test_what_such_a_loop_carries_may_differ() -> None:
    """The state starts alike, but how often it grew does not."""
    entry = (
        f"z = f32[2] constant({{1, 2}})\ns = {STATE} tuple(z, k)\nw = {STATE} while(s), condition=below, body=up\n"
        "v = f32[2] get-tuple-element(w), index=0\na = f32[1] slice(v), slice={[0:1]}\nb = f32[] reshape(a)\n"
        "l = f32[] constant(9)\np = pred[] compare(b, l), direction=LT\n"
        "ROOT r = f32[2] conditional(p, v, v), true_computation=negated, false_computation=twice"
    )
    program = lowered(entry, more=COMPUTATIONS)
    assert sum("divergent=true" in line for line in blocks(program)) == 2
    first, second = run(program, k=(0, 4))
    assert first[0].tolist() == [64, 128]
    assert second[0].tolist() == [-2, -4]


def test_one_after_the_other() -> None:
    more = f"t = {STATE} tuple(y, k)\nv = {STATE} while(t), condition=below, body=up\n"
    pair = "q = f32[2] get-tuple-element(v), index=0\nb = f32[2] get-tuple-element(w), index=0\n"
    program = lowered(LOOP + more + pair + "ROOT r = f32[2] subtract(b, q)", more=COMPUTATIONS)
    first, second = run(program, k=(3, 5))
    assert first[0].tolist() == [-16, -20]
    assert second[0].tolist() == [-4, -5]


@pytest.mark.parametrize(
    "outer",
    [
        f"w = {STATE} conditional(f, s, s), true_computation=again, false_computation=rest\n",
        f"w = {STATE} while(s), condition=below, body=again\n",
    ],
    ids=["in a branch of some", "in another one"],
)
def test_not_where_only_some_cores_are(outer: str) -> None:
    found = message(START + outer + FIRST, more=COMPUTATIONS)
    assert found == "a divergent loop that not all cores reach is not supported"


def test_in_a_branch_that_all_cores_take() -> None:
    outer = f"w = {STATE} conditional(g, s, s), true_computation=again, false_computation=rest\n"
    program = lowered(START + outer + FIRST, more=COMPUTATIONS)
    first, second = run(program, k=(3, 5))
    assert first[0].tolist() == [4, 8]
    assert second[0].tolist() == [1, 2]
