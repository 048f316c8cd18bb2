"""Instructions that are not understood: kept with their attributes, proved, never executed or taken to be pure."""

from __future__ import annotations

from pathlib import Path

import pytest

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.enums import NONE
from haulout.ir.opaque import opaque_instructions
from haulout.ir.opcodes import OPAQUE
from haulout.ir.program import Program
from haulout.ir.text.parser import parse_bir
from haulout.ir.text.printer import print_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError, Severity

CODE = "opaque-instruction"
SUM = "sum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] add(p, q)\n}\n"
LOOP = """
below { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT lt = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8] add(x, x)
  print = () custom-call(y, i), custom_call_target="print", custom_call_has_side_effect=true
  ROOT t = (s32[], f32[8]) tuple(j, y) }
"""


def program(body: str, before: str = "", cores: int = 2) -> Program:
    text = f"HloModule m, num_partitions={cores}\n{SUM}{before}ENTRY e {{\nx = f32[8] parameter(0)\n{body}\n}}\n"
    found = lower(parse_hlo(text, "m.hlo"))
    assert verify(found) == []
    assert print_bir(parse_bir(print_bir(found))) == print_bir(found)
    return found


def opaque(found: Program) -> list[tuple[str, dict[str, object]]]:
    """Opcode and attributes of the opaque instructions of core 0."""
    function = found.module_views()[0].functions[0]
    rows = [row for block in function.blocks for row in block.instructions]
    return [(row.opcode, dict(row.attrs)) for row in rows if row.opcode.startswith(OPAQUE)]


def test_opcode_and_attributes_are_kept() -> None:
    found = program('ROOT y = f32[8] frobnicate(x), strength=4, mode={a,b}, metadata={op_name="n"}')
    assert opaque(found) == [("hlo.frobnicate", {"text": "strength=4, mode={a,b}"})]


def test_a_custom_call_keeps_its_target_and_its_effect() -> None:
    found = program(
        'ROOT y = (f32[8], s32[2]) custom-call(x), custom_call_target="my.kernel", backend_config="{\\"k\\": 1}", '
        "custom_call_has_side_effect=true"
    )
    ((opcode, attrs),) = opaque(found)
    assert (opcode, attrs["target"], attrs["effect"]) == ("hlo.custom_call", "my.kernel", True)
    assert '{\\"k\\": 1}' in str(attrs["text"])


def test_nothing_opaque_is_dropped() -> None:
    found = program('y = () custom-call(x), custom_call_target="log"\nROOT z = f32[8] negate(x)')
    assert [opcode for opcode, _ in opaque(found)] == ["hlo.custom_call"]


@pytest.mark.parametrize("used", [True, False])
def test_a_loop_is_kept_for_what_is_opaque_in_it(used: bool) -> None:
    body = (
        "z = s32[] constant(0)\ni = (s32[], f32[8]) tuple(z, x)\n"
        "w = (s32[], f32[8]) while(i), condition=below, body=step\n"
        + ("ROOT y = f32[8] get-tuple-element(w), index=1" if used else "ROOT y = f32[8] negate(x)")
    )
    result = haulout.compile(program(body, LOOP))
    assert result.proved
    assert [attrs["target"] for _, attrs in opaque(result.program)] == ["print"]


def test_an_arm_is_kept_for_what_is_opaque_in_it() -> None:
    arms = (
        'loud { v = f32[8] parameter(0)\n l = () custom-call(v), custom_call_target="log"\n'
        "ROOT r = f32[8] negate(v) }\n"
        "calm { v = f32[8] parameter(0)\n ROOT r = f32[8] abs(v) }\n"
    )
    body = (
        "p = pred[] parameter(1)\nc = f32[8] conditional(p, x, x), true_computation=loud, false_computation=calm\n"
        "ROOT y = f32[8] negate(x)"
    )
    result = haulout.compile(program(body, arms))
    assert result.proved
    assert len(opaque(result.program)) == 1
    assert (result.program.blocks.cond != NONE).any()


def test_results_are_taken_to_differ_between_cores() -> None:
    """A branch on what an opaque instruction gives may part the cores; equal parameters do not change that."""
    arms = (
        "one { v = f32[8] parameter(0)\n ROOT r = f32[8] negate(v) }\n"
        "two { v = f32[8] parameter(0)\n ROOT r = f32[8] abs(v) }\n"
    )
    ask = 'p = pred[] custom-call(x), custom_call_target="ask"\n'
    branch = "ROOT c = f32[8] conditional(p, x, x), true_computation=one, false_computation=two"
    known = "k = f32[8] parameter(1), sharding={replicated}\n"
    found = program(f"{known}{ask.replace('(x)', '(k)')}{branch}", arms)
    assert found.blocks.divergent.any()


