"""All that cannot be compiled is said at once: each construct, its place, how often, and what to write instead."""

from __future__ import annotations

import pytest

from haulout.frontends.hlo import lower, parse_hlo
from haulout.support.diagnostics import Diagnostic, HauloutError

MANY = """HloModule many, num_partitions=2

unused { p = f8e3m4[2] parameter(0)
  ROOT r = f8e3m4[2] negate(p) }

inner { s = (s32[], f8e3m4[8]) parameter(0)
  q = s4[8] parameter(1)
  i = s32[] get-tuple-element(s), index=0
  x = f8e3m4[8] get-tuple-element(s), index=1
  r = s32[] blend(i), replica_groups={{0,1}}
  ROOT t = (s32[], f8e3m4[8]) tuple(r, x) }

ENTRY e {
  p = f32[8] parameter(0)
  d = f32[<=8] parameter(1)
  n = f32[8] negate(p), rounding=up
  m = f32[8] negate(n), rounding=up
  o = f32[9] negate(n)
  a = f32[8] ragged-all-to-all(p)
  b = f32[8] ragged-all-to-all(p)
  c = f32[8] ragged-all-to-all(p)
  y = f8e3m4[8] parameter(2)
  z = s32[] constant(3)
  w = s4[8] parameter(3)
  t = (s32[], f8e3m4[8]) tuple(z, y)
  k = (s32[], f8e3m4[8]) call(t, w), to_apply=inner
  ROOT r = f32[8] opt-barrier(o)
}
"""


def refused(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(HauloutError) as caught:
        lower(parse_hlo(text, "m.hlo"))
    return caught.value.diagnostics


def line_of(text: str, part: str, nth: int = 0) -> int:
    return [number for number, line in enumerate(text.splitlines(), 1) if part in line][nth]


def test_every_construct_is_reported_once() -> None:
    found = refused(MANY)
    starts = [
        "element type `s4` is not supported",
        "element type `f8e3m4` is not supported",
        "`blend` is not supported",
        "dynamic dimensions are not supported",
        "the attribute `rounding` of negate is not supported",
        "negate: the result is f32[8], declared as f32[9]",
        "`ragged-all-to-all` is not supported",
    ]
    for start in starts:
        assert [each.message.startswith(start) for each in found].count(True) >= 1, start
    assert len({each.message for each in found}) == len(found) or len(found) <= len(starts) + 3


def test_a_construct_names_its_places() -> None:
    (mixed,) = [each for each in refused(MANY) if "ragged" in each.message]
    assert mixed.span is not None and mixed.span.line == line_of(MANY, "ragged")
    lines = ", ".join(str(line_of(MANY, "ragged", nth)) for nth in (1, 2))
    assert mixed.notes == (f"3 times in this module; also at lines {lines}",)
    assert any("all-reduce" in each for each in mixed.help)


def test_what_is_not_reached_is_not_reported() -> None:
    lines = {each.span.line for each in refused(MANY) if each.span is not None}
    assert line_of(MANY, "unused") not in lines
    assert all(each.span is not None and each.span.line > line_of(MANY, "unused") + 1 for each in refused(MANY))


@pytest.mark.parametrize(
    ("shape", "help_text"), [("s4[8]", "convert to a type"), ("f32[<=8]", "pad the array to its bound")]
)
def test_what_to_write_instead(shape: str, help_text: str) -> None:
    (found,) = refused(f"HloModule m, num_partitions=2\nENTRY e {{\nROOT x = {shape} parameter(0)\n}}\n")
    assert any(help_text in each for each in found.help)


@pytest.mark.parametrize(
    "instruction",
    [
        "r = s4[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "r = (f32[2,2], s4[2], f32[2]) batch-norm-training(x, x, x), epsilon=1, feature_index=1",
        'r = s4[2,2] custom-call(x), custom_call_target="AwsNeuronGelu"',
        "r = (u64[2], s4[3]) rng-bit-generator(k), algorithm=rng_three_fry",
    ],
)
def test_what_is_rewritten_is_refused_for_its_type(instruction: str) -> None:
    text = f"HloModule m\nENTRY e {{\nx = f32[2,0] parameter(0)\nk = u64[2] parameter(1)\nROOT {instruction}\n}}\n"
    (found,) = refused(text)
    assert found.message == "element type `s4` is not supported"


def test_a_fault_of_the_whole_program_is_reported_alone() -> None:
    text = """HloModule m, num_partitions=2
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
one { x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1}}, to_apply=sum }
two { x = f32[2] parameter(0)
  ROOT r = f32[2] negate(x) }
ENTRY e { x = f32[2] parameter(0)
  i = u32[] partition-id()
  z = u32[] constant(0)
  p = pred[] compare(i, z), direction=EQ
  ROOT c = f32[2] conditional(p, x, x), true_computation=one, false_computation=two }
"""
    (found,) = refused(text)
    assert "not all cores take the same branch" in found.message
