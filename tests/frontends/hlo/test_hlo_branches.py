"""Branches: their blocks, the copies they need and those they do not, and what is said about what does not fit."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.executor import Executor

from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.enums import Kind
from haulout.ir.program import Program
from haulout.ir.text.parser import parse_bir
from haulout.ir.text.printer import print_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

PAIR = "(f32[2], f32[2])"
ARMS = f"""
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
negated {{
  x = f32[2] parameter(0)
  ROOT y = f32[2] negate(x)
}}
twice {{
  x = f32[2] parameter(0)
  ROOT y = f32[2] add(x, x)
}}
same {{
  ROOT x = f32[2] parameter(0)
}}
pair {{
  ROOT p = {PAIR} parameter(0)
}}
exchanged {{
  p = {PAIR} parameter(0)
  x = f32[2] get-tuple-element(p), index=0
  y = f32[2] get-tuple-element(p), index=1
  ROOT r = {PAIR} tuple(y, x)
}}
first_negated {{
  p = {PAIR} parameter(0)
  x = f32[2] get-tuple-element(p), index=0
  y = f32[2] get-tuple-element(p), index=1
  n = f32[2] negate(x)
  ROOT r = {PAIR} tuple(n, y)
}}
summed {{
  x = f32[2] parameter(0)
  ROOT y = f32[2] all-reduce(x), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=sum
}}
"""


def module(entry: str, *, more: str = "", header: str = "", cores: int = 2) -> str:
    """The parameters are `f`, `k`, `x`, `y`, and `g`, `j`, which all cores share; `more` are computations."""
    return (
        f"HloModule m, num_partitions={cores}{header}\n{ARMS}{more}\nENTRY e {{\n"
        "f = pred[] parameter(0)\nk = s32[] parameter(1)\nx = f32[2] parameter(2)\ny = f32[2] parameter(3)\n"
        "g = pred[] parameter(4), sharding={replicated}\nj = s32[] parameter(5), sharding={replicated}\n"
        f"{entry}\n}}\n"
    )


def lowered(entry: str, **options: Any) -> Program:
    found = lower(parse_hlo(module(entry, **options), "m.hlo"))
    assert verify(found) == []
    assert print_bir(parse_bir(print_bir(found))) == print_bir(found)
    assert len(found.structure.region_of) == len(found.blocks)
    return found


def blocks(program: Program) -> list[str]:
    """Of core 0: name, successors, condition."""
    lines = [line.strip() for line in print_bir(program).splitlines() if line.startswith("    block")]
    return [line.removeprefix("block ").removesuffix(":") for line in lines[: len(lines) // program.lnc]]


def opcodes(program: Program) -> list[str]:
    count = len(program.instructions) // program.lnc
    return [program.strings[int(number)] for number in program.instructions.opcode[:count]]


def run(program: Program, **values: object) -> list[list[np.ndarray]]:
    """Outputs of every core; a value is for both cores, or a list of two."""
    given = {"f": True, "k": 0, "x": [1, 2], "y": [5, 7], "g": True, "j": 0} | values
    types = {"f": np.bool_, "g": np.bool_, "k": np.int32, "j": np.int32, "x": np.float32, "y": np.float32}
    inputs = []
    for core in range(2):
        own = {name: v[core] if isinstance(v, tuple) else v for name, v in given.items()}
        inputs.append([np.array(own[name], types[name]) for name in ("f", "k", "x", "y", "g", "j")])
    return Executor(program).run(inputs)


def message(entry: str, **options: Any) -> str:
    with pytest.raises(HauloutError) as caught:
        lower(parse_hlo(module(entry, **options), "m.hlo"))
    assert caught.value.diagnostics[0].span is not None
    return caught.value.diagnostics[0].message


# -- blocks and copies ----------------------------------------------------------------------------------------


def test_the_blocks_of_a_branch() -> None:
    program = lowered(
        "p = pred[] not(g)\nROOT r = f32[2] conditional(p, x, y), true_computation=negated, false_computation=twice"
    )
    assert blocks(program) == [
        "^entry -> ^r.true, ^r.false cond=p",
        "^r.true -> ^r.end",
        "^r.false -> ^r.end",
        "^r.end",
    ]
    assert opcodes(program) == ["not", "negate", "add"]  # both arms write the result where it has to be
    assert run(program, g=False)[1][0].tolist() == [-1, -2]
    assert run(program, g=True)[1][0].tolist() == [10, 14]


def test_an_arm_without_content() -> None:
    """The second one has no block; the first one has an empty one."""
    make = "v = f32[2] add(x, y)\nROOT r = f32[2] conditional(g, v, v), "
    without = lowered(make + "true_computation=negated, false_computation=same")
    assert blocks(without)[0] == "^entry -> ^r.true, ^r.end cond=r.cond"
    assert opcodes(without) == ["add", "dma_copy", "negate"]  # the copy is that of the condition
    first = lowered(make + "true_computation=same, false_computation=negated")
    assert blocks(first)[:2] == ["^entry -> ^r.true, ^r.false cond=r.cond", "^r.true -> ^r.end"]
    for program, way in ((without, False), (first, True)):
        assert run(program, g=way)[0][0].tolist() == [6, 9]
        assert run(program, g=not way)[0][0].tolist() == [-6, -9]


def test_a_parameter_that_is_passed_on_is_copied_and_kept() -> None:
    program = lowered(
        "r = f32[2] conditional(g, x, x), true_computation=same, false_computation=negated\n"
        f"ROOT t = {PAIR} tuple(r, x)"
    )
    assert [value.tolist() for value in run(program, g=True)[0]] == [[1, 2], [1, 2]]
    assert [value.tolist() for value in run(program, g=False)[0]] == [[-1, -2], [1, 2]]


def test_what_both_arms_pass_on_is_no_result() -> None:
    program = lowered(
        f"p = {PAIR} tuple(x, y)\n"
        f"c = {PAIR} conditional(f, p, p), true_computation=pair, false_computation=first_negated\n"
        "ROOT r = f32[2] get-tuple-element(c), index=1"
    )
    assert blocks(program) == ["^entry"]
    assert opcodes(program) == ["dma_copy"]
    assert run(program)[0][0].tolist() == [5, 7]


def test_an_exchange_in_one_arm_saves_a_value() -> None:
    program = lowered(
        f"v = f32[2] negate(x)\nw = f32[2] negate(y)\np = {PAIR} tuple(v, w)\n"
        f"ROOT c = {PAIR} conditional(g, p, p), true_computation=exchanged, false_computation=pair"
    )
    arms = [text.partition(":\n")[2].count("\n") for text in print_bir(program).split("    block ^c.")[1:3]]
    assert sorted(arms) == [0, 3]  # one arm costs nothing, the other one three copies
    assert [value.tolist() for value in run(program, g=True)[0]] == [[-5, -7], [-1, -2]]
    assert [value.tolist() for value in run(program, g=False)[0]] == [[-1, -2], [-5, -7]]


def test_an_arm_may_overwrite_what_only_the_other_one_reads() -> None:
    program = lowered(
        "v = f32[2] negate(x)\nr = f32[2] conditional(g, v, v), true_computation=negated, false_computation=same\n"
        "ROOT s = f32[2] conditional(f, r, r), true_computation=twice, false_computation=same"
    )
    internal = [int(kind) for kind in program.locations.kind].count(Kind.INTERNAL) // program.lnc
    assert internal == 2  # the two conditions: everything else is computed in the output
    assert opcodes(program).count("dma_copy") == 2
    assert run(program, g=False, f=(True, False))[0][0].tolist() == [-2, -4]
    assert run(program, g=True, f=(True, False))[1][0].tolist() == [1, 2]


def test_a_value_needed_behind_the_branch_is_not_overwritten_in_it() -> None:
    program = lowered(
        "v = f32[2] negate(x)\nr = f32[2] conditional(g, v, v), true_computation=negated, false_computation=same\n"
        "ROOT s = f32[2] add(r, v)"
    )
    assert run(program, g=True)[0][0].tolist() == [0, 0]
    assert run(program, g=False)[0][0].tolist() == [-2, -4]


def test_what_is_not_needed_is_not_computed() -> None:
    """Of two results one is read: the other one's operation is not there."""
    program = lowered(
        f"p = {PAIR} tuple(x, y)\n"
        f"c = {PAIR} conditional(g, p, p), true_computation=exchanged, false_computation=first_negated\n"
        "ROOT r = f32[2] get-tuple-element(c), index=1"
    )
    assert "negate" not in opcodes(program)
    assert run(program, g=True)[0][0].tolist() == [1, 2]


