"""A pass that ran already changes nothing when it runs again."""

from __future__ import annotations

from random import Random

import pytest

from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.anti_dependency_analyzer import AntiDependencyAnalyzerPostSharedDram
from haulout.passes.base import PassContext
from haulout.passes.build_fdeps import BuildFdeps
from haulout.passes.localize_shared_memory import LocalizeSharedMemory
from haulout_generators.branch_programs import random_branch_program

MARKED = """
bir 1
program "branches" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=input
    mloc %p dram.local size=1 kind=input
    mloc %a dram.local size=64
    mloc %out dram.local size=64 kind=output
    block ^fork -> ^then, ^join cond=p:
      %first = dma_copy @dma0 (%x) -> (%a)
    block ^then -> ^join:
      %left = copy @vector (%x) -> (%a) deps=[first]
    block ^join:
      %last = copy @act (%a) -> (%out)
  }
}
"""


@pytest.mark.parametrize("made", [BuildFdeps(), AntiDependencyAnalyzerPostSharedDram(), LocalizeSharedMemory()])
def test_a_second_run_changes_nothing(made: BuildFdeps) -> None:
    for seed in range(12):
        once = made.run(random_branch_program(Random(f"twice {seed}")), PassContext())
        assert print_bir(made.run(once, PassContext())) == print_bir(once)


@pytest.mark.parametrize("note", ["", " note=1", ' comment="join=true"'])
def test_joins_are_found_again_with_other_attributes(note: str) -> None:
    once = print_bir(run(parse_bir(MARKED)))
    assert once.count("join=true") == 1
    noted = once.replace("join=true", f"join=true{note}")
    assert print_bir(run(parse_bir(noted))).count("= nop") == once.count("= nop")


def test_only_a_nop_without_operands_can_be_a_join() -> None:
    marked = MARKED.replace("(%a) -> (%out)", "(%a) -> (%out) deps=[first] join=true")
    (row,) = [line for line in print_bir(run(parse_bir(marked))).splitlines() if "%last" in line]
    assert "deps=[first" in row  # its own edges are kept


def run(program: Program) -> Program:
    return BuildFdeps().run(program, PassContext())
