"""Dynamic slices and updates that move with a loop: what becomes a view, and the same numbers as NumPy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontends.hlo.executor import Executor
from tests.frontends.hlo.test_hlo_loops import lowered
from tests.passes.test_split_uniform import ENGINES, FREE
from tests.tiers import examples

import haulout
from haulout.ir.program import Program

STARTS: dict[str, tuple[str, Any]] = {
    "forward": ("  at = s32[] add(i, zero)\n", lambda k, n: k),
    "backward": (
        "  last = s32[] constant(N1)\n  at = s32[] subtract(last, i)\n",
        lambda k, n: n - 1 - k,
    ),
    "wrapped": (
        "  n = s32[] constant(N)\n  low = pred[] compare(i, zero), direction=LT\n  up = s32[] add(i, n)\n"
        "  at = s32[] select(low, up, i)\n",
        lambda k, n: k,
    ),
    "twice": ("  at = s32[] add(i, i)\n", lambda k, n: 2 * k),
    "square": ("  at = s32[] multiply(i, i)\n", lambda k, n: k * k),
    "third": ("  three = s32[] constant(2)\n  at = s32[] add(three, zero)\n", lambda k, n: 2),
    "negative": ("  five = s32[] constant(5)\n  at = s32[] subtract(i, five)\n", lambda k, n: k - 5),
}
"""What computes the start from the counter `i`, and the same in Python."""


def text(trips: int, n: int, width: int, start: str, reader: str, *, cores: int = 1, operand: str = "x") -> str:
    """A loop that adds up what `reader` makes of x[at], and stores it in out[at]; x and out are f32[n, width]."""
    row, stack = f"f32[1,{width}]", f"f32[{n},{width}]"
    state = f"(s32[], f32[{width}], {stack}, {stack})"
    lines = STARTS[start][0].replace("N1", str(n - 1)).replace("N", str(n))
    written = {"x": "old", "out": "out.old"}[operand]
    sharding = ", sharding={replicated}" if cores > 1 else ""
    return (
        f"HloModule m, num_partitions={cores}\n"
        f"body {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        f"  sum = f32[{width}] get-tuple-element(s), index=1\n  old = {stack} get-tuple-element(s), index=2\n"
        f"  out.old = {stack} get-tuple-element(s), index=3\n"
        f"  zero = s32[] constant(0)\n  one = s32[] constant(1)\n{lines}"
        f"  part = {row} dynamic-slice({written}, at, zero), dynamic_slice_sizes={{1,{width}}}\n"
        f"  w = f32[{width}] reshape(part)\n{READERS[reader].replace('WIDTH', str(width))}"
        f"  more = f32[{width}] add(sum, r)\n  row = {row} reshape(more)\n"
        f"  new = {stack} dynamic-update-slice(out.old, row, at, zero)\n  next = s32[] add(i, one)\n"
        f"  ROOT t = {state} tuple(next, more, old, new)\n}}\n"
        f"condition {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        f"  limit = s32[] constant({trips})\n  ROOT c = pred[] compare(i, limit), direction=LT\n}}\n"
        f"ENTRY e {{\n  x = {stack} parameter(0){sharding}\n  y = f32[{width}] parameter(1){sharding}\n"
        f"  zero = s32[] constant(0)\n  nought = f32[] constant(0)\n"
        f"  empty = {stack} broadcast(nought), dimensions={{}}\n"
        f"  start = {state} tuple(zero, y, x, empty)\n  loop = {state} while(start), condition=condition, body=body\n"
        f"  sums = f32[{width}] get-tuple-element(loop), index=1\n"
        f"  outs = {stack} get-tuple-element(loop), index=3\n"
        f"  ROOT r = (f32[{width}], {stack}) tuple(sums, outs)\n}}\n"
    )


READERS = {
    "map": "  r = f32[WIDTH] multiply(w, w)\n",
    "reverse": "  r = f32[WIDTH] reverse(w), dimensions={0}\n",
    "dot": (
        "  d = f32[] dot(w, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "  r = f32[WIDTH] broadcast(d), dimensions={}\n"
    ),
    "stored": (
        "  p = f32[] constant(0)\n  padded = f32[WIDTH] pad(w, p), padding=0_0\n  r = f32[WIDTH] negate(padded)\n"
    ),
}
COMPUTED = {
    "map": lambda w: w * w,
    "reverse": lambda w: w[::-1],
    "dot": lambda w: np.full_like(w, w @ w),
    "stored": lambda w: -w,
}


def expected(trips: int, n: int, start: str, reader: str, operand: str, x: Any, y: Any) -> list[Any]:
    total, out = y.copy(), np.zeros_like(x)
    for k in range(trips):
        at = min(max(STARTS[start][1](k, n), 0), n - 1)
        total = total + COMPUTED[reader]((x if operand == "x" else out)[at])
        out[at] = total
    return [total, out]


def whole_numbers(n: int, width: int) -> tuple[Any, Any]:
    """Few and small, so that every order of a sum gives the same bits."""
    return np.arange(n * width, dtype="f4").reshape(n, width) % 3, np.arange(width, dtype="f4") % 2


def opcodes(program: Program) -> list[str]:
    return [program.strings[int(opcode)] for opcode in program.instructions.opcode]


CASES = {
    "trips": st.integers(1, 5),
    "n": st.integers(1, 6),
    "width": st.integers(1, 4),
    "start": st.sampled_from(sorted(STARTS)),
    "reader": st.sampled_from(sorted(READERS)),
    "operand": st.sampled_from(["x", "out"]),
}


@given(**CASES)
def test_loops_compute_what_numpy_does(trips: int, n: int, width: int, start: str, reader: str, operand: str) -> None:
    program = lowered(text(trips, n, width, start, reader, operand=operand))
    x, y = whole_numbers(n, width)
    found = Executor(program).run([[x, y]])[0]
    for mine, theirs in zip(found, expected(trips, n, start, reader, operand, x, y), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    places = [min(max(STARTS[start][1](k, n), 0), n - 1) for k in range(trips)]
    is_affine = len(set(np.diff(places).tolist())) <= 1
    assert ("dynamic_slice" not in opcodes(program)) == is_affine
    assert (len(program.steps) > 0) == (is_affine and len(set(places)) > 1)


@settings(max_examples=examples(40), deadline=None)
@given(**CASES)
def test_compiled_programs_do_too(
    tmp_path_factory: pytest.TempPathFactory,
    trips: int,
    n: int,
    width: int,
    start: str,
    reader: str,
    operand: str,
) -> None:
    """Work that is equal on both cores is divided or not, with both ways to place fences."""
    free = tmp_path_factory.mktemp("target") / "free.toml"
    free.write_text(FREE + ENGINES)
    program = lowered(text(trips, n, width, start, reader, cores=2, operand=operand))
    x, y = whole_numbers(n, width)
    inputs = {f"nc{core}/{name}": value for core in range(2) for name, value in (("x", x), ("y", y))}
    wanted = expected(trips, n, start, reader, operand, x, y)
    for share in ("none", "all"):
        for fences in ("minimal", "bracket"):
            result = haulout.compile(program, share=share, fences=fences, target=free)  # type: ignore[arg-type]
            assert result.proved and not result.report.assumed_trips
            outputs = haulout.simulate(result.program, inputs, seed=trips).outputs
            for core in range(2):
                for name, value in zip(result.program.output_names, wanted, strict=True):
                    np.testing.assert_array_equal(outputs[f"nc{core}/{name}"].reshape(value.shape), value)


def test_a_slice_needs_no_bytes() -> None:
    program = lowered(text(3, 3, 4, "wrapped", "map"))
    names = {program.strings[int(name)] for name in program.locations.name}
    assert "part" not in names
    steps = program.steps
    assert steps.stride.tolist() == [16, 16]  # the read of x, the write of the result
    assert program.accesses.write[steps.access].tolist() == [False, True]


def test_a_slice_of_what_the_loop_overwrites_is_a_copy_of_known_bytes() -> None:
    program = lowered(text(3, 3, 4, "backward", "map", operand="out"))
    moving = program.accesses.instruction[program.steps.access].tolist()
    assert [opcodes(program)[row] for row in moving] == ["dma_copy", "dma_copy"]
    assert program.steps.stride.tolist() == [-16, -16]


def test_a_reader_that_takes_no_strides_reads_a_copy_of_known_bytes() -> None:
    program = lowered(text(3, 3, 4, "forward", "stored"))
    row = int(program.accesses.instruction[program.steps.access[0]])
    assert opcodes(program)[row] == "dma_copy"
    assert "dynamic_slice" not in opcodes(program)


def test_a_loop_of_unknown_length_keeps_its_slices() -> None:
    given = text(3, 3, 4, "forward", "map").replace("  limit = s32[] constant(3)\n", "  limit = s32[] add(i, i)\n")
    program = lowered(given)
    assert not len(program.steps)
    assert {"dynamic_slice", "dynamic_update_slice"} <= set(opcodes(program))


def test_a_loop_with_a_branch_keeps_its_slices() -> None:
    """All ways through all iterations would be too many for a proof."""
    given = text(8, 8, 4, "forward", "map").replace(
        "  r = f32[4] multiply(w, w)\n",
        "  two = s32[] constant(2)\n  left = s32[] remainder(i, two)\n"
        "  is = pred[] compare(left, zero), direction=EQ\n"
        "  r = f32[4] conditional(is, w, w), true_computation=double, false_computation=other\n",
    )
    arms = (
        "double {\n  a = f32[4] parameter(0)\n  ROOT b = f32[4] add(a, a)\n}\n"
        "other {\n  a = f32[4] parameter(0)\n  ROOT b = f32[4] negate(a)\n}\n"
    )
    program = lowered(given.replace("body {", arms + "body {", 1))
    assert not len(program.steps)
    assert {"dynamic_slice", "dynamic_update_slice"} <= set(opcodes(program))
    assert haulout.compile(program).proved


def test_a_slice_of_a_slice_moves_with_both() -> None:
    """The first is of two rows at i, the second of the row at i of these, clamped to the last one."""
    given = text(4, 8, 2, "forward", "map").replace(
        "  part = f32[1,2] dynamic-slice(old, at, zero)",
        "  two = f32[5,2] dynamic-slice(old, at, zero), dynamic_slice_sizes={5,2}\n"
        "  part = f32[1,2] dynamic-slice(two, at, zero)",
    )
    program = lowered(given)
    x, y = whole_numbers(8, 2)
    total, out = y.copy(), np.zeros_like(x)
    for k in range(4):
        total = total + x[min(k, 3) + k] ** 2
        out[k] = total
    np.testing.assert_array_equal(Executor(program).run([[x, y]])[0][1], out)
    assert program.steps.stride.tolist() == [16, 8]


def test_an_inner_loop_reads_what_moves_with_the_outer_one() -> None:
    """The start is the outer counter, which the inner loop does not change."""
    given = """HloModule m
