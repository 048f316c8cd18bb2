"""Patterns that move with the iteration (`step`): what they reach in a later one is ordered, too."""

from __future__ import annotations

import pytest

import haulout
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.pipeline import Fences

TEXT = """\
bir 1
program "moving" lnc=2
module @nc0 core=0 subgraph=0 {{
  func @main {{
    mloc %c dram.local size=1 kind=input
    mloc %x dram.shared size=32 kind=inout
    mloc %y dram.local size=8 kind=inout
    block ^entry -> ^head:
    block ^head -> ^body, ^behind cond=c trip=4:
    block ^body -> ^head:
      %write = memset @dma0 () -> (%x[0:8]) value=1 step=[[0,head,8,4]] seq=0
    block ^behind:
      {own}
  }}
}}
module @nc1 core=1 subgraph=0 {{
  func @main {{
    mloc %c dram.local size=1 kind=input
    mloc %x dram.shared size=32 remote=[x,0]
    mloc %y dram.local size=8 kind=inout
    block ^entry -> ^head:
    block ^head -> ^body, ^behind cond=c trip=4:
    block ^body -> ^head:
    block ^behind:
      {other}
  }}
}}
"""
READ = "%read = dma_copy @dma1 (%x[24:32]) -> (%y) seq=1"
"""The bytes that only the last iteration writes."""


@pytest.mark.parametrize("fences", ["minimal", "bracket"])
@pytest.mark.parametrize("core", [0, 1])
@pytest.mark.parametrize("step", ["[0,head,8,4]", "[0,head,8,4,1]"])
def test_a_later_iteration_is_ordered(step: str, core: int, fences: Fences) -> None:
    source = TEXT.format(own="" if core else READ, other=READ if core else "").replace("[0,head,8,4]", step)
    result = haulout.compile(parse_bir(source), fences=fences)
    assert f"step=[{step}]" in print_bir(result.program)
    assert [each.message for each in result.diagnostics if each.code != "added-rendezvous"] == []