def test_a_donated_parameter_is_updated_in_place() -> None:
    program = lowered(
        "ROOT r = f32[2] conditional(g, x, x), true_computation=negated, false_computation=twice",
        header=", input_output_alias={ {}: (2, {}) }",
    )
    assert program.output_names == ["x"]
    assert opcodes(program) == ["dma_copy", "negate", "add"]


PICKS = list(product(("x", "y", "n"), repeat=2))
"""What an arm may return: its first operand, its second one, or the first one negated."""


@pytest.mark.parametrize("behind", ["", ", v", ", u"])
@pytest.mark.parametrize("picks", PICKS, ids=",".join)
def test_every_branch_of_two_results(picks: tuple[str, str], behind: str) -> None:
    """All pairs of arms on two computed values, one of which may be read behind the branch."""

    def arm(name: str, chosen: tuple[str, str]) -> str:
        return (
            f"{name} {{\np = {PAIR} parameter(0)\nx = f32[2] get-tuple-element(p), index=0\n"
            f"y = f32[2] get-tuple-element(p), index=1\nn = f32[2] negate(x)\n"
            f"ROOT r = {PAIR} tuple({', '.join(chosen)})\n}}\n"
        )

    for other in PICKS:
        program = lowered(
            f"v = f32[2] negate(x)\nu = f32[2] add(y, y)\np = {PAIR} tuple(v, u)\n"
            f"c = {PAIR} conditional(g, p, p), true_computation=one, false_computation=two\n"
            "a = f32[2] get-tuple-element(c), index=0\nb = f32[2] get-tuple-element(c), index=1\n"
            f"ROOT r = ({', '.join(['f32[2]'] * (3 if behind else 2))}) tuple(a, b{behind})",
            more=arm("one", picks) + arm("two", other),
        )
        values = {"x": [-1, -2], "y": [10, 14], "n": [1, 2], "v": [-1, -2], "u": [10, 14]}
        for way, chosen in ((True, picks), (False, other)):
            expected = [values[name] for name in (*chosen, *behind.split(", ")[1:])]
            assert [value.tolist() for value in run(program, g=way)[0]] == expected, (other, way)