inner {
  s = (s32[], f32[2], s32[], f32[3,2]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  sum = f32[2] get-tuple-element(s), index=1
  i = s32[] get-tuple-element(s), index=2
  x = f32[3,2] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  part = f32[1,2] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,2}
  w = f32[2] reshape(part)
  more = f32[2] add(sum, w)
  next = s32[] add(j, one)
  ROOT t = (s32[], f32[2], s32[], f32[3,2]) tuple(next, more, i, x)
}
inner.condition {
  s = (s32[], f32[2], s32[], f32[3,2]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  two = s32[] constant(2)
  ROOT c = pred[] compare(j, two), direction=LT
}
outer {
  s = (s32[], f32[2], f32[3,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  sum = f32[2] get-tuple-element(s), index=1
  x = f32[3,2] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  start = (s32[], f32[2], s32[], f32[3,2]) tuple(zero, sum, i, x)
  w = (s32[], f32[2], s32[], f32[3,2]) while(start), condition=inner.condition, body=inner
  more = f32[2] get-tuple-element(w), index=1
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[2], f32[3,2]) tuple(next, more, x)
}
outer.condition {
  s = (s32[], f32[2], f32[3,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}
ENTRY e {
  x = f32[3,2] parameter(0)
  y = f32[2] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[2], f32[3,2]) tuple(zero, y, x)
  w = (s32[], f32[2], f32[3,2]) while(start), condition=outer.condition, body=outer
  ROOT r = f32[2] get-tuple-element(w), index=1
}
"""
    program = lowered(given)
    x, y = whole_numbers(3, 2)
    np.testing.assert_array_equal(Executor(program).run([[x, y]])[0][0], y + 2 * x.sum(axis=0))
    (header,) = program.steps.header.tolist()
    assert program.strings[int(program.blocks.name[header])] == "w"  # the outer loop comes first
    assert haulout.compile(program).proved


def test_the_opcode_of_a_moving_slice_means_nothing_in_text(tmp_path: Path) -> None:
    given = text(3, 3, 4, "forward", "map").replace(" dynamic-slice(", " moving-slice(")
    path = tmp_path / "m.hlo"
    path.write_text(given)
    assert "hlo.moving_slice" in list(haulout.compile(path).program.strings)
