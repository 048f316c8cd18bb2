"""Where cores may part at a branch, and where they must not."""

from __future__ import annotations

import pytest
from tests.frontends.hlo.test_hlo_branches import PAIR, lowered, message, run

from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.program import Program

ALL, EACH = (
    f"channel_id=3, use_global_device_ids=true, replica_groups={groups}, to_apply=isum"
    for groups in ("{{0,1}}", "{{0},{1}}")
)
CONVERT = "\np = pred[] convert(a)"


@pytest.mark.parametrize(
    ("predicate", "parts"),
    [
        ("p = pred[] not(g)", False),  # replicated
        ("p = pred[] not(f)", True),
        ("p = pred[] constant(true)", False),
        ("m = u32[] partition-id()\np = pred[] convert(m)", True),
        ("m = u32[] replica-id()\np = pred[] convert(m)", False),
        ("m = u32[] partition-id()\nn = u32[] constant(2)\nd = u32[] divide(m, n)\np = pred[] convert(d)", False),
        ("m = u32[] partition-id()\nn = s32[] convert(m)\np = pred[] compare(n, j), direction=LE", True),
        ("p = pred[] compare(k, j), direction=LT", True),
        (f"a = s32[] all-reduce(k), {ALL}{CONVERT}", False),
        (f"a = s32[] all-reduce(k), {EACH}{CONVERT}", True),
        (f"a = s32[] all-reduce(j), {EACH}{CONVERT}", False),
        (f"a = s32[] collective-permute(j), channel_id=3, source_target_pairs={{{{0,1}}}}{CONVERT}", True),
        (f"a = s32[] collective-permute(j), channel_id=3, source_target_pairs={{{{0,1}},{{1,0}}}}{CONVERT}", False),
        (
            f"v = s32[2] broadcast(j), dimensions={{}}\nb = s32[1] reduce-scatter(v), {ALL}, dimensions={{0}}\n"
            f"a = s32[] reshape(b){CONVERT}",
            True,
        ),
        ("b = s32[] conditional(f, j, j), true_computation=inc, false_computation=dec\np = pred[] convert(b)", True),
        ("b = s32[] conditional(g, j, j), true_computation=inc, false_computation=dec\np = pred[] convert(b)", False),
        ("b = s32[] conditional(g, j, k), true_computation=inc, false_computation=dec\np = pred[] convert(b)", True),
        # What a loop adds to: the same at the start, or not.
        ("s = (s32[], s32[]) tuple(j, j)\nw = (s32[], s32[]) while(s), condition=less, body=grow\n"
         "b = s32[] get-tuple-element(w), index=1\np = pred[] convert(b)", False),
        ("s = (s32[], s32[]) tuple(j, k)\nw = (s32[], s32[]) while(s), condition=less, body=grow\n"
         "b = s32[] get-tuple-element(w), index=1\np = pred[] convert(b)", True),
        # The same at the start, but not what is added.
        ("s = (s32[], s32[], s32[]) tuple(j, j, k)\n"
         "w = (s32[], s32[], s32[]) while(s), condition=less_3, body=grow_3\n"
         "b = s32[] get-tuple-element(w), index=1\np = pred[] convert(b)", True),
    ],
)  # fmt: skip
def test_where_cores_may_part(predicate: str, parts: bool) -> None:
    more = (
        "isum {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b)\n}\n"
        "inc {\n a = s32[] parameter(0)\n b = s32[] constant(1)\n ROOT c = s32[] add(a, b)\n}\n"
        "dec {\n a = s32[] parameter(0)\n b = s32[] constant(1)\n ROOT c = s32[] subtract(a, b)\n}\n"
        "less {\n s = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " n = s32[] constant(9)\n ROOT c = pred[] compare(i, n), direction=LT\n}\n"
        "grow {\n s = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " v = s32[] get-tuple-element(s), index=1\n n = s32[] constant(1)\n m = s32[] add(i, n)\n"
        " w = s32[] add(v, n)\n ROOT t = (s32[], s32[]) tuple(m, w)\n}\n"
        "less_3 {\n s = (s32[], s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " n = s32[] constant(9)\n ROOT c = pred[] compare(i, n), direction=LT\n}\n"
        "grow_3 {\n s = (s32[], s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " v = s32[] get-tuple-element(s), index=1\n k = s32[] get-tuple-element(s), index=2\n n = s32[] constant(1)\n"
        " m = s32[] add(i, n)\n w = s32[] add(v, k)\n ROOT t = (s32[], s32[], s32[]) tuple(m, w, k)\n}\n"
    )
    branch = "\nROOT r = f32[2] conditional(p, x, y), true_computation={0}, false_computation=twice"
    program = lowered(predicate + branch.format("negated"), more=more)
    assert bool(program.blocks.divergent[fork(program)]) == parts
    # With a collective inside, HLO promises that they do not.
    if "partition-id" not in predicate or not parts:
        program = lowered(predicate + branch.format("summed"), more=more)
        assert not program.blocks.divergent[fork(program)]