def test_one_warning_lists_them_all() -> None:
    body = (
        'a = f32[8] custom-call(x), custom_call_target="k"\nb = f32[8] custom-call(a), custom_call_target="k"\n'
        "ROOT y = f32[8] frobnicate(b)"
    )
    (finding,) = opaque_instructions(program(body))
    assert (finding.code, finding.severity) == (CODE, Severity.WARNING)
    assert finding.message.startswith("3 instructions are opaque")
    assert finding.notes[0].startswith("custom_call of k: 2, first at m.hlo:")
    assert finding.notes[1].startswith("frobnicate: 1, first at m.hlo:")
    assert opaque_instructions(program("ROOT y = f32[8] negate(x)")) == []


@pytest.mark.parametrize("execute", [haulout.simulate, haulout.run])
def test_execution_stops_with_its_name_and_line(execute: object) -> None:
    compiled = haulout.compile(program('ROOT y = f32[8] custom-call(x), custom_call_target="k"')).program
    with pytest.raises(HauloutError, match="%y cannot be executed: custom_call of k is opaque") as caught:
        execute(compiled)  # type: ignore[operator]
    spans = [str(label.span) for label in caught.value.diagnostics[0].labels]
    assert spans and all(span.startswith("m.hlo:") for span in spans)


@pytest.mark.parametrize(
    "instruction",
    [
        "ragged-all-to-all(x)",
        "collective-broadcast(x), replica_groups={{0,1}}",
        "send(x), channel_id=1",
        "blend(x), channel_id=1",
        "blend(x), replica_groups={{0,1}}",
        "blend(x), source_target_pairs={{0,1}}",
        'custom-call(x), custom_call_target="k", use_global_device_ids=true',
    ],
)
def test_an_unknown_collective_is_refused(instruction: str) -> None:
    with pytest.raises(HauloutError, match="is not supported"):
        program(f"ROOT y = f32[8] {instruction}")


def test_an_opaque_instruction_between_collectives_is_proved(tmp_path: Path) -> None:
    reduced = "all-reduce({}), channel_id={}, use_global_device_ids=true, replica_groups={{{{0,1}}}}, to_apply=sum"
    body = (
        f"a = f32[8] {reduced.format('x', 1)}\n"
        'b = f32[8] custom-call(a), custom_call_target="k"\n'
        f"ROOT c = f32[8] {reduced.format('b', 2)}"
    )
    result = haulout.compile(program(body))
    assert result.proved
    assert [each.code for each in result.diagnostics if each.severity is Severity.WARNING] == [CODE]
    path = tmp_path / "program.bir"
    path.write_text(print_bir(result.program))
    assert [each.code for each in haulout.check(path)] == [CODE]


HOST = """
  t0 = token[] after-all()
  i = ((f32[8], s32[2]), token[]) infeed(t0), infeed_config="a"
  data = (f32[8], s32[2]) get-tuple-element(i), index=0
  t1 = token[] get-tuple-element(i), index=1
  v = f32[8] get-tuple-element(data), index=0
  y = f32[8] add(v, x)
  t2 = token[] outfeed(y, t1), outfeed_shape=f32[8]{0}
  s = (f32[8], u32[], token[]) send(y, t2), channel_id=1, is_host_transfer=true
  t3 = token[] send-done(s), channel_id=1, is_host_transfer=true
  ROOT r = (f32[8], token[]) tuple(v, t3)
"""


def test_the_host_is_reached_in_order_of_tokens() -> None:
    result = haulout.compile(program(HOST))
    assert result.proved
    rows = result.program.module_views()[0].functions[0].blocks[0].instructions
    names = [row.opcode.removeprefix(OPAQUE) for row in rows if row.opcode.startswith(OPAQUE)]
    assert names == ["infeed", "outfeed", "send", "send_done"]
    by_name = {row.opcode: [place.name for place, _ in row.reads] for row in rows}
    assert set(by_name["hlo.send"]) <= set(by_name["hlo.send_done"])  # the transfer may still read them
