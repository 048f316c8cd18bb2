"""split_uniform leaves a program provable where operands move with loops that do not say how often they run."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

import haulout
from haulout.ir.replicate import replicate
from haulout.ir.text import parse_bir
from haulout_generators.state_programs import random_state_program

TABLE = """bir 1
program "table" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %rows dram.local size=6144 kind=input dtype=s32 shape=[24,8,8]
    mloc %add dram.local size=256 kind=input dtype=s32 shape=[8,8]
    mloc %one dram.local size=4 kind=const dtype=s32 shape=[] data="AQAAAA=="
    mloc %trips dram.local size=4 kind=const dtype=s32 shape=[] data="BQAAAA=="
    mloc %k dram.local size=4 dtype=s32 shape=[]
    mloc %go dram.local size=1 dtype=pred shape=[]
    mloc %table dram.local size=6144 kind=output dtype=s32 shape=[24,8,8]
    block ^entry -> ^loop:
      %zero = memset @vector () -> (%k) seq=0 value=0
      %all = dma_copy @dma0 (%rows) -> (%table) seq=1
    block ^loop -> ^body, ^end cond=go:
      %less = compare @vector (%k, %trips) -> (%go) seq=2 direction=LT
    block ^body -> ^loop:
      %row = add @vector (%rows[0:256], %add) -> (%table[0:256]) seq=3 STEPS SHAPES
      %count = add @vector (%k, %one) -> (%k) seq=4
    block ^end:
  }
}
""".replace("SHAPES", "shapes=[[8,8],[8,8],[8,8]]").replace("STEPS", "step=[[0,loop,256,0],[2,loop,256,MODULUS]]")


@pytest.mark.parametrize("modulus", [0, 3])
@pytest.mark.parametrize("cores", [2, 4])
def test_rows_of_a_table(cores: int, modulus: int) -> None:
    alike = [list(range(cores))]
    program = replicate(parse_bir(TABLE.replace("MODULUS", str(modulus))), cores, same={0: alike, 1: alike})
    result = haulout.compile(program)
    assert result.proved, [str(each) for each in result.diagnostics]
    assert len(set(result.program.patterns.offset.tolist())) == cores, "each core writes another part of a row"
    expected = haulout.simulate(haulout.compile(program, share="none").program, seed=1).outputs["nc0/table"]
    found = haulout.simulate(result.program, seed=1).outputs
    assert any(value.tobytes() == expected.tobytes() for value in found.values())


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32), cores=st.sampled_from([2, 4]))
def test_what_is_proved_undivided_is_proved_divided(seed: int, cores: int) -> None:
    program = random_state_program(Random(seed), cores=cores)
    result = haulout.compile(program)
    assert result.proved or not haulout.compile(program, share="none").proved, [str(x) for x in result.diagnostics]