def fork(program: Program) -> int:
    """The last fork of core 0."""
    forks = program.structure.forks
    return forks[len(forks) // program.lnc - 1].block


def test_one_core_does_not_part() -> None:
    program = lowered(
        "ROOT r = f32[2] conditional(f, x, y), true_computation=negated, false_computation=twice",
        cores=1,
    )
    assert not program.blocks.divergent.any()


def test_what_some_cores_take_may_part_inside() -> None:
    """A branch that is alike everywhere, in an arm that is not taken everywhere."""
    more = (
        f"inner {{\n p = (pred[], {PAIR}) parameter(0)\n c = pred[] get-tuple-element(p), index=0\n"
        f" q = {PAIR} get-tuple-element(p), index=1\n"
        f" ROOT r = {PAIR} conditional(c, q, q), true_computation=exchanged, false_computation=first_negated\n}}\n"
    )
    program = lowered(
        f"q = {PAIR} tuple(x, y)\np = (pred[], {PAIR}) tuple(g, q)\n"
        f"ROOT r = {PAIR} conditional(f, p, q), true_computation=inner, false_computation=pair",
        more=more,
    )
    assert program.blocks.divergent.tolist()[:2] == [True, True]
    first, second = run(program, f=(True, False), g=False)
    assert [value.tolist() for value in first] == [[-1, -2], [5, 7]]
    assert [value.tolist() for value in second] == [[1, 2], [5, 7]]


def test_parting_cores_cannot_meet() -> None:
    found = message(
        "m = u32[] partition-id()\np = pred[] convert(m)\n"
        "ROOT r = f32[2] conditional(p, x, x), true_computation=summed, false_computation=same"
    )
    assert found == "conditional: %y in one of its branches is a collective, and not all cores take the same branch"


QUARTERS = """HloModule m, num_partitions=4

isum {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}}
twice {{
  a = f32[2] parameter(0)
  ROOT c = f32[2] add(a, a)
}}
negated {{
  a = f32[2] parameter(0)
  ROOT c = f32[2] negate(a)
}}
ENTRY main {{
  x = f32[2] parameter(0)
  k = s32[] parameter(1), sharding={{devices=[2,2]<=[4] last_tile_dim_replicate}}
  z = s32[] parameter(2), sharding={{replicated}}
  {line}
  p = pred[] convert(a)
  ROOT r = f32[2] conditional(p, x, x), true_computation=negated, false_computation=twice
}}
"""


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("a = s32[] copy(k)", True),
        ("a = s32[] all-reduce(k), {groups}{{0,1},{2,3}}", True),
        # One of each tile: all groups get the same.
        ("a = s32[] all-reduce(k), {groups}{{0,2},{1,3}}", False),
        ("a = s32[] all-reduce(k), {groups}{{0,2},{3,1}}", True),
        ("a = s32[] all-reduce(z), {groups}{{0,2},{3,1}}", False),
        ("a = s32[] all-reduce(z), {groups}{{0,1,2},{3}}", True),
        ("a = s32[] collective-permute(z), channel_id=1, source_target_pairs={{0,1}}", True),
        ("a = s32[] collective-permute(k), channel_id=1, source_target_pairs={{0,1},{1,0},{2,3},{3,2}}", True),
        ("a = s32[] collective-permute(k), channel_id=1, source_target_pairs={{0,2},{1,3}}", True),
        ("b = s32[] add(k, z)\na = s32[] all-reduce(b), {groups}{{0,2},{1,3}}", False),
    ],
)
def test_classes_of_cores(line: str, parts: bool) -> None:
    groups = "channel_id=1, use_global_device_ids=true, to_apply=isum, replica_groups="
    text = QUARTERS.format(line=line.replace("{groups}", groups))
    program = lower(parse_hlo(text, "m.hlo"))
    assert bool(program.blocks.divergent[fork(program)]) == parts


def test_results_keep_off_locations_that_more_cores_share() -> None:
    text = """HloModule m, num_partitions=2

ENTRY main {{
  w = f32[4] parameter(0), sharding={{replicated}}
  x = f32[4] parameter(1)
  z = f32[] constant(1)
  e = {equal}
  r = f32[4] add(e, x)
  ROOT s = f32[4] multiply(r, r)
}}
"""
    names = []
    for equal in ("f32[4] exponential(w)", "f32[4] exponential(x)", "f32[4] broadcast(z), dimensions={}"):
        program = lower(parse_hlo(text.format(equal=equal), "m.hlo"), fuse="none")
        count = len(program.locations) // program.lnc
        names.append([program.strings[int(name)] for name in program.locations.name[:count]])
    assert "e" in names[0]
    assert "e" not in names[1]
    assert "e" not in names[2]
