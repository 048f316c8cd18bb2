"""Loops: their blocks, the copies they need and those they do not, and what is said about what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.frontends.hlo.executor import Executor

from haulout.frontends.hlo import lower, parse_hlo
from haulout.frontends.hlo.parallel_copies import sequentialize
from haulout.ir.enums import Kind
from haulout.ir.program import Program
from haulout.ir.text.parser import parse_bir
from haulout.ir.text.printer import print_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

DATA = Path(__file__).parent / "data"
CONDITION = (
    "  ci = s32[] get-tuple-element(cs), index=0\n  limit = s32[] constant(3)\n"
    "  ROOT c = pred[] compare(ci, limit), direction=LT"
)


def loop(
    arrays: int, body: str, news: str, inits: str, result: str = "w1", *, condition: str = CONDITION, header: str = ""
) -> str:
    """Three iterations over a counter and some f32[2]: `s1`, `s2`, ... in the body, `w1`, `w2`, ... behind it.

    The parameters are `x` and `y`; `before` the loop and `after` it are lines of the body of the entry.
    """
    state = f"({', '.join(['s32[]', *['f32[2]'] * arrays])})"

    def parts(prefix: str, whole: str) -> str:
        return "".join(
            f"  {prefix}{at} = f32[2] get-tuple-element({whole}), index={at}\n" for at in range(1, arrays + 1)
        )

    outputs = result.split(", ")
    shape = f"({', '.join(['f32[2]'] * len(outputs))})"
    return (
        f"HloModule m{header}\n"
        f"body {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n{parts('s', 's')}"
        f"  one = s32[] constant(1)\n{body}  i.next = s32[] add(i, one)\n"
        f"  ROOT t = {state} tuple(i.next, {news})\n}}\n"
        f"condition {{\n  cs = {state} parameter(0)\n{condition}\n}}\n"
        "ENTRY e {\n  x = f32[2] parameter(0)\n  y = f32[2] parameter(1)\n  zero = s32[] constant(0)\n"
        f"  start = {state} tuple(zero, {inits})\n  w = {state} while(start), condition=condition, body=body\n"
        f"{parts('w', 'w')}  ROOT r = {shape} tuple({result})\n}}\n"
    )


def lowered(text: str) -> Program:
    found = lower(parse_hlo(text, "m.hlo"))
    assert verify(found) == []
    assert print_bir(parse_bir(print_bir(found))) == print_bir(found)
    return found


def blocks(found: Program) -> dict[str, list[str]]:
    """The instructions of core 0 as `opcode(reads)->(writes)`, block by block; the counter is left out."""

    def names(operands: list[Any]) -> str:
        return ",".join(location.name for location, _ in operands)

    return {
        block.name: [
            text
            for row in block
            if "w.c0" not in (text := f"{row.opcode}({names(row.reads)})->({names(row.writes)})")
        ]
        for block in found.module_views()[0].functions[0].blocks
    }


def run(found: Program) -> list[list[float]]:
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    return [value.tolist() for value in Executor(found).run([[x, y]] * found.lnc)[0]]


def message(text: str) -> str:
    with pytest.raises(HauloutError) as caught:
        lowered(text)
    span = caught.value.diagnostics[0].span
    assert span is not None and span.line
    return str(caught.value)


# -- blocks ---------------------------------------------------------------------------------------------------


def test_header_body_and_end() -> None:
    found = lowered(loop(1, "  n1 = f32[2] add(s1, s1)\n", "n1", "x"))
    (function,) = found.module_views()[0].functions
    assert [block.name for block in function.blocks] == ["entry", "w", "w.body", "w.end"]
    assert [[next.name for next in block.successors] for block in function.blocks] == [
        ["w"], ["w.body", "w.end"], ["w"], [],
    ]  # fmt: skip
    header = found.blocks.take(slice(1, 2))
    assert header.trip.tolist() == [3]
    assert found.strings[int(found.locations.name[header.cond[0]])] == "c"
    seq = found.instructions.seq.tolist()
    assert seq == sorted(set(seq))
    assert run(found) == [[8, 16]]


def two_loops(start: str, result: str) -> str:
    """Two loops that multiply by 8: `w1` from `m`, which is -x, and `v1` from `start`."""
    text = loop(1, "  n1 = f32[2] add(s1, s1)\n", "n1", "m", result)
    lines = (
        f"  again = (s32[], f32[2]) tuple(zero, {start})\n"
        "  w.body = (s32[], f32[2]) while(again), condition=condition, body=body\n"
        "  v1 = f32[2] get-tuple-element(w.body), index=1\n"
    )
    return text.replace("  start =", "  m = f32[2] negate(x)\n  start =").replace("  ROOT r =", f"{lines}  ROOT r =")


def test_one_computation_for_two_loops() -> None:
    found = lowered(two_loops("w1", "v1"))
    (function,) = found.module_views()[0].functions
    names = [block.name for block in function.blocks]
    assert names == ["entry", "w", "w.body", "w.end", "w.body_2", "w.body_2.body", "w.body_2.end"]
    assert run(found) == [[-64, -128]]


def test_what_branches_is_always_written_in_the_header() -> None:
    text = loop(
        1,
        "  n1 = f32[2] add(s1, s1)\n",
        "n1",
        "x",
        condition="  z = s32[] get-tuple-element(cs), index=0\n  ROOT c = pred[] constant(false)",
    )
    found = lowered(text)
    assert blocks(found)["w"] == ["dma_copy(c)->(w.cond)"]
    assert run(found) == [[1, 2]]


def test_what_was_computed_before_the_loop_is_copied_to_branch_on_it() -> None:
    condition = "  ROOT c = pred[] get-tuple-element(cs), index=2"
    text = loop(1, "  n1 = f32[2] add(s1, s1)\n", "n1", "x", condition=condition)
    text = text.replace("(s32[], f32[2])", "(s32[], f32[2], pred[])").replace("(i.next, n1)", "(i.next, n1, more)")
    text = text.replace("  one =", "  more = pred[] get-tuple-element(s), index=2\n  one =")
    text = text.replace("tuple(zero, x)", "tuple(zero, x, never)")
    text = text.replace("  start =", "  never = pred[] compare(zero, zero), direction=NE\n  start =")
    found = lowered(text)
    assert blocks(found)["w"] == ["dma_copy(never)->(w.cond)"]
    assert run(found) == [[1, 2]]


# -- copies ---------------------------------------------------------------------------------------------------


def test_an_array_that_only_passes_through_is_read_where_it_is() -> None:
    found = lowered(loop(2, "  n1 = f32[2] add(s1, s2)\n", "n1, s2", "x, y", "w1, w2"))
    assert blocks(found) == {
        "entry": ["dma_copy(x)->(w1)"],
        "w": [],
        "w.body": ["add(w1,y)->(w1)"],
        "w.end": ["dma_copy(y)->(r.1)"],
    }
    assert run(found) == [[10, 14], [3, 4]]


def test_a_value_that_is_needed_again_is_not_overwritten() -> None:
    assert run(lowered(two_loops("m", "w1, v1"))) == [[-8, -16], [-8, -16]]
    assert run(lowered(two_loops("w1", "w1, v1"))) == [[-8, -16], [-64, -128]]


def nested() -> str:
    """The outer loop carries `s1` through the inner one, which adds `s2` to it; `s2` passes through both."""
    text = loop(2, "  n1 = f32[2] add(s1, s2)\n", "n1, s2", "x, y")
    state = "(s32[], f32[2], f32[2])"
    outer = (
        f"outer {{\n  o = {state} parameter(0)\n  oi = s32[] get-tuple-element(o), index=0\n"
        "  o1 = f32[2] get-tuple-element(o), index=1\n  o2 = f32[2] get-tuple-element(o), index=2\n"
        f"  zero = s32[] constant(0)\n  in = {state} tuple(zero, o1, o2)\n"
        f"  inner = {state} while(in), condition=condition, body=body\n"
        "  m1 = f32[2] get-tuple-element(inner), index=1\n  m2 = f32[2] get-tuple-element(inner), index=2\n"
        f"  one = s32[] constant(1)\n  next = s32[] add(oi, one)\n  ROOT t = {state} tuple(next, m1, m2)\n}}\n"
    )
    before, entry = text.split("ENTRY")
    return before + outer + "ENTRY" + entry.replace("body=body", "body=outer")


def test_loops_in_loops() -> None:
    found = lowered(nested())
    assert blocks(found) == {
        "entry": ["dma_copy(x)->(w1)"],
        "w": [],
        "w.body": ["dma_copy(zero_2)->(inner.c0)"],
        "inner": ["compare(inner.c0,limit_2)->(c_2)"],
        "inner.body": ["add(w1,y)->(w1)", "add(inner.c0,one)->(inner.c0)"],
        "inner.end": [],
        "w.end": [],
    }
    (function,) = found.module_views()[0].functions
    assert [[next.name for next in block.successors] for block in function.blocks] == [
        ["w"], ["w.body", "w.end"], ["inner"], ["inner.body", "inner.end"], ["inner"], ["w"], [],
    ]  # fmt: skip
    assert run(found) == [[28, 38]]


def test_an_inner_loop_starts_from_the_same_value_in_every_iteration() -> None:
    """It starts from -y and adds the state of the outer loop three times; the sum is the new state."""
    text = nested().replace("tuple(zero, o1, o2)", "tuple(zero, o2, o1)").replace("(next, m1, m2)", "(next, m1, o2)")
    text = text.replace("tuple(zero, x, y)", "tuple(zero, x, m)").replace(
        "  start", "  m = f32[2] negate(y)\n  start"
    )
    found = lowered(text)
    x, m = np.array([1, 2]), np.array([-3, -4])
    for _ in range(3):
        x = m + 3 * x
    assert run(found) == [x.tolist()]


def test_the_stored_module() -> None:
    """Loops in loops, exchanged initial values, donated parameters, against a few lines of NumPy."""
    found = lowered((DATA / "loops.n2.hlo").read_text())
    generator = np.random.default_rng(3)
    inputs = [[generator.standard_normal(4).astype(np.float32) for _ in range(3)] for _ in range(2)]
    xs, ys, zs = (np.array([values[at] for values in inputs]) for at in range(3))
    stack = np.zeros((2, 6, 4), np.float32)
    for row in (0, 2, 4):
        for _ in range(3):
            xs, ys = ys, xs.sum(axis=0) / 2 + zs
        stack[:, row] = xs
        xs, ys = ys, xs
    small = ys
    while True:
        small = small * np.float32(0.1)
        if (small**2).sum() <= 0.001:
            break
    for core, outputs in enumerate(Executor(found).run(inputs)):
        for value, expected in zip(outputs, (xs, ys, stack, np.array([6, 6]), zs, small), strict=True):
            np.testing.assert_allclose(value, expected[core], rtol=1e-5)


def test_what_nobody_needs_is_not_carried() -> None:
    found = lowered(loop(2, "  n1 = f32[2] add(s1, s1)\n  n2 = f32[2] exponential(s2)\n", "n1, n2", "x, y"))
    assert blocks(found)["w.body"] == ["add(w1,w1)->(w1)"]
    gone = lowered(loop(1, "  n1 = f32[2] add(s1, s1)\n", "n1", "x", "x"))
    assert list(blocks(gone)) == ["entry"]


def test_a_new_value_that_comes_too_early_is_copied() -> None:
    """The second reads the old value after the first has made the new one."""
    found = lowered(
        loop(2, "  n1 = f32[2] add(s1, s2)\n  n2 = f32[2] multiply(s1, n1)\n", "n1, n2", "x, y", "w1, w2")
    )
    assert blocks(found)["w.body"] == ["add(w1,w2)->(n1)", "multiply(w1,n1)->(w2)", "dma_copy(n1)->(w1)"]


def test_an_operation_that_may_not_overwrite_its_operand() -> None:
    found = lowered(loop(1, "  n1 = f32[2] reverse(s1), dimensions={0}\n", "n1", "x"))
    assert blocks(found)["w.body"] == ["dma_copy(w1)->(n1)", "dma_copy(n1)->(w1)"]
    assert run(found) == [[2, 1]]


def test_an_exchange_saves_one_value() -> None:
    found = lowered(loop(2, "", "s2, s1", "x, y", "w1, w2"))
    assert blocks(found)["w.body"] == [
        "dma_copy(w1)->(w1.saved)",
        "dma_copy(w2)->(w1)",
        "dma_copy(w1.saved)->(w2)",
    ]
    assert run(found) == [[3, 4], [1, 2]]


def test_a_slice_is_updated_in_place() -> None:
    body = "  u = f32[1] slice(s2), slice={[0:1]}\n  n1 = f32[2] dynamic-update-slice(s1, u, one)\n"
    found = lowered(loop(2, body, "n1, s2", "x, y"))
    assert blocks(found)["w.body"] == ["dma_copy(y)->(w1)"]
    assert run(found) == [[1, 3]]


def test_a_donated_parameter_is_the_state() -> None:
    alias = ", input_output_alias={ {0}: (0, {}) }"
    found = lowered(loop(1, "  n1 = f32[2] add(s1, s1)\n", "n1", "x", header=alias))
    assert blocks(found) == {"entry": [], "w": [], "w.body": ["add(x,x)->(x)"], "w.end": []}
    assert run(found) == [[8, 16]]


def test_a_donated_parameter_that_is_read_again_is_not_the_state() -> None:
    alias = ", input_output_alias={ {0}: (0, {}) }"
    found = lowered(loop(1, "  n1 = f32[2] add(s1, s1)\n", "n1", "x", "w1, x", header=alias))
    assert blocks(found)["w.body"] == ["add(w.c1,w.c1)->(w.c1)"]
    assert run(found) == [[8, 16], [1, 2]]
    inside = lowered(loop(2, "  n1 = f32[2] add(s1, s2)\n", "n1, s2", "x, x", header=alias))
    assert blocks(inside)["w.body"] == ["add(w.c1,x)->(w.c1)"]
    assert run(inside) == [[4, 8]]


def test_state_is_named_after_the_loop() -> None:
    found = lowered(loop(2, "  n1 = f32[2] add(s1, s2)\n  n2 = f32[2] negate(s2)\n", "n1, n2", "x, y"))
    kinds = {
        location.name: location.kind
        for location in found.module_views()[0].functions[0].locations
        if location.kind is not Kind.CONST
    }
    assert kinds == {
        "x": Kind.INPUT, "y": Kind.INPUT, "w1": Kind.OUTPUT, "w.c0": Kind.INTERNAL, "w.c2": Kind.INTERNAL,
        "c": Kind.INTERNAL,
    }  # fmt: skip


# -- what does not fit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (", condition=condition", "", "while needs the attribute `condition`"),
        (", body=body", "", "while needs the attribute `body`"),
        ("while(start)", "while(start, start)", "while takes one operand, found 2"),
        ("while(start)", "while(x)", "while: the value is f32[2], declared as (s32[], f32[2])"),
        ("condition=condition", "condition=body", "%body returns (s32[], f32[2]), expected pred[]"),
        ("body=body", "body=condition", "%condition returns pred[], expected (s32[], f32[2])"),
        ("body=body", "body=body, fast=true", "the attribute `fast` of while is not supported"),
        ("cs = (s32[], f32[2]) p", "cs = (s32[], f32[3]) p", "%condition takes ((s32[], f32[3]))"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(old: str, new: str, expected: str) -> None:
    text = loop(1, "  n1 = f32[2] add(s1, s1)\n", "n1", "x")
    assert old in text
    assert expected in message(text.replace(old, new))


def test_a_loop_in_a_condition() -> None:
    text = loop(1, "  n1 = f32[2] add(s1, s1)\n", "n1", "x")
    inner = text[text.index("condition {") : text.index("ENTRY")].replace("condition {", "outer {")
    inner = inner.replace("get-tuple-element(cs)", "get-tuple-element(v)").replace(
        "  ci =", "  v = (s32[], f32[2]) while(cs), condition=condition, body=body\n  ci ="
    )
    text = text.replace("ENTRY", inner + "ENTRY").replace(
        "while(start), condition=condition", "while(start), condition=outer"
    )
    assert "a loop in the condition of a loop is not supported" in message(text)


def test_a_loop_in_a_computation_on_scalars() -> None:
    text = (
        "HloModule m\nb {\n  p = f32[] parameter(0)\n  ROOT n = f32[] negate(p)\n}\n"
        "c {\n  p = f32[] parameter(0)\n  ROOT n = pred[] constant(false)\n}\n"
        "f {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT w = f32[] while(p), condition=c, body=b\n}\n"
        "ENTRY e {\n  x = f32[4] parameter(0)\n  z = f32[] constant(0)\n"
        "  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=f\n}\n"
    )
    assert "`while` is not supported" in message(text)


# -- copies in sequence ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 7), min_size=8, max_size=8), st.integers(0, 8))
def test_copies_in_sequence_are_copies_at_once(sources: list[int], count: int) -> None:
    values: dict[str, str] = {str(place): f"old {place}" for place in range(8)}
    expected = values | {str(target): f"old {sources[target]}" for target in range(count)}
    saved: list[str] = []

    def save(place: str) -> str:
        saved.append(f"saved {place}")
        return saved[-1]

    wanted = [(str(sources[target]), str(target)) for target in range(count)]
    names = {name: name for name in values}
    copies = sequentialize([(names[source], names[target]) for source, target in wanted], save)
    for source, target in copies:
        values[target] = values[source]
    assert {place: values[place] for place in expected} == expected
    assert len(copies) == len(saved) + sum(source != target for source, target in wanted)