def test_a_predicate_lives_until_it_has_decided() -> None:
    """A loop starts from it, and would like to live in its place."""
    more = (
        "flip {\n s = (s32[], pred[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " p = pred[] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n"
        " q = pred[] not(p)\n ROOT t = (s32[], pred[]) tuple(j, q)\n}\n"
        "again {\n s = (s32[], pred[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " three = s32[] constant(3)\n ROOT c = pred[] compare(i, three), direction=LT\n}\n"
    )
    program = lowered(
        "v = pred[] not(g)\nzero = s32[] constant(0)\ns = (s32[], pred[]) tuple(zero, v)\n"
        "w = (s32[], pred[]) while(s), condition=again, body=flip\nu = pred[] get-tuple-element(w), index=1\n"
        "z = f32[2] conditional(v, x, y), true_computation=negated, false_computation=twice\n"
        "ROOT r = (f32[2], pred[]) tuple(z, u)",
        more=more,
    )
    assert [value.tolist() for value in run(program, g=True)[0]] == [[10, 14], True]
    assert [value.tolist() for value in run(program, g=False)[0]] == [[-1, -2], False]


# -- conditions -----------------------------------------------------------------------------------------------


def test_a_condition_is_written_in_the_block_that_branches() -> None:
    """Once where it is computed, a copy where that is another block."""
    program = lowered(
        "p = pred[] not(g)\nr = f32[2] conditional(p, x, y), true_computation=negated, false_computation=twice\n"
        "ROOT s = f32[2] conditional(p, r, y), true_computation=negated, false_computation=twice"
    )
    assert [line.partition(" cond=")[2] for line in blocks(program)] == ["p", "", "", "s.cond", "", "", ""]
    copy = print_bir(program).partition("block ^r.end")[2].splitlines()[1]
    assert "dma_copy" in copy and "(%p) -> (%s.cond)" in copy


def test_branches_by_number() -> None:
    """Halved, and halved again, by unsigned comparisons with shared constants."""
    text = "conditional({}), branch_computations={{same, twice, negated, same, twice}}"
    program = lowered(
        f"r = f32[2] {text.format('j, x, x, x, y, y')}\nROOT s = f32[2] {text.format('j, r, r, r, y, x')}"
    )
    assert [line.replace(" -> ", " ", 1) for line in blocks(program) if "cond=" in line][:4] == [
        "^entry ^r.b0_1, ^r.b2_4 cond=r.cond",
        "^r.b0_1 ^r.b0, ^r.b1 cond=r.b0_1.cond",
        "^r.b2_4 ^r.b2, ^r.b3_4 cond=r.b2_4.cond",
        "^r.b3_4 ^r.b3, ^r.b4 cond=r.b3_4.cond",
    ]
    names = [program.strings[int(name)] for name in program.locations.name]
    assert sorted({name for name in names if name.startswith("below")}) == [f"below.{n}" for n in range(1, 5)]
    expected = {0: [1, 2], 1: [4, 8], 2: [1, 2], 3: [5, 7], 4: [2, 4]}
    for number in (-(2**31), -1, 0, 1, 2, 3, 4, 5, 2**31 - 1):
        assert run(program, j=number)[0][0].tolist() == expected[number if 0 <= number < 4 else 4]


