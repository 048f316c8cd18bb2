"""alternate_buffers: fences an iteration, results, and which loops stay as they are."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import pytest

import haulout
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.alternate_buffers import AlternateBuffers
from haulout.passes.base import PassContext
from haulout.passes.lnc_splitter import LncSplitter

SIDE = 512
"""So that a fence takes less time than what it saves."""
STATE = """%dot = dot @pe (%h, %w) -> (%d) seq=4 lhs_contracting=[1] rhs_contracting=[0]
%next = tanh @act (%d) -> (%h) seq=5"""
COPIED = """%dot = dot @pe (%h, %w) -> (%d) seq=4 lhs_contracting=[1] rhs_contracting=[0]
%new = tanh @act (%d) -> (%n) seq=5
%old = dma_copy @dma1 (%h) -> (%y[0:2048]) seq=6 step=[[1,loop,2048,0]]
%next = dma_copy @dma0 (%n) -> (%h) seq=7"""


def loop(trip: int, body: str = STATE, *, says: bool = True, header: str = "") -> haulout.Program:
    """h = tanh(h w), so many times; y has its values."""
    large = f"dram.local size={4 * SIDE} dtype=f32 shape=[1,{SIDE}]"
    named = {"t": "dram.local size=4 dtype=s32 shape=[]", "u": "dram.local size=4 dtype=s32 shape=[]", "n": large}
    more = "\n".join(f"mloc %{name} {kind}" for name, kind in named.items() if f"%{name})" in header + body)
    count = np.array([trip], np.int32).tobytes()
    return parse_bir(f"""
bir 1
program "state" lnc=1 outputs=[h,y]
module @nc0 core=0 {{
  func @main {{
    mloc %w dram.local size={4 * SIDE * SIDE} kind=input dtype=f32 shape=[{SIDE},{SIDE}]
    mloc %h0 dram.local size={4 * SIDE} kind=input dtype=f32 shape=[1,{SIDE}]
    mloc %one dram.local size=4 kind=const dtype=s32 shape=[] data="AQAAAA=="
    mloc %trips dram.local size=4 kind=const dtype=s32 shape=[] data="{b64encode(count).decode()}"
    mloc %k dram.local size=4 dtype=s32 shape=[]
    {more}
    mloc %c dram.local size=1 dtype=pred shape=[]
    mloc %h dram.local size={4 * SIDE} kind=output dtype=f32 shape=[1,{SIDE}]
    mloc %d dram.local size={4 * SIDE} dtype=f32 shape=[1,{SIDE}]
    mloc %y dram.local size={4 * SIDE * max(trip, 1)} kind=output dtype=f32 shape=[{max(trip, 1)},{SIDE}]
    block ^entry -> ^loop:
      %zero = memset @vector () -> (%k) seq=0 value=0
      %start = dma_copy @dma0 (%h0) -> (%h) seq=1
      %empty = memset @vector () -> (%y) seq=2 value=0
    block ^loop -> ^body, ^end{f" trip={trip}" if says else ""} cond=c:
      %less = compare @vector (%k, %trips) -> (%c) seq=3 direction=LT
      {header}
    block ^body -> ^loop:
      {body}
      %count = add @vector (%k, %one) -> (%k) seq=9
    block ^end:
  }}
}}
""")


def changed(program: haulout.Program, cores: int = 2) -> tuple[haulout.Program, PassContext]:
    context = PassContext()
    return AlternateBuffers().run(LncSplitter(cores=cores).run(program, PassContext()), context), context


def fences_when_run(program: haulout.Program) -> int:
    """How many fences a core meets."""
    total = 0
    rows = program.barriers.instruction[program.instruction_core[program.barriers.instruction] == 0]
    for block in program.instructions.block[rows].tolist():
        times = 1
        for number in program.structure.loops_around(block):
            times *= program.structure.loops[number].trip
        total += times
    return total


@pytest.mark.parametrize("body", [STATE, COPIED])
@pytest.mark.parametrize("trip", range(9))
def test_one_fence_an_iteration(trip: int, body: str) -> None:
    program = loop(trip, body)
    rng = np.random.default_rng(trip)
    inputs = {name: (rng.standard_normal(shape) * 0.05).astype(np.float32) for name, shape in shapes().items()}
    alone = haulout.compile(program)
    expected = haulout.simulate(alone.program, inputs).outputs
    for cores in (2, 4):
        cloned = LncSplitter(cores=cores).run(program, PassContext())
        result = haulout.compile(cloned)
        assert result.proved
        found = haulout.simulate(result.program, inputs).outputs
        for name, value in expected.items():
            for core in range(cores):
                np.testing.assert_array_equal(found[name.replace("nc0", f"nc{core}")], value)
        loops = result.report.counters["alternate_buffers"]["loops"]
        if trip >= 4:
            assert loops == 1
            assert fences_when_run(result.program) <= trip + 3
        if trip < 2:
            assert loops == 0


def shapes() -> dict[str, tuple[int, int]]:
    return {"w": (SIDE, SIDE), "h0": (1, SIDE)}


def test_a_copy_of_the_new_state_is_gone() -> None:
    program, context = changed(loop(400, COPIED))
    assert context.counters["alternate_buffers"] == {"loops": 1, "buffers": 1}
    text = print_bir(program)
    assert "%next" not in text
    assert "%h.second" not in text
    assert "%new = tanh @act (%d) -> (%n)" in text
    assert "%new.second = tanh @act (%d) -> (%h)" in text


def test_what_the_header_computes_for_the_body_is_computed_in_between() -> None:
    header = "%twice = add @vector (%k, %k) -> (%t) seq=3"
    use = "\n%use = add @vector (%t, %k) -> (%u) seq=6"
    for body, copies in ((STATE, 0), (STATE + use, 1)):
        text = print_bir(changed(loop(6, body, header=header))[0])
        assert text.count("%twice.second = ") == 2 * copies
        assert text.count("%less.second = ") == 0


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (loop(6, says=False), "it is not known how often it runs"),
        (loop(1), "it runs less than twice"),
        (loop(6, STATE + "\n%odd = dma_copy @dma0 (%h) -> (%y[0:2048]) seq=6 step=[[1,loop,2048,3]]"),
         "an operand starts again after an odd number of iterations"),
    ],
)  # fmt: skip
def test_loops_that_stay(program: haulout.Program, reason: str) -> None:
    made, context = changed(program)
    assert made.structure == LncSplitter(cores=2).run(program, PassContext()).structure
    assert context.counters["alternate_buffers.left"] == {reason: 1}