def test_one_branch_is_no_branch() -> None:
    program = lowered("ROOT r = f32[2] conditional(k, x), branch_computations={negated}")
    assert blocks(program) == ["^entry"]
    assert run(program, k=9)[0][0].tolist() == [-1, -2]


def test_a_converted_predicate_decides_itself() -> None:
    program = lowered(
        "p = pred[] not(g)\nq = s32[] convert(p)\n"
        "ROOT r = f32[2] conditional(q, x, y), branch_computations={negated, twice}"
    )
    assert blocks(program)[0] == "^entry -> ^r.true, ^r.false cond=p"
    assert "compare" not in opcodes(program)
    assert run(program, g=True)[0][0].tolist() == [-1, -2]
    assert run(program, g=False)[0][0].tolist() == [10, 14]


def test_many_branches_in_each_other() -> None:
    """No recursion over them."""
    more = "".join(
        f"n{at} {{\nx = f32[2] parameter(0)\np = pred[] constant(true)\n"
        f"ROOT y = f32[2] conditional(p, x, x), true_computation={f'n{at - 1}' if at else 'twice'}, "
        "false_computation=negated\n}\n"
        for at in range(1500)
    )
    text = module("ROOT r = f32[2] conditional(g, x, x), true_computation=n1499, false_computation=same", more=more)
    assert verify(lower(parse_hlo(text))) == []


# -- loops and branches ---------------------------------------------------------------------------------------

LOOP = """
body {
  s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[2] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  odd = s32[] and(i, one)
  w = f32[2] conditional(odd, v, v), branch_computations={twice, negated}
  ROOT t = (s32[], f32[2]) tuple(next, w)
}
condition {
  s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}
looped {
  v = f32[2] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[2]) tuple(zero, v)
  w = (s32[], f32[2]) while(s), condition=condition, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1
}
"""


def test_a_branch_in_a_loop_in_an_arm() -> None:
    program = lowered(
        "v = f32[2] negate(x)\nROOT r = f32[2] conditional(g, v, v), true_computation=looped, false_computation=same",
        more=LOOP,
    )
    assert blocks(program) == [
        "^entry -> ^r.true, ^r.end cond=r.cond",
        "^r.true -> ^w",
        "^w -> ^w.body, ^w.end trip=3 cond=c",
        "^w.body -> ^w_2.b0, ^w_2.b1 cond=w.cond",
        "^w_2.b0 -> ^w_2.end",
        "^w_2.b1 -> ^w_2.end",
        "^w_2.end -> ^w",
        "^w.end -> ^r.end",
        "^r.end",
    ]
    # The state is updated in place: what is copied is both counters and the condition.
    assert opcodes(program).count("dma_copy") == 3
    assert run(program, g=True)[0][0].tolist() == [4, 8]
    assert run(program, g=False)[0][0].tolist() == [-1, -2]


def test_a_branch_in_the_condition_of_a_loop() -> None:
    condition = LOOP.replace("ROOT c = pred[] compare", "c = pred[] compare").replace(
        "direction=LT\n", "direction=LT\n  ROOT d = pred[] conditional(c, c, c), true_computation=id, "
        "false_computation=id\n",
    )  # fmt: skip
    more = "id {\n  ROOT x = pred[] parameter(0)\n}\n" + condition
    assert "a conditional in the condition of a loop is not supported" in message(
        "ROOT r = f32[2] call(x), to_apply=looped", more=more
    )


# -- what does not fit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("conditional(x, x, x), true_computation=same, false_computation=same", "found f32[2]"),
        ("conditional(), true_computation=same, false_computation=same", "found no operand"),
        ("conditional(f, x, x), true_computation=same", "needs the attribute `false_computation`"),
        ("conditional(f, x, x), branch_computations={same, same}", "needs the attribute `true_computation`"),
        ("conditional(k, x, x), true_computation=same, false_computation=same", "attribute `branch_computations`"),
        ("conditional(k, x, x), branch_computations={same, same, same}", "with 3 branches takes 4 operands, found 3"),
        ("conditional(k), branch_computations={}", "with 0 branches takes 1 operands"),
        ("conditional(f, x, k), true_computation=same, false_computation=same", "%same takes (f32[2])"),
        ("conditional(f, x, x), true_computation=same, false_computation=nothing", "%nothing is not defined"),
        ("conditional(f, x, q), true_computation=same, false_computation=pair", f"returns {PAIR}, expected f32[2]"),
        ("conditional(f, x, x), true_computation=same, false_computation=same, what=1", "the attribute `what`"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(entry: str, expected: str) -> None:
    assert expected in message(f"q = {PAIR} tuple(x, y)\nROOT r = f32[2] {entry}")
